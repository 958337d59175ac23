"""Nobody is given what a policy forbids: thousands of random queries to one running flow, while documents change.

The judge is `permitted`. A moment is judged by what was true at some time between a query's sending and its answer.
"""

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from bench.kafka.broker import Broker
from operators.query.result import members
from schemas.result import ResultEvent
from tests.integration import permitted
from tests.integration.attacks import HARMLESS, REFUSED
from tests.integration.conversation import Asked, is_its_own
from tests.integration.crowd import KINDS, QUERIES, ROUNDS, SEED, Run, asking
from tests.integration.ruled import CANARY, is_searched, rewritten

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[True, False], ids=["firewall on, server", "firewall off, engine inside"])
def run(request: pytest.FixtureRequest, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The crowd's queries and their answers."""
    directory = tmp_path_factory.mktemp("isolation")
    with asking(broker, directory, firewall=request.param, inside=not request.param) as asked:
        yield asked


def test_nothing_forbidden_is_ever_answered(run: Run) -> None:
    """No answer holds a record that its namespace, tier, labels, filters or subject forbid, or that was replaced."""
    complaints: Counter[str] = Counter()
    examples: dict[str, Any] = {}
    for query in run.asked:
        ruled = rewritten(query, run.rules(query)) if query.answer else query
        for hit in members(query.answer) if query.answer else ():
            complaint = run.world.complaint(ruled, hit, run.policy(query), run.firewall)
            if complaint is not None:
                complaints[complaint] += 1
                examples.setdefault(complaint, (query, run.origin(query).sent, hit, run.world.story(hit)))
    assert not complaints, (complaints, examples)


def test_nothing_forbidden_is_ever_counted(run: Run) -> None:
    """Each version of a document that a facet counts is one that might have been among the results."""
    complaints: Counter[str] = Counter()
    counted = 0
    for query in run.asked:
        for value in [each for facet in query.answer.get("facets", ()) for each in facet["values"]]:
            counted += 1
            name = run.world.by_revision[value["value"]]
            [event] = [each.event for each in run.world.versions[name] if each.event["rev"] == value["value"]]
            told: dict[str, Any] = {
                field: event[field] for field in ("classification", "labels", "subject") if field in event
            }
            hit: dict[str, Any] = {"id": name[3], "payload": {"rev": value["value"], **told}}
            ruled = rewritten(query, run.rules(query))
            bare = replace(ruled, event={key: each for key, each in ruled.event.items() if key != "return"})
            complaint = run.world.complaint(bare, hit, run.policy(query), run.firewall)
            complaints.update([complaint] if complaint is not None else [])
    assert counted
    assert not complaints, complaints


def test_a_recorded_pool_holds_nothing_forbidden_either(run: Run) -> None:
    """A recorded pool shows no documents but those that its query may see."""
    seen = 0
    for query in run.asked:
        for leg in query.answer.get("pool", {}).get("legs", []):
            for hit in leg["hits"]:
                seen += 1
                assert hit["payload"]["namespace"] == query.event.get("namespace", "default")
                assert permitted.visible(run.policy(query), run.firewall, hit["payload"])
    assert seen


def test_who_is_refused_is_refused_by_the_first_reason(run: Run) -> None:
    """A query is denied exactly when its policy says so, with the code that comes first, and then holds nothing."""
    for query in run.asked:
        code = run.denial(query)
        if code is None:
            assert query.dead is not None or query.answer["status"] != "denied", query
            continue
        assert query.dead is None, query
        answer = query.answer
        assert (answer["status"], answer["denied"]["code"]) == ("denied", code), (query.event, query.source)
        assert answer["retrieval_stage"] == "policy"
        assert (answer["results"], answer["legs"], answer["next_cursor"], answer["total"]) == ([], [], None, 0)


def test_an_attack_is_refused_or_changes_nothing(run: Run) -> None:
    """A refused one has its dead letter, and its result says no more than the class; the others are judged as all."""
    assert {query.attack for query in run.attacks} == {*REFUSED}
    for query in run.attacks:
        assert query.attack is not None
        assert (query.dead, query.answer) == (REFUSED[query.attack], {}), (query.attack, query.event)
    harmless = Counter(query.attack for query in run.asked if query.dead is None and query.answer["status"] != "denied")
    assert all(harmless[attack] > ROUNDS for attack in HARMLESS), harmless


def test_no_answer_crosses_a_scope(run: Run) -> None:
    """A query that is given another's answer asked the same, text and vector apart where it is the semantic cache's."""
    for query in run.asked:
        if not query.answer or run.origin(query) is query:
            continue
        origin, stage = run.origin(query), query.answer["retrieval_stage"]
        assert permitted.paged(query) == permitted.paged(origin), (query.event, origin.event)
        if stage == "exact_cache":
            assert permitted.words(query) == permitted.words(origin), (query.event, origin.event)


def test_who_follows_asked_the_same(run: Run) -> None:
    """An answer to another query that no cache gave is the answer to an identical one."""
    for query in run.asked:
        if run.followed(query):
            assert permitted.words(query) == permitted.words(run.origin(query)), (query.event, run.origin(query).event)


def test_what_is_a_querys_own_is_its_own(run: Run) -> None:
    """Each query has one terminal record, which holds to the contract, with its own identity and metadata."""
    for query in run.asked:
        if query.dead is None:
            assert is_its_own(query)
    for query in random.Random(SEED).sample(run.asked, 1000):
        if query.dead is None:
            ResultEvent.model_validate(query.answer)


def _continues(query: Asked) -> bool:
    """True if its cursor is from an answer to this very query."""
    first = query.given
    if first is None or query.forged or permitted.order(query) != permitted.order(first):
        return False
    if permitted.words(query) != permitted.words(first):
        return False
    return query.event.get("now") in (None, first.event.get("now"))


def test_a_cursor_is_good_for_its_own_query_alone(run: Run) -> None:
    """With another's query, source or namespace, or changed, it is `cursor_invalid`; with its own, never.

    It may have expired then, if the index moved meanwhile.
    """
    for query in run.asked:
        if query.given is None or run.denial(query) is not None:
            continue
        if not _continues(query):
            assert query.dead == "cursor_invalid", (query.event, query.given.event)
        elif query.given.answer["retrieval_stage"] != "semantic_cache" and not run.followed(query.given):
            assert query.dead in (None, "cursor_expired"), (query.dead, query.event, query.given.event)
            if query.dead is not None:
                assert query.event["cursor_policy"] == "strict"
                since = run.origin(query.given).sent
                assert not run.world.still(query, since) or run.is_ruled_anew(query, query.given)


def test_a_continued_page_repeats_no_id(run: Run) -> None:
    """After a write, a page by `continue` has no result of the page that gave its cursor."""
    continued = 0
    for query in run.asked:
        if query.given is None or not any("has changed since" in said for said in query.answer.get("warnings", [])):
            continue
        continued += 1
        assert query.event["cursor_policy"] == "continue"
        ids = [{hit["id"] for hit in each.answer["results"]} for each in (query, query.given)]
        stories = [run.world.story(hit) for hit in query.answer["results"]]
        assert ids[0].isdisjoint(ids[1]), f"{query} {query.given} {stories}"
    assert continued


def test_a_cursor_of_a_shared_answer_continues_it(run: Run) -> None:
    """The cursor of an answer that was another's first, of a similar query too, is good for the query as it was."""
    refused: Counter[str] = Counter()
    for query in run.asked:
        if query.given is not None and _continues(query) and run.denial(query) is None:
            refused[query.given.answer["retrieval_stage"]] += query.dead not in (None, "cursor_expired")
    assert not +refused, refused


def test_only_cursors_are_refused(run: Run) -> None:
    """No other query becomes a dead letter, and none is answered in part."""
    for query in run.asked:
        if query.dead is not None:
            assert query.given is not None, (query.dead, query.event)
        else:
            lost = {(each["stage"], each["reason"]) for each in query.answer["degraded"]}
            assert lost <= {("embed", "no_embedder")}, query.answer


def test_the_index_filter_needs_no_tripwire(run: Run) -> None:
    """As long as nothing moves the check behind the filter removes nothing."""
    still = 0
    for query in run.asked:
        if (
            query.dead is None
            and run.denial(query) is None
            and run.world.still(query, min(query.sent, run.origin(query).sent))
        ):
            still += 1
            assert query.answer["removed_by_firewall"] == 0, query.event
    assert still


def test_lookups_find_all_that_may_be_seen(run: Run) -> None:
    """The fast path and lookups give the newest of what the policy lets through, and nothing less."""
    looked_up: Counter[str] = Counter()
    created = {each.event["rev"]: each.event for versions in run.world.versions.values() for each in versions}
    for query in run.asked:
        event = query.event
        search = event.keys() & {"text", "vector", "like", "cursor"} or event.get("reflections_only")
        # These rank the newest documents where there is nothing to search by.
        search = search or event.get("recipe") in {"signals", "decay"}
        # A query that follows another is answered by what was there when that one was sent.
        since = run.origin(query).sent if run.followed(query) else query.sent
        if search or query.dead is not None or run.denial(query) is not None or not run.world.still(query, since):
            continue
        looked_up[query.answer["retrieval_stage"]] += 1
        listing = run.world.listing(query, run.policy(query), run.firewall)[: event["limit"]]
        found = [created[hit["payload"]["rev"]].get("created_at", 0) for hit in query.answer["results"]]
        assert found == listing, f"{query} {run.origin(query)}"
    assert looked_up.keys() >= {"fast_path", "structured"}


def test_each_answer_names_the_rules_that_made_it(run: Run) -> None:
    """By their version, of one state that was in force, never an earlier one than an answer before had; and by ids."""
    for query in run.asked:
        if query.answer:
            named = query.answer["provenance"].get("rules") is not None
            assert named == (is_searched(query) and run.denial(query) is None), query
            assert run.states(query), (query, run.rulebook.sent)
            expected = [*run.rules(query).rules] if named else []
            assert query.answer.get("rules", []) == sorted(expected), query
            said = any(each.startswith("rules:") for each in query.answer["warnings"])
            assert said == (named and run.rules(query).refused), query


def test_no_rule_tells_of_another_or_of_what_is_hidden(run: Run) -> None:
    """An answer has the names and words of the rules that worked for it alone, and no value made of a hidden field."""
    explained = 0
    for query in run.asked:
        assert {*CANARY.findall(json.dumps(query.answer))} <= (run.rules(query).canaries if query.answer else set())
        hidden = run.policy(query).get("hidden_fields", [])
        for hit in members(query.answer) if query.answer and hidden else ():
            reads = any(f'"{field}"' in json.dumps(run.rules(query).rules) for field in hidden)
            for step in hit.get("explanation", {}).get("stages", []):
                explained += step["stage"] == "rules"
                assert step["stage"] != "rules" or not reads or step["values"] == {}
    assert explained


def test_rules_do_what_they_say_with_what_may_be_seen(run: Run) -> None:
    """Pins hold where their documents may be seen and pass the filters; the leg that finds them finds no other."""
    pinned = 0
    for query in run.asked:
        since = min(query.sent, run.origin(query).sent) if query.answer else 0.0
        if not query.answer.get("rules") or not run.world.still(query, since):
            continue
        rules, answer = run.rules(query), query.answer
        like = query.event.get("like", {})
        there = {
            event["id"]: event for event in run.world.matching(rewritten(query, rules), run.policy(query), run.firewall)
        }
        pins = [pin for pin in rules.pins if pin[1] in there.keys() - {*like.get("ids", ()), *like.get("unlike", ())}]
        legs = {leg["name"]: leg["candidates"] for leg in answer["legs"]}
        assert legs.get("pinned", 0) == len(pins), (query, pins)
        if query.given is not None or "group_by" in query.event:
            continue
        ids = [hit["id"] for hit in answer["results"]]
        rest = [id_ for id_ in ids if id_ not in {each for _, each in pins}]
        for position, id_ in pins:
            pinned += 1
            if position <= len(ids) and any(each in rest for each in ids[position - 1 :]):
                assert ids[position - 1] == id_, (query, pins)
        buried = [
            any(each in bury.get("ids", []) or _has(there[each], bury) for bury in rules.then("bury")) for each in rest
        ]
        assert buried == sorted(buried), (query, rules)
    assert pinned


def _has(event: Mapping[str, Any], bury: Mapping[str, Any]) -> bool:
    return bool(bury.get("filters")) and permitted.wanted({"filters": bury["filters"]}, event)


def test_all_of_it_was_tried(run: Run) -> None:
    """The caches, followers, cursors of both kinds, refusals of every kind, and hidden fields."""
    assert len(run.asked) >= ROUNDS * QUERIES
    assert run.world.forgotten > ROUNDS
    versions = [each for there in run.world.versions.values() for each in there]
    assert any(run.world.expired(each.event, run.asked[-1].ended) for each in versions)
    kinds = run.kinds()
    assert kinds >= KINDS, KINDS - kinds
    assert sum(len(query.answer.get("results", [])) for query in run.asked) > len(run.asked) / 10
