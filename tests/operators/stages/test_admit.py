"""Admit: a query past its deadline is answered without a call; the others get their keyword terms."""

import math
from dataclasses import replace
from typing import Any

import pytest

from flows.assembly import query as assembly
from operators.access.firewall import AccessFilter
from operators.access.indexes import Ask
from operators.collections.analysers import CURRENT, Bm25
from operators.collections.catalogue import Catalogue
from operators.query.collection import Capabilities
from operators.query.field_map import SAME, FieldMap
from operators.query.plan import Planner
from operators.runtime.stage import sync_stage
from schemas.errors import InputError, Reason
from schemas.result import Denial, DenialCode
from schemas.settings import FirewallSettings, PolicySettings, QdrantSettings, SourcePolicy, load
from schemas.settings.qdrant import Bm25Settings
from schemas.settings.ranking import PROFILES
from tests.operators.runtime.flowing import items
from tests.operators.samples import STRICT, admission, capable, decoder, message, query

ADMIT = admission()
UNASKED: Any = None
YEARS = {"year": "integer", "colour": "keyword"}


@pytest.mark.parametrize(("left", "expired"), [(-1.0, True), (0.0, True), (0.001, False)])
def test_a_deadline_that_is_reached_has_passed(left: float, expired: bool) -> None:
    """At its deadline a query is expired and answered, and has no terms: nobody will be asked."""
    asked = query()
    done = admission(clock=lambda: asked.deadline - left)(asked)
    assert done is asked
    assert (done.outcome.expired, done.answered) == (expired, expired)
    assert (done.retrieval.terms is None) == expired


def test_an_expired_query_says_that_its_deadline_has_passed() -> None:
    """The answer tells that it waited too long; if that was before it was read, how long ago it was sent."""
    waited = admission(clock=lambda: math.inf)(query(timeout_ms=1000))
    assert (waited.outcome.degraded, waited.outcome.warnings) == ([("queue", Reason.DEADLINE)], [])
    # A backlog of a day, or a producer whose clock is behind by one.
    read = message({"query_id": "q", "text": "t"}, timestamp=1e9, received=1e9 + 86_400, clock=100_000.0)
    late = admission(clock=lambda: 100_000.0)(decoder()(read))
    assert (late.outcome.expired, late.outcome.degraded) == (True, [("queue", Reason.DEADLINE)])
    assert late.outcome.warnings == ["the deadline had passed when the query was read, 86400 s after it was sent"]


def test_the_terms_are_the_texts() -> None:
    """The keyword leg and the stages that rank by words get what the analyser makes of the text."""
    asked = query(text="running cats")
    analyser = Bm25(analysis=CURRENT)
    assert ADMIT(asked).retrieval.terms == analyser.query("running cats")
    assert asked.retrieval.words == analyser.words("running cats")
    assert asked.outcome.warnings == []


@pytest.mark.parametrize(("lang", "words"), [(None, ["red"]), ("fr", ["or"]), ("de-AT", ["or", "red"])])
def test_the_language_of_a_query_has_its_stop_words(lang: str | None, words: list[str]) -> None:
    """A collection of several languages is searched without them, and none is marked; without a language it is told
    by the words.
    """
    mixed = QdrantSettings(url="http://qdrant", bm25=Bm25Settings(languages={"de": "german", "fr": "french"}))
    asked = admission(catalogue=Catalogue(UNASKED, mixed))(query(text="or red" if lang != "fr" else "le or", lang=lang))
    assert [word.text for word in asked.retrieval.words if word.weight] == words
    assert asked.retrieval.matcher is not None
    (passage,) = asked.retrieval.matcher().passages("or le red", 1)
    assert [passage.text[start:end] for start, end in passage.highlights] == words


def test_a_text_without_terms_is_warned_about() -> None:
    """Punctuation alone leaves the keyword leg nothing: the answer says so, and the query goes on."""
    asked = ADMIT(query(text="?! ..."))
    assert asked.retrieval.terms is None
    assert asked.outcome.warnings == ["no_terms: the text has no word that the keyword leg looks for"]
    assert not asked.answered


@pytest.mark.parametrize("vector", [[0.0, 0.0, 0.0], [0, -0.0, 0]])
def test_a_zero_vector_is_warned_about(vector: list[float]) -> None:
    """A vector without a direction isn't asked for: the answer says so, and the query goes on."""
    asked = ADMIT(query(vector=vector))
    assert asked.outcome.warnings == ["the vector is zero: the vector leg is not asked"]
    assert not asked.answered


