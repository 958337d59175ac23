"""Normalise: who asks what, of which place, under which policy; and cursors that continue their own query alone."""

import json
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.assembly import query as assembly
from operators.caching import keys
from operators.caching.keys import exact_key, state
from operators.query.collection import Destinations
from operators.query.cursor import After, Cursor, CursorCodec, PoolSlice
from operators.query.lookup import MOST_SEEN
from operators.query.normalise import Normalised, Normaliser
from operators.query.plan import Planner
from schemas.errors import ConfigError, DeadLetterClass, InputError
from schemas.query import Limit, QueryEvent
from schemas.recipes import SHIPPED, Recipe
from schemas.result import DenialCode
from schemas.settings import Defaults, FirewallSettings, PolicySettings, SourcePolicy, load
from schemas.settings.policies import IdentitySettings
from schemas.settings.ranking import PROFILES
from tests.operators.samples import CURSORS, bound, normaliser

SENT = 1_700_000_000.0
NORMALISE = normaliser()
LEAST: dict[str, Any] = {"qdrant": {"url": "http://q"}}


def normalised(
    normalise: Normaliser = NORMALISE, headers: Any = (), topic: str = "queries", **fields: Any
) -> Normalised:
    """A query, as it is understood."""
    event = QueryEvent.model_validate({"query_id": "q", "text": "t", **fields})
    return normalise(event, headers, topic, SENT)


def refusal(normalise: Normaliser = NORMALISE, **fields: Any) -> tuple[DeadLetterClass, str]:
    """Class and message of what is said to a query."""
    with pytest.raises(InputError) as caught:
        normalised(normalise, **fields)
    return caught.value.kind, str(caught.value)


def key_of(query: Normalised) -> bytes:
    """Under what its answer would be kept."""
    return exact_key(query.scope, query.query.text, query.query.event.vector)


# The query


def test_the_place_is_the_configurations() -> None:
    """Destination and collection together name Qdrant's; what the event leaves out has its default."""
    destinations = Destinations({"default": "documents", "d": "diary"}, {"d": {"notes": "notes"}})
    normalise = normaliser(destinations=destinations, defaults=Defaults(destination="d", namespace="acme"))
    query = normalised(normalise)
    assert (query.query.collection, query.query.namespace, query.query.now) == (
        "diary",
        "acme",
        SENT,
    )
    assert normalised(normalise, collection="notes", namespace="n").query.collection == "notes"
    assert refusal(normalise, destination="moon")[0] is DeadLetterClass.INVALID
    assert refusal(normalise, destination="default", collection="notes")[0] is DeadLetterClass.INVALID


def test_an_unknown_profile_is_said() -> None:
    """It is balanced, with a warning; and its answer is no other query's, which would get the warning, too."""
    unknown, balanced = normalised(profile="moon"), normalised(profile="balanced")
    assert (unknown.query.plan.name, len(unknown.warnings), balanced.warnings) == ("balanced", 1, [])
    assert key_of(unknown) != key_of(balanced) == key_of(normalised())


# Who asks

POLICIES = PolicySettings(
    default=SourcePolicy(namespaces=["public"]),
    sources={"shop": SourcePolicy(destinations=["default"]), "gone": SourcePolicy(read=False)},
)


