"""The leg fuzzy is asked for misspelt words alone, and no answer is another one for it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final

from hypothesis import example, given
from hypothesis import strategies as st

from operators.query.backend_answers import Hits
from operators.query.in_flight import InFlight
from operators.query.search import Found, Search, nearest
from operators.ranking.marks import marks
from operators.ranking.pipeline import Ranked
from operators.runtime.dispatcher import BatchKey, Bounds
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.stage import Batches, async_stage
from operators.stages.fuse import Fuzzy, complete_legs, fuse, rank_hits, take_over
from operators.stages.leg import SearchLeg, pass_by
from operators.text.analysis import analyse
from operators.text.passages import Matcher
from operators.text.terms import READ_AS, QueryWord, SparseVector
from schemas.document import MARKS
from schemas.document import TEXT as BODY
from schemas.errors import BackendError, BackendTimeout, Reason
from schemas.result import LegStatus
from tests.operators.ranking.payloads import said
from tests.operators.runtime.flowing import flowed
from tests.operators.runtime.test_async_stage import looping
from tests.operators.samples import capable, query

NOBODY: Any = None
NEAR: Final = {"drawers": [6]}
"""The terms of what `drawer` is near to."""

CATALOGUE: Any = SimpleNamespace(analyser=lambda _: SimpleNamespace(terms_of=lambda word: NEAR.get(word, [])))
TERMS: Final = {"red": [1], "lamp": [2], "drawer": [3, 4], "a1": [5]}
WORDS: Final = [
    *(QueryWord(word, terms, place, 1) for place, (word, terms) in enumerate(TERMS.items())),
    QueryWord("redlamp", [7], 0, 2),
]
TEXT: Final = " ".join(TERMS)


def asked(**event: Any) -> InFlight:
    """A query whose words have trigrams, in a collection that has them, too."""
    each = query(text=TEXT, explain=True, record=True, **event)
    each.retrieval.capabilities = capable(fuzzy=True)
    each.retrieval.words, each.retrieval.columns, each.retrieval.filtered = WORDS, [BODY], [BODY]
    each.retrieval.terms, each.retrieval.unknown = SparseVector([7], [1.0]), [WORDS[2]]
    each.retrieval.searches = {
        leg: Search(lambda: nearest([{"query": []}]), each.trace) for leg in ("keyword", "fuzzy")
    }
    return each


def hits(documents: Mapping[str, Sequence[int] | None], best: float = 0.9) -> Hits:
    """These documents, best first, by the terms that each has; None: it has no marks. Term 6 is that of `drawers`."""
    payloads: list[Mapping[str, Any]] = [
        {
            "namespace": "public",
            **({} if terms is None else {MARKS: marks([terms])}),
            BODY: "Two Drawers." if terms is None or 6 in terms else "A box.",
        }
        for terms in documents.values()
    ]
    return Hits(list(documents), [best / (1 + rank) for rank in range(len(documents))], payloads)


def stage(**changes: Any) -> Fuzzy:
    """The stage, which asks nobody."""
    return Fuzzy("fuzzy", NOBODY, Bounds(30, 64, 8), CATALOGUE, **changes)


def told(done: InFlight) -> object:
    """All that an answer is made from."""
    outcome = done.outcome
    return (
        [(each.id, each.score) for each in outcome.candidates],
        {name: (leg.status, leg.reason, list(leg.ids)) for name, leg in outcome.legs.items()},
        (outcome.degraded, outcome.warnings, outcome.failed, done.answered),
        (said(Ranked([*outcome.candidates], outcome.run)), outcome.matches) if outcome.ranked else None,
    )


terms = st.lists(st.integers(1, 7), max_size=3, unique=True)
some_terms = st.one_of(terms, terms, terms, terms, terms, st.none())
documents = st.dictionaries(st.sampled_from("abcdef"), some_terms, max_size=4)
answers = st.one_of(st.builds(hits, documents), st.just(BackendTimeout("late")))


@given(answers, documents, st.sampled_from(["hybrid", "rrf"]))
@example(hits({"a": [1, 2, 3]}), {"b": [6]}, "hybrid")
@example(hits({"a": [1, 2]}), {"b": [6], "c": [9]}, "hybrid")
@example(hits({"a": [3]}), {"b": [6]}, "hybrid")
def test_hits_without_a_near_word_are_none(
    keyword: Hits | BackendError, fuzzy: dict[str, Sequence[int] | None], recipe: str
) -> None:
    """The leg's hits are those with the near word, by which the unknown word is named; without any the answer is as if
    the leg had not been asked: candidates, scores, legs and explanations.
    """
    overrides = {} if recipe == "hybrid" else {"overrides": {recipe: {"fuzzy": 1.0}}}
    found = Found(keyword) if isinstance(keyword, Hits) else keyword
    plain, later = asked(recipe=recipe, **overrides), asked(recipe=recipe, **overrides)
    for each in (plain, later):
        each.retrieval.found, each.retrieval.unknown = {"keyword": found}, ()
    later = complete_legs(later)
    leg = stage()
    done = leg.on_result(later, Found(hits(fuzzy))) if leg.request(later) else leg.on_unasked(later)
    near = [id_ for id_, terms in fuzzy.items() if terms is not None and 6 in terms]
    if WORDS[2] not in later.retrieval.unknown or None in fuzzy.values() or not near:
        assert told(done) == told(rank_hits(take_over(plain)))
    else:
        assert done.outcome.legs["fuzzy"].ids == near
        assert done.outcome.matches is None or f"drawer{READ_AS}drawers" in done.outcome.matches.fields


@dataclass(frozen=True)
class Scripted(SearchLeg):
    """A leg that finds the same for each query."""

    hits: Hits = field(default_factory=lambda: hits({}))

    async def call(self, batch_key: BatchKey, requests: Sequence[Any], timeout: float) -> list[Found | BackendError]:
        """All that it finds."""
        await asyncio.sleep(0)
        return [Found(self.hits) for _ in requests]


@dataclass(frozen=True)
class Heard(Fuzzy):
    """A leg fuzzy that notes for how many it was asked."""

    heard: list[int] = field(default_factory=list)

    async def call(self, batch_key: BatchKey, requests: Sequence[Any], timeout: float) -> list[Found | BackendError]:
        """One document, near to the query."""
        await asyncio.sleep(0)
        self.heard.append(len(requests))
        return [Found(hits({"z": [6], "far": [9]})) for _ in requests]


def test_through_the_engine_it_is_asked_for_misspelt_queries_alone() -> None:
    """One whose words were all found passes it by, and so do what was answered and what has no trigrams."""
    spelt, misspelt, without, answered = (asked() for _ in range(4))
    for each in (spelt, misspelt, without, answered):
        each.retrieval.words, each.retrieval.unknown = [*WORDS[:2], WORDS[3]], ()
    misspelt.retrieval.words = WORDS
    without.retrieval.words = [QueryWord("a2", [8], 0, 1)]
    answered.retrieval.searches, answered.answered = None, True
    keyword = Scripted("keyword", NOBODY, Bounds(30, 64, 8), hits=hits({"a": [1, 2, 5]}))
    fuzzy = Heard("fuzzy", NOBODY, Bounds(30, 64, 8), CATALOGUE)

    def flow(up: Batches, calls: EventLoopThread) -> Batches:
        fused = fuse("fuse", pass_by("passing_by", up), async_stage("leg_keyword", up, keyword, calls))
        return async_stage("leg_fuzzy", fused, fuzzy, calls)

    with looping() as calls:
        batches = flowed([[spelt, misspelt, without, answered]], lambda up: flow(up, calls))
    left = [item for batch in batches for item in batch]
    assert sorted(map(id, left)) == sorted(map(id, (spelt, misspelt, without, answered)))
    assert fuzzy.heard == [1]
    assert [each.id for each in misspelt.outcome.candidates] == ["a", "z"]
    assert misspelt.outcome.legs["fuzzy"].status is LegStatus.OK
    for each in (spelt, without):
        assert [candidate.id for candidate in each.outcome.candidates] == ["a"]
        assert each.outcome.legs["fuzzy"].reason is Reason.NO_TERMS
    assert answered.outcome.legs == {}


def test_it_is_asked_for_the_words_that_no_candidate_has() -> None:
    """The trigrams of the others would find what is like any word of the query; without any it is not asked."""
    each = asked()
    each.retrieval.found = {"keyword": Found(hits({"a": [1, 5], "b": [2]}))}
    assert stage().request(complete_legs(each))
    assert each.retrieval.unknown == [WORDS[2]]
    for word in ("saw", "h2o4", "drawer"):
        each = asked()
        each.retrieval.words = [QueryWord(word, [3], 0, 1)]
        each.retrieval.found = {"keyword": Found(hits({"a": [3] if word == "drawer" else [1]}))}
        assert stage().request(complete_legs(each)) is None


def test_what_a_word_was_read_for_is_evidence_in_every_candidate() -> None:
    """Of a candidate of another leg, too; and it is highlighted."""
    each = asked()
    each.retrieval.matcher = lambda: Matcher(analyse(TEXT, query=True), lambda word: {**TERMS, **NEAR}.get(word, []))
    each.retrieval.found = {"keyword": Found(hits({"a": [1, 2], "b": [1, 6]}))}
    done = stage().on_result(complete_legs(each), Found(hits({"b": [1, 6], "c": [6], "d": [9]})))
    assert done.outcome.matches is not None
    assert {*done.outcome.matches.fields[f"drawer{READ_AS}drawers"]} == {"b", "c"}
    [passage] = each.retrieval.matcher().passages("Two drawers.", 1)
    assert passage.highlights == [(4, 11)]


def test_the_parts_of_a_compound_are_words_of_the_query() -> None:
    """A candidate with one of them has a part of the query, and hits with neither go."""
    own = {"drawers": [6], "lids": [8]}
    catalogue: Any = SimpleNamespace(analyser=lambda _: SimpleNamespace(terms_of=lambda word: own.get(word, [])))
    each = asked()
    each.retrieval.words = [QueryWord("drawerlids", [9], 0, 1), QueryWord("red", [1], 1, 1)]
    each.retrieval.found = {"keyword": Found(hits({"a": [1, 8]}))}
    found = hits({"b": [1, 6, 8], "d": [7]})
    both = {**found.payloads[0], BODY: "Drawers with lids"}
    found = found._replace(payloads=[both, found.payloads[1]])
    done = Fuzzy("fuzzy", NOBODY, Bounds(30, 64, 8), catalogue).on_result(complete_legs(each), Found(found))
    assert done.outcome.legs["fuzzy"].ids == ["b"]
    assert done.outcome.matches is not None
    parts = (f"drawerlids{READ_AS}drawers", f"drawerlids{READ_AS}lids")
    assert [{*done.outcome.matches.fields[part]} for part in parts] == [{"b"}, {"a", "b"}]
    assert [done.outcome.matches.atoms[word] for word in (*parts, "red")] == [(0, 1), (1, 1), (2, 1)]


def test_a_lost_leg_of_a_misspelt_query_is_told() -> None:
    """The query is answered with what the others found, and says what is missing."""
    each = asked()
    each.retrieval.found = {"keyword": Found(hits({"a": [1]}))}
    assert stage().request(take_over(each))
    done = stage().on_result(each, BackendTimeout("late"))
    assert done.outcome.degraded == [("fuzzy", Reason.TIMEOUT)]
    assert [candidate.id for candidate in done.outcome.candidates] == ["a"]


def test_a_query_whose_other_legs_are_lost_is_asked_before_it_fails() -> None:
    """The leg may find what was meant, alone. The query fails only if this leg is lost, too."""
    for outcome, failed in ((Found(hits({"a": [6]})), False), (BackendTimeout("late"), True)):
        each = asked()
        each.retrieval.found = {"keyword": BackendTimeout("late")}
        assert stage().request(take_over(each))
        assert stage().on_result(each, outcome).outcome.failed == failed


def test_a_query_of_numbers_whose_legs_are_lost_is_not_asked() -> None:
    """It has no trigrams: it fails with its other legs."""
    each = asked()
    each.retrieval.words, each.retrieval.unknown = [QueryWord("a2", [8], 0, 1)], ()
    each.retrieval.found = {"keyword": BackendTimeout("late")}
    assert stage().request(complete_legs(each)) is None
    assert each.outcome.failed


def test_what_may_not_be_seen_is_no_candidate_of_it() -> None:
    """A document that was moved since the index found it is removed, from the other legs, too."""
    each = asked()
    each.retrieval.found = {"keyword": Found(hits({"a": [1], "b": [1]}))}
    take_over(each)
    assert each.asked.access_filter is not None
    elsewhere = hits({"a": [1, 6], "c": [6]})
    moved = elsewhere._replace(payloads=[{**payload, "namespace": "others"} for payload in elsewhere.payloads])
    done = stage().on_result(each, Found(moved))
    assert [candidate.id for candidate in done.outcome.candidates] == ["b"]