@pytest.mark.parametrize("vector", [[1e-200, 0.0, 0.0], [5e-324, 0.0, 0.0], [3e38, 3e38, 3e38]])
def test_a_vector_of_any_length_has_a_direction(vector: list[float]) -> None:
    """A very short or a very long vector is no zero vector."""
    assert ADMIT(query(vector=vector)).outcome.warnings == []


def test_a_query_by_vector_alone_has_no_terms() -> None:
    """Without a text there is nothing to warn about."""
    asked = ADMIT(query(text=None, vector=[1.0, 0.0, 0.0]))
    assert (asked.retrieval.terms, asked.outcome.warnings) == (None, [])


def test_terms_come_with_their_analyser() -> None:
    """A text's terms are told from those that other parameters would make of it; without a text there is none."""
    unasked: Any = None
    settings = QdrantSettings(url="http://q", bm25=Bm25Settings(k=1.5))
    other = admission(catalogue=Catalogue(unasked, settings))(query()).retrieval.analyser
    ours = ADMIT(query()).retrieval.analyser
    assert ours is not None
    assert other not in (None, ours)
    assert ADMIT(query(text=None, subject="s")).retrieval.analyser is None


def test_who_is_refused_is_answered_first() -> None:
    """A denial is the answer, whatever else is wrong: nothing is read of the query, and its deadline is no matter."""
    asked = query(text='"odd', order_by=None, vector=[0.0, 0.0, 0.0])
    asked.asked = replace(asked.asked, denial=Denial(DenialCode.POLICY_DENIED, "no"))
    done = admission(clock=lambda: math.inf)(asked)
    assert (done.answered, done.outcome.expired, done.retrieval.terms, done.outcome.warnings) == (True, False, None, [])


@pytest.mark.parametrize("field", ["created_at", "updated_at", "year"])
def test_a_lookup_is_ordered_by_what_is_indexed(field: str) -> None:
    """Every collection's own orders and the configured ones are taken; any other is refused by name."""
    ordered = replace(
        ADMIT, ordered=assembly.ordering_fields(load(None, {"qdrant": {"url": "http://q", "indexes": YEARS}}).qdrant)
    )
    asked = query(text=None, subject="s", order_by={"field": field})
    assert not ordered(asked).answered
    with pytest.raises(InputError, match=r"order_by\.field: nothing to order by; there are created_at, .*'colour'"):
        ordered(query(text=None, subject="s", order_by={"field": "colour"}))


@pytest.mark.parametrize(
    ("text", "uncovered", "warnings"),
    [
        ("cat AND vet", False, 0),
        ("cat NOT vet", False, 0),
        ("cat OR the", True, 0),
        ("pre*", True, 0),
        ('"the of"', False, 0),
        ("NOT cat", False, 2),
        ("cat AND", False, 1),
    ],
)
def test_an_expression_is_read(text: str, uncovered: bool, warnings: int) -> None:
    """A text that BM25's terms can't find is noted; a malformed expression is a bare query with a warning."""
    asked = ADMIT(query(text=text))
    assert (asked.retrieval.uncovered, len(asked.outcome.warnings)) == (uncovered, warnings)
    assert asked.retrieval.parsed is not None
    assert (asked.retrieval.parsed.expression is None) == (text == "cat AND")


def test_a_firewall_guards_every_query_that_goes_on() -> None:
    """A query is given what its namespace and its source's clearance let it see; off, its namespace."""
    firewall = FirewallSettings(enabled=True, blocked_labels=["draft"])
    guarded = ADMIT(decoder(firewall=firewall)(message({"query_id": "q", "text": "t", "namespace": "acme"})))
    assert guarded.asked.access_filter == AccessFilter("acme", ("public",), ("draft",))
    assert ADMIT(query(namespace="acme")).asked.access_filter == AccessFilter("acme")