@pytest.mark.parametrize(
    ("identity", "asked", "source"),
    [
        ({}, {"source": "shop"}, "shop"),
        ({}, {}, None),
        ({"by": "header", "header": "X-Source"}, {"source": "gone", "headers": (("x-source", b"shop"),)}, "shop"),
        ({"by": "header", "header": "X-Source"}, {"source": "shop"}, None),
        ({"by": "topic", "topics": {"theirs": "gone"}}, {"source": "shop", "topic": "theirs"}, "gone"),
        ({"by": "topic", "topics": {"theirs": "gone"}}, {"source": "shop"}, None),
    ],
)
def test_a_source_is_known_from_where_the_deployment_says(identity: Any, asked: Any, source: str | None) -> None:
    """The event's word counts only if it may; an unknown source has the default policy."""
    policies = POLICIES.model_copy(update={"identity": IdentitySettings(**identity)})
    query = normalised(normaliser(policies=policies), **asked)
    assert query.query.source == source
    assert json.loads(query.scope.query).get("source") == source
    its_own = normalised(normaliser(policies=PolicySettings(default=POLICIES.policy_for(source))))
    assert query.scope.policy_hash == its_own.scope.policy_hash


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"destination": "moon"},
        {"collection": "moon"},
        {"recipe": "moon"},
        {"overrides": {"moon": 1}},
        {"cursor": "x"},
    ],
)
def test_who_is_refused_learns_nothing_of_what_there_is(asked: dict[str, Any]) -> None:
    """A denial comes before every error that depends on the configuration, and the query goes nowhere."""
    query = normalised(normaliser(policies=POLICIES), source="gone", **asked)
    assert query.query.denial is not None
    assert (query.query.denial.code, query.query.collection) == (DenialCode.SOURCE_NOT_PERMITTED_TO_READ, "")


def test_policies_are_in_the_key() -> None:
    """Sources of different policies, and one source under another firewall, share no answer."""
    asked = {"source": "shop", "namespace": "public"}
    under = [
        normaliser(),
        normaliser(policies=POLICIES),
        normaliser(firewall=FirewallSettings(enabled=True)),
        normaliser(firewall=FirewallSettings(enabled=True, blocked_labels=["draft"])),
        normaliser(config_hash="1" * 64),
    ]
    assert len({key_of(normalised(each, **asked)) for each in under}) == len(under)
    strangers = [normalised(under[1], source=name, namespace="public").scope.policy_hash for name in ("a", "b")]
    assert strangers[0] == strangers[1] != normalised(under[1], **asked).scope.policy_hash


def test_a_changed_policy_of_a_file_is_in_the_key_of_the_next_query(tmp_path: Path) -> None:
    """No answer that was cached under the policy of before is given; sources whose policy stayed keep theirs."""
    file = tmp_path / "a.json"

    def write(clearance: str) -> None:
        file.write_text(json.dumps({"shop": {"clearance": clearance}, "other": {"clearance": "public"}}))

    write("restricted")
    policies = PolicySettings(files=[file])
    asked = {"namespace": "public"}
    firewall = FirewallSettings(enabled=True, namespaces={"public": "internal"})
    normalise = normaliser(policies=policies, firewall=firewall)
    keys = []
    for clearance in ("restricted", "internal", "public", "restricted"):
        write(clearance)
        policies.read_files(lambda *_: None)
        found = normalised(normalise, source="shop", **asked)
        assert (found.query.denial is not None) == (clearance == "public")
        keys.append((found.scope.policy_hash, normalised(normalise, source="other", **asked).scope.policy_hash))
    mine, others = zip(*keys, strict=True)
    assert len(set(mine)) == 3
    assert mine[0] == mine[-1]
    assert len(set(others)) == 1


# The key

RECIPES = {
    "hybrid": Recipe.parse("hybrid", {"stages": ["score", "reflections"]}),
    "other": Recipe.parse("other", {"stages": [{"score": {"alpha": 0.75}}, "reflections"]}),
}
PARTS = {"default": {"part": "p"}, "other": {"part": "op"}}
PLACES = normaliser(
    destinations=Destinations({"default": "documents", "other": "o"}, PARTS), planner=Planner(PROFILES, RECIPES)
)
CURSOR = CURSORS.write(Cursor(bound(normalised(PLACES)), None, SENT, PoolSlice(20, 100)))
OTHERS: dict[str, Any] = {
    "text": "u",
    "vector": [0.5, 0.25, 1.0],
    "namespace": "n",
    "destination": "other",
    "collection": "part",
    "source": "s",
    "lang": "de",
    "subject": "s",
    "actor_type": "user",
    "filters": [{"field": "year", "op": "eq", "value": 1}],
    "facets": [{"field": "year"}],
    "group_by": "subject",
    "group_size": 3,
    "group_score": "sum",
    "limit": 7,
    "cursor": CURSOR,
    "profile": "deep",
    "recipe": "other",
    "overrides": {"score": {"alpha": 0.25}},
    "rules": {"tv": {"then": {}}},
    "rerank": False,
    "post": False,
    "min_relevance": 0.5,
    "return": {"text": 300},
    "explain": True,
    "debug": True,
    "record": True,
    "include_reflections": False,
    "reflections_only": True,
    "reflection_boost": 2.0,
    "current_cycle": 5,
    "now": 5,
    "understood": [{"kind": "limit", "lt": 5.0}],
    "like": {"ids": ["a"]},
}
"""Of each field another value than a query has that doesn't say anything of it."""

OWN: dict[str, Any] = {
    "query_id": "r",
    "timeout_ms": 5,
    "reply_to": "answers",
    "metadata": {"a": 1},
    "schema_version": 1,
    # A page that a strict query is refused is cached for no other.
    "cursor_policy": "continue",
}
"""The fields that an answer doesn't depend on."""

LOOKUP: dict[str, Any] = {"text": None, "subject": "s"}


def test_every_field_is_in_the_key_or_the_querys_own() -> None:
    """A query that differs in any one field that can change its answer has another key; all fields are tried."""
    assert {*OTHERS, *OWN, "order_by"} == {field.alias or name for name, field in QueryEvent.model_fields.items()}
    plain = key_of(normalised(PLACES))
    for name, value in OTHERS.items():
        assert key_of(normalised(PLACES, **{name: value})) != plain, name
    orders: list[dict[str, Any]] = [
        {},
        *({"order_by": {"field": "year", "direction": each}} for each in ("asc", "desc")),
    ]
    assert len({key_of(normalised(PLACES, **LOOKUP, **order)) for order in orders}) == len(orders)
    assert key_of(normalised(PLACES, **OWN)) == plain


@pytest.mark.parametrize(
    "values",
    [
        [{"filters": [{"field": "f", "op": "eq", "value": value}]} for value in (1, 1.0, True, "1", "true", "")],
        [{"filters": [{"field": "f", "op": "any_of", "value": value}]} for value in (["a", "b"], ["a,b"], ['a","b'])],
        [{"filters": [{"field": "f", "op": op, "value": ["a"]}]} for op in ("any_of", "none_of")],
        [{"overrides": {"score": {"alpha": value}}} for value in (0, 0.25, 1)],
        [
            {"subject": "ab", "actor_type": "c"},
            {"subject": "a", "actor_type": "bc"},
            {"subject": '",'},
            {"subject": "n"},
        ],
        [{"group_size": value} for value in (None, 0, 1)],
        [{"include_reflections": value} for value in (None, False, True)],
        [{"explain": True}, {"debug": True}, {"record": True}, {"rerank": False}, {"post": False}, {"limit": -1}],
    ],
    ids=lambda values: min(values[0]),
)
def test_values_are_told_apart_by_their_types(values: list[dict[str, Any]]) -> None:
    """Any two have two keys, though they are equal to Python, or their texts are in a row."""
    found = {key_of(normalised(PLACES, **{"recipe": "hybrid", **each})) for each in values}
    assert len(found) == len(values)


CHOSEN = st.sets(st.sampled_from(sorted(OTHERS.keys() - {"cursor", "include_reflections", "overrides", "now", "like"})))


@given(CHOSEN, CHOSEN)
def test_two_queries_share_an_answer_only_if_they_are_one(one: set[str], other: set[str]) -> None:
    """Whatever two queries say, their keys are equal if and only if they say the same."""
    keys = [key_of(normalised(PLACES, **{name: OTHERS[name] for name in chosen})) for chosen in (one, other)]
    assert (keys[0] == keys[1]) == (one == other)


@given(st.text(min_size=1, max_size=9).filter(lambda text: not text.isspace()))
def test_one_text_however_it_is_composed(text: str) -> None:
    """Equivalent texts are one query, for caches and for cursors."""
    queries = [normalised(text=unicodedata.normalize(form, text)) for form in ("NFC", "NFD")]
    assert key_of(queries[0]) == key_of(queries[1])
    assert bound(queries[0]) == bound(queries[1])