def test_contexts_are_not_searched_for_a_source_with_filters() -> None:
    """Contexts are apart by tier and labels alone, and would tell of documents that the filters hide."""
    context = QdrantSettings.model_validate({"url": "http://qdrant", "context": {"order_by": "turn"}})
    admitting = admission(catalogue=Catalogue(UNASKED, context))
    for filters, searched in (([], True), ([{"field": "lang", "op": "eq", "value": "de"}], False)):
        policies = PolicySettings.model_validate({"default": {"filters": filters}})
        asked = admitting(decoder(policies=policies)(message({"query_id": "q", "text": "t"})))
        able = asked.retrieval.capabilities
        assert (able.has("dense_context"), able.has("sparse_context")) == (searched, searched)


def test_the_flow_parts_the_expired_from_the_others() -> None:
    """Through the engine, on a clock that the test sets: one goes on, one is answered, none is dead."""
    early, late = query(0, timeout_ms=1000), query(1, timeout_ms=9000)
    admitting = admission(clock=lambda: early.deadline + 1)
    assert items([[early, late]], lambda up: sync_stage("admit", up, admitting)) == [early, late]
    assert (early.answered, late.answered) == (True, False)


class Told:
    """A catalogue that says what every collection can do."""

    def __init__(self, **able: Any) -> None:
        self._able = capable(**able)
        self._ours = Catalogue(UNASKED, QdrantSettings(url="http://q"))
        self.analyser = self._ours.analyser

    def capabilities_of(self, _: str) -> Capabilities:
        """The collection's capabilities."""
        return self._able


def test_a_filter_that_strict_mode_refuses_is_invalid() -> None:
    """It names the field, the types of index that would do, and the setting; one with an index goes on."""
    told: Any = Told(fields={"year": frozenset({Ask.FLOAT})}, limits=STRICT)
    admit_ = admission(catalogue=told)
    year = {"field": "year", "op": "range", "value": {"gt": 2000}}
    assert not admit_(query(filters=[year])).answered
    with pytest.raises(InputError, match=r"of type bool; add it to qdrant.indexes") as raised:
        admit_(query(filters=[year, {"field": "done", "op": "eq", "value": True}]))
    assert raised.value.field == "filters.1.field"


def test_a_filter_in_a_group_is_refused_by_its_path() -> None:
    """However deep it is; an object's field in an array needs an index of its own."""
    done = {"field": "done", "op": "eq", "value": True}
    nested = {"field": "parts", "op": "nested", "value": [{"none_of": [done]}]}
    told: Any = Told(fields={"done": frozenset({Ask.BOOL})}, limits=STRICT)
    with pytest.raises(InputError, match=r"of type bool; .*'parts\[\]\.done'") as raised:
        admission(catalogue=told)(query(filters=[{"any_of": [done, nested]}]))
    assert raised.value.field == "filters.0.any_of.1.value.0.none_of.0.field"
    told = Told(fields={"parts[].done": frozenset({Ask.BOOL})}, limits=STRICT)
    assert not admission(catalogue=told)(query(filters=[nested])).answered


def test_a_filter_that_no_qdrant_answers_is_invalid() -> None:
    """Of another tool's collection, whether its strict mode is on or not."""
    admit_ = admission(fields=FieldMap({"text": "_node_content#text"}, "uuid"))
    assert not admit_(query(filters=[{"field": "id", "op": "eq", "value": "a"}])).answered
    for wanted in ({"field": "text", "op": "exists", "value": True}, {"field": "id", "op": "prefix", "value": "a"}):
        with pytest.raises(InputError, match="which no filter") as raised:
            admit_(query(filters=[wanted]))
        assert raised.value.field == "filters.0.field"


@pytest.mark.parametrize("fields", [SAME, FieldMap(), FieldMap({"text": "body"}), FieldMap(ids="uuid")])
def test_prefixes_are_words_in_collections_of_other_tools(fields: FieldMap) -> None:
    """Only rankstream's indexing writes what a prefix is looked up in."""
    asked = admission(fields=fields)(query(text="sea*"))
    assert any("read as a word" in each for each in asked.outcome.warnings) == (fields is not SAME)


def test_more_filters_than_strict_mode_takes_are_invalid() -> None:
    """No leg could ask for them."""
    told: Any = Told(filter_max_conditions=2)
    years = [{"field": "year", "op": "eq", "value": year} for year in (2000, 2001, 2002)]
    assert not admission(catalogue=told)(query(filters=years[:2])).answered
    for filters in (years, [{"any_of": years}]):
        with pytest.raises(InputError, match="filter_max_conditions") as raised:
            admission(catalogue=told)(query(filters=filters))
        assert raised.value.field == "filters"