# Wishes


def understood(**fields: Any) -> tuple[str | None, list[str]]:
    """The text that is searched, and the words of the query's wishes."""
    query = normalised(**fields).query
    return query.text, [each.words for each in query.understood or ()]


def test_wishes_are_taken_away_from_the_text() -> None:
    """A recipe with the stage reads them, but in keyword syntax; those that came with the query hold as they are."""
    text = "lamp under 50 euro without cable"
    off = {"wishes": {"exclusions": False}}
    sent = [{"kind": "exclusion", "words": "without cable", "without": "cable"}]
    assert understood(text=text) == ("lamp", ["under 50 euro", "without cable"])
    assert understood(text=text, overrides=off) == ("lamp without cable", ["under 50 euro"])
    assert understood(text=text, understood=sent) == ("lamp under 50 euro", ["without cable"])
    assert understood(text=text, understood=[]) == (text, [])
    assert understood(text=text, recipe="rrf") == (text, [])
    assert understood(text=text, post=False) == (text, [])
    assert understood(text=f'"lamp" {text}') == (f'"lamp" {text}', [])
    assert understood(text="under 50 euro") == ("under 50 euro", ["under 50 euro"])


def test_a_relative_date_is_of_the_clock_of_the_query() -> None:
    """Its days are in the wish, so that an answer is kept for the queries of the same day alone."""
    event, day = QueryEvent(query_id="q", text="notes updated yesterday"), 1_786_492_800.0
    early, late, after = (NORMALISE(event, (), "queries", day + each) for each in (0.0, 86_399.0, 86_400.0))
    (wish,) = early.query.understood
    assert isinstance(wish, Limit)
    assert (wish.gte, wish.lte, wish.unit, early.query.text) == (20_260_811, 20_260_811, "date", "notes")
    assert key_of(early) == key_of(late) != key_of(after)
    again = normalised(text="notes updated yesterday", now=day + 86_400.0)
    assert again.query.understood == after.query.understood != early.query.understood


def test_wishes_without_a_stage_are_warned_of() -> None:
    """Nothing is done with them."""
    query = normalised(recipe="rrf", understood=[{"kind": "limit", "lt": 5.0}])
    assert query.query.understood == ()
    assert query.warnings == ["understood: recipe rrf has no stage wishes, nothing is done with it"]


# Cursors


def test_a_cursor_continues_its_query_at_its_moment() -> None:
    """The place and the clock are the cursor's, whenever the next page is asked for; the scope's state is the same."""
    query = normalised(cursor=CURSORS.write(Cursor(bound(normalised()), None, 5.0, PoolSlice(40, 100))))
    assert (query.query.skip, query.query.now) == (40, 5.0)
    assert bound(query) == bound(normalised())
    assert state(query.scope) == state(normalised().scope)


@pytest.mark.parametrize("name", ["limit", "return", "explain", "debug"])
def test_a_cursor_outlives_what_changes_no_order(name: str) -> None:
    """The next page may be longer or shorter than the last, and may explain its scores."""
    changed = {name: OTHERS[name]}
    assert normalised(PLACES, cursor=CURSOR, **changed).query.skip == 20


@pytest.mark.parametrize(
    "name", sorted(OTHERS.keys() - {"cursor", "now", "facets", "limit", "return", "explain", "debug"})
)
def test_a_cursor_continues_no_other_query(name: str) -> None:
    """Of another text, tenant, source or any other field it is invalid: never another's page."""
    said = refusal(PLACES, cursor=CURSOR, **{name: OTHERS[name]})
    assert said == (DeadLetterClass.CURSOR_INVALID, "cursor: it continues another query")


def test_a_cursor_of_another_release_has_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that writes queries in another form cannot tell whether it is the same query: it says that."""
    monkeypatch.setattr(keys, "_FORM", b"xx")
    said = refusal(PLACES, cursor=CURSOR)
    assert said == (DeadLetterClass.CURSOR_EXPIRED, "cursor: of another release; ask without it")
    # What was written in this form is told apart as ever.
    own = CURSORS.write(Cursor(bound(normalised()), None, 5.0, PoolSlice(40, 100)))
    assert refusal(cursor=own, text="another")[0] is DeadLetterClass.CURSOR_INVALID
    assert normalised(cursor=own).query.skip == 40


def test_a_recipe_that_changed_is_another_state_of_the_same_query() -> None:
    """A deployment's change is none of the caller's: the cursor continues the query, as far as the state allows."""
    changed = replace(
        PLACES, planner=Planner(PROFILES, {**SHIPPED, "hybrid": Recipe.parse("hybrid", {"stages": ["rrf"]})})
    )
    before, after = normalised(PLACES, recipe="hybrid"), normalised(changed, recipe="hybrid")
    assert bound(before) == bound(after)
    assert state(before.scope) != state(after.scope)


def test_a_cursor_keeps_its_clock() -> None:
    """An event that says another now is another query; the same now, or none, is the cursor's."""
    assert refusal(PLACES, cursor=CURSOR, now=5)[0] is DeadLetterClass.CURSOR_INVALID
    assert normalised(PLACES, cursor=CURSOR, now=SENT).query.now == SENT


def test_a_cursor_is_bounded() -> None:
    """Without a secret anybody can write a cursor: one that has a lookup pass over too many records is invalid."""
    for seen, fine in ((MOST_SEEN, True), (MOST_SEEN + 1, False)):
        cursor = CURSORS.write(Cursor(bound(normalised(**LOOKUP)), None, SENT, After(5, seen)))
        if fine:
            assert normalised(**LOOKUP, cursor=cursor).query.after == After(5, seen)
        else:
            assert refusal(**LOOKUP, cursor=cursor)[0] is DeadLetterClass.CURSOR_INVALID


def test_a_cursor_of_another_secret_is_invalid() -> None:
    """A cursor that isn't signed with the deployment's secret is refused."""
    signed = replace(PLACES, cursors=CursorCodec(b"0123456789abcdef"))
    assert refusal(signed, cursor=CURSOR)[0] is DeadLetterClass.CURSOR_INVALID
    assert normalised(PLACES, cursor=CURSOR).query.skip == 20


def test_the_secret_is_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes from the environment or a file; one that is too short, or can't be read, is an error without it."""
    file = tmp_path / "secret"
    written = {**LEAST, "cursor": {"signing_secret_file": str(file)}}
    cursor = Cursor(bytes(16), None, 0.0, PoolSlice(1, 100))
    with pytest.raises(ConfigError, match=r"signing_secret_file: .*: No such file"):
        assembly.cursors(load(None, written))
    file.write_text("short-canary\n")
    with pytest.raises(ConfigError, match="at least 16 characters") as caught:
        assembly.cursors(load(None, written))
    assert "canary" not in str(caught.value)
    file.write_text("0123456789abcdef\n")
    text = CursorCodec(b"0123456789abcdef").write(cursor)
    assert assembly.cursors(load(None, written)).write(cursor) == text
    monkeypatch.setenv("RANKSTREAM_CURSOR__SIGNING_SECRET", "0123456789abcdef")
    assert assembly.cursors(load(None, LEAST)).write(cursor) == text
    monkeypatch.setenv("RANKSTREAM_CURSOR__SIGNING_SECRET", "short-canary")
    with pytest.raises(ConfigError, match="signing_secret: at least 16 characters"):
        load(None, LEAST)


def test_a_lookup_has_no_groups() -> None:
    """It refuses a grouping of its own, and that of its profile or of the defaults does not apply."""
    grouped = normaliser(planner=Planner(PROFILES, defaults=Defaults(group_by="type")))
    assert normalised(grouped).query.plan.grouping == ("type", 1, "max")
    assert normalised(grouped, **LOOKUP).query.plan.grouping is None
    kind, said = refusal(grouped, **LOOKUP, group_by="subject")
    assert (kind, "only a search has groups" in said) == (DeadLetterClass.INVALID, True)
    assert normalised(grouped, **LOOKUP, group_by="subject", group_size=0).query.plan.grouping is None