def test_an_order_needs_an_index_of_the_collection() -> None:
    """Of a collection of another tool only what its indexes give is an order."""
    order: dict[str, Any] = {"order_by": {"field": "created_at"}, "text": None, "subject": "s"}
    none: Any = Told(foreign=True)
    with pytest.raises(InputError, match="no index of the collection gives an order") as raised:
        admission(catalogue=none)(query(**order))
    assert raised.value.field == "order_by.field"
    some: Any = Told(foreign=True, fields={"created_at": frozenset({Ask.INTEGER_RANGE})})
    assert not admission(catalogue=some)(query(**order)).answered


def test_a_collection_without_keywords_is_said_once() -> None:
    """The answer says why the keyword leg finds nothing; a text index that ranks will do."""
    none: Any = Told(sparse=False)
    assert admission(catalogue=none)(query()).outcome.warnings == [
        "no_sparse_vector: the collection has nothing that keywords could be searched in"
    ]
    scoring: Any = Told(sparse=False, fields={"text": frozenset({Ask.RANKED})})
    assert admission(catalogue=scoring)(query()).outcome.warnings == []


def test_what_cannot_be_excluded_is_said() -> None:
    """A collection whose filters need an index, and that has none of words, gives what NOT excludes; others don't."""
    lacking: Any = Told(fields={"text": frozenset()}, limits=STRICT)
    said = admission(catalogue=lacking)(query(text="lantern NOT window")).outcome.warnings
    assert said == ["NOT: filters of the collection need an index, and a searched field has none of its words"]
    assert admission(catalogue=lacking)(query(text="lantern window")).outcome.warnings == []
    assert admission()(query(text="lantern NOT window")).outcome.warnings == []


@pytest.mark.parametrize(
    ("groups", "field", "said"),
    [
        (None, "parent", None),
        (
            None,
            "size",
            "nothing to group by: index it as keyword, integer or bool in qdrant.indexes; there are parent, subject",
        ),
        ({"size": frozenset({Ask.FLOAT})}, "size", "index it as keyword, integer or bool"),
        ({"size": frozenset({Ask.INTEGER})}, "size", None),
        (
            {"size": frozenset({Ask.INTEGER})},
            "parent",
            "nothing to group by: index it as keyword, integer or bool in qdrant.indexes; there are size",
        ),
        (None, "inner", "its values are inside of strings (node#text), which no filter looks into"),
    ],
)
def test_a_field_to_group_by_needs_an_index(
    groups: dict[str, frozenset[Ask]] | None, field: str, said: str | None
) -> None:
    """By the configuration, or by the collection itself where that is read; others are refused, as for filters."""
    admit = admission(
        catalogue=Catalogue(UNASKED, QdrantSettings(url="http://qdrant")),
        grouped=frozenset({"parent", "subject"}),
        fields=FieldMap({"inner": "node#text"}),
    )
    admit.catalogue._capabilities["documents"] = capable(fields=groups or {}, foreign=groups is not None)
    if said is None:
        assert not admit(query(group_by=field)).answered
        return
    with pytest.raises(InputError, match="group_by") as refused:
        admit(query(group_by=field))
    assert said in str(refused.value)


def test_a_hidden_field_is_no_key_of_groups() -> None:
    """A group's key would tell its value: it is refused, whether the query or its profile groups by it, and by
    which name it is hidden; a query without groups goes on.
    """
    profiles = {**PROFILES, "mine": PROFILES["balanced"].model_copy(update={"group_by": "subject"})}
    for hidden in ("subject", "meta.subject", "meta"):
        policies = PolicySettings(default=SourcePolicy(hidden_fields=[hidden]))
        fields = FieldMap({"subject": "meta.subject"})
        admit = admission(fields=fields)
        decode = decoder(planner=Planner(profiles, fields=fields), policies=policies)
        for event in ({"group_by": "subject"}, {"profile": "mine"}):
            asked: dict[str, Any] = {"query_id": "q", "text": "some text", **event}
            with pytest.raises(InputError, match="hides this field") as refused:
                admit(decode(message(asked)))
            assert refused.value.field == "group_by"
            assert not admit(decode(message({**asked, "group_size": 0}))).answered
            assert not admit(decode(message({**asked, "group_by": "actor_type"}))).answered
