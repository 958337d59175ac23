"""Rerank: whom it asks, with what, and what becomes of the order."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from operators.clients.model_caches import ScoreCache, VerdictCache
from operators.clients.rerankers import Capacity, Reads, RerankRequest
from operators.query.backend_answers import Embedding, PartialScores, Scores, SomeScores, refused_of
from operators.query.in_flight import InFlight
from operators.query.outcome import Results
from operators.query.result import result, status_of
from operators.ranking.candidate import Candidate
from operators.ranking.pipeline import Ranked
from operators.ranking.run import Facts, Run
from operators.runtime.dispatcher import Bounds
from operators.stages.rerank import Reranking, rank
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable, NoTokenVectors, Reason
from schemas.result import Status
from schemas.settings import Profile
from tests.operators.samples import capable, query

TOKENS = Embedding(np.ones(3, np.float32), np.ones((2, 3), np.float32), (5, 6))
BOUNDS = Bounds(10, 8, 8)


class Scripted:
    """A reranker by what it reads, which gives every document the length of its text, or fails."""

    model = "scripted"

    def __init__(
        self, reads: Reads = "text", capacity: Capacity | None = None, *, fails: bool = False, refused: str = ""
    ) -> None:
        self.reads: Reads = reads
        self.capacity = capacity or Capacity()
        self._fails = fails
        self._refused = frozenset(refused)

    async def score(self, requests: Sequence[RerankRequest], *, timeout: float) -> Sequence[Scores | BackendError]:
        """One outcome a request."""
        if self._fails:
            return [BackendBadResponse("garbage") for _ in requests]
        scores = [{id_: float(len(text)) for id_, text in each.documents.items()} for each in requests]
        if not self._refused:
            return scores
        return [SomeScores({id_: each[id_] for id_ in each.keys() - self._refused}, self._refused) for each in scores]

    async def aclose(self) -> None:
        """Nothing to release."""


def fetched(**event: Any) -> InFlight:
    """A query with candidates a, b, c, their texts, and an embedding."""
    asked = query(**event)
    found = [Candidate(name, 1 - index / 10) for index, name in enumerate("abc")]
    asked.outcome.rank(Ranked(found, Run(Facts())))
    asked.outcome.payloads = {name: {"text": f"text {name}"} for name in "abc"}
    asked.retrieval.embedding = TOKENS
    return asked


def by(reads: Reads = "text", **options: Any) -> Reranking:
    """Such a reranker for every query."""
    capacity = options.pop("capacity", None)
    return Reranking(Scripted(reads, capacity), BOUNDS, **options)


def after(asked: InFlight, outcomes: Mapping[str, Any], reranking: Reranking | None = None) -> InFlight:
    """The query once the reranker's outcome is there, if it was asked, and ranked on."""
    stage = reranking or by()
    return rank(stage.on_result(asked, outcomes["rerank"]) if outcomes else stage.on_unasked(asked))


def result_of(asked: InFlight) -> dict[str, Any]:
    """The result of a query that is ranked."""
    return result(asked.asked, asked.outcome, "0", asked.outcome.candidates, {})


def requested(reranking: Reranking, asked: InFlight) -> RerankRequest:
    """The reranker's request for the query."""
    request = reranking.ask(asked)
    assert request is not None
    return request[1]


def test_the_first_candidates_are_asked_with_their_texts() -> None:
    """The request holds the profile's first candidates in order, each with its text, and whose they are."""
    asked = fetched()
    asked.asked = replace(asked.asked, plan=replace(asked.asked.plan, profile=Profile(rerank_top=2)))
    request = requested(by(), asked)
    assert dict(request.documents) == {"a": "text a", "b": "text b"}
    assert (request.query, request.namespace, request.collection) == ("some text", "public", "documents")


def test_a_document_is_read_as_it_was_indexed() -> None:
    """Title and text, as far as the payload has them."""
    asked = fetched()
    asked.outcome.payloads = {"a": {"title": "A title", "text": "and a text"}, "b": {"title": "B"}, "c": {"text": 7}}
    assert dict(requested(by(), asked).documents) == {"a": "A title\nand a text", "b": "B"}


BLANK = ["", " \t\n", "\x00", "\u200b\ufeff", "\u00a0\u3000", None, 7]


@pytest.mark.parametrize("text", BLANK)
def test_a_blank_text_is_never_sent(text: object) -> None:
    """Its candidate has no score and follows behind the scored ones, before those that were not to be read."""
    asked = fetched()
    asked.outcome.payloads["a"] = {"text": text}
    request = requested(by(), asked)
    assert dict(request.documents) == {"b": "text b", "c": "text c"}
    rank(by().on_result(asked, {"b": 1.0, "c": 2.0}))
    assert [each.id for each in asked.outcome.candidates] == ["c", "b", "a"]
    assert asked.outcome.degraded == []
    assert result_of(asked)["reranked_candidates"] == 2
    assert result_of(asked)["unscored_candidates"] == 1


def test_a_refused_text_follows_the_scored_ones() -> None:
    """One document that the reranker cannot read costs the query no ranking: the result says how many have no score."""
    asked = fetched()
    outcome = SomeScores({"a": 1.0, "c": 2.0}, frozenset({"b"}))
    rank(by().on_result(asked, outcome))
    assert [each.id for each in asked.outcome.candidates] == ["c", "a", "b"]
    assert asked.outcome.degraded == []
    assert (result_of(asked)["reranked_candidates"], result_of(asked)["unscored_candidates"]) == (2, 1)


@pytest.mark.parametrize("scored", ["", "a"])
@pytest.mark.parametrize("reads", ["tokens", "stored_tokens"])
def test_one_text_with_a_token_is_no_failure(reads: Reads, scored: str) -> None:
    """There is nothing to compare: the order stays, and nothing was lost."""
    asked = fetched()
    outcome = SomeScores(dict.fromkeys(scored, 1.0), frozenset("abc") - frozenset(scored))
    after(asked, {"rerank": outcome}, by(reads))
    assert (asked.outcome.degraded, asked.outcome.warnings, asked.outcome.run.reranked) == ([], [], False)
    assert [each.id for each in asked.outcome.candidates] == ["a", "b", "c"]


def test_a_query_of_refused_texts_is_not_reranked() -> None:
    """With one score or none there is nothing to compare: the query says that the reranker's part is lost."""
    asked = fetched()
    rank(by().on_result(asked, SomeScores({"a": 1.0}, frozenset("bc"))))
    assert asked.outcome.degraded == [("rerank", Reason.BAD_RESPONSE)]
    assert [each.id for each in asked.outcome.candidates] == ["a", "b", "c"]


async def test_a_refusal_is_not_cached() -> None:
    """Another time the server may read the text; the scores of the others are cached."""
    reranking = Reranking(Scripted(refused="b"), BOUNDS, cache=ScoreCache(100), verdicts=VerdictCache(100))
    request = requested(reranking, fetched())
    (outcome,) = await reranking.call("rerank", [request], 1.0)
    reranking.on_result(fetched(), outcome)
    assert list(requested(reranking, fetched()).documents) == ["b"]


def test_refusals_of_slices_are_combined() -> None:
    """A query's documents go in several calls: what any of them refused has no score, also where others are lost."""
    request = requested(by(), fetched())
    policy = by().batching
    slices = [SomeScores({}, frozenset("a")), {"b": 1.0}, {"c": 2.0}]
    whole = policy.combine(request, slices)
    assert whole == {"b": 1.0, "c": 2.0}
    assert refused_of(whole) == {"a"}
    part = policy.partial(request, 2, slices[:2], BackendUnavailable("gone"))
    assert isinstance(part, PartialScores)
    assert part == {"b": 1.0}
    assert part.unread == "c"
    assert part.refused == {"a"}


def test_a_model_of_tokens_reads_what_the_index_has() -> None:
    """It is sent no text, and the token vectors are asked for of all candidates."""
    asked = fetched()
    asked.outcome.payloads["a"] = {"text": ""}
    assert list(requested(by("tokens"), asked).documents) == ["a", "b", "c"]


def test_one_text_among_blank_ones_needs_no_call() -> None:
    """There is nothing to compare: the order stays, and nothing was lost."""
    asked = fetched()
    asked.outcome.payloads |= {"a": {"text": ""}, "c": {"text": " "}}
    assert by().ask(asked) is None
    assert by().on_unasked(asked).outcome.degraded == []
    assert [each.id for each in asked.outcome.candidates] == ["a", "b", "c"]


def test_a_blank_text_goes_with_the_tail() -> None:
    """If the model finds a candidate irrelevant, the unscored are dropped like all that no model has read."""
    asked = fetched()
    asked.outcome.payloads["a"] = {"text": ""}
    rank(by(omits=True).on_result(asked, {"c": 2.0}))
    assert [each.id for each in asked.outcome.candidates] == ["c"]


@pytest.mark.parametrize("reads", ["text", "tokens"])
def test_nobody_is_asked_without_need(reads: Reads) -> None:
    """`rerank: false`, profile `fast`, reflections alone, no text, or no candidate: no call, nothing is lost by it."""
    textless, empty = fetched(text=None, vector=[1.0, 0.0, 0.0]), fetched()
    empty.outcome.results = Results([])
    unwanted = [fetched(rerank=False), fetched(profile="fast"), fetched(reflections_only=True)]
    for asked in (*unwanted, textless, empty):
        assert by(reads).ask(asked) is None
        assert after(asked, {}, by(reads)).outcome.degraded == []
        assert not asked.outcome.run.reranked


@pytest.mark.parametrize(("reads", "stage"), [("tokens", "embed"), ("tokens", "fetch"), ("text", "fetch")])
def test_what_it_reads_is_lost_with_its_reason(reads: Reads, stage: str) -> None:
    """Without the vectors or the texts that it reads it isn't asked, and the answer names the first cause."""
    asked = fetched()
    asked.lose(stage, Reason.TIMEOUT)
    if stage == "embed":
        asked.retrieval.embedding = None
    assert by(reads).ask(asked) is None
    assert after(asked, {}, by(reads)).outcome.degraded == [(stage, Reason.TIMEOUT), ("rerank", Reason.TIMEOUT)]


def test_a_lost_embedding_is_nothing_to_who_reads_texts() -> None:
    """A cross-encoder ranks what the keyword leg found."""
    asked = fetched()
    asked.lose("embed", Reason.UNAVAILABLE)
    asked.retrieval.embedding = None
    assert by().ask(asked)


@pytest.mark.parametrize(
    ("reads", "tokens", "asks"),
    [("stored_tokens", True, True), ("stored_tokens", False, False), ("tokens", False, True), ("text", False, True)],
)
def test_a_collection_without_token_vectors_needs_no_call(reads: Reads, tokens: bool, asks: bool) -> None:
    """A reranker that reads the index's token vectors isn't asked where there are none; others are, and told so."""
    asked = fetched()
    asked.retrieval.capabilities = capable(tokens=tokens)
    request = by(reads).ask(asked)
    assert ([] if request is None else [request[1].stored]) == [tokens] * asks
    if not asks:
        unread(after(asked, {}, by(reads)))


def test_documents_without_token_vectors_are_no_failure() -> None:
    """The fused order stands, nothing is lost, and a warning says why in plain words."""
    unread(after(fetched(), {"rerank": NoTokenVectors("2 of 3")}, by("stored_tokens")))


def unread(asked: InFlight, warned: str = "no_token_vectors: ") -> None:
    """It has its fused order, one warning, and no loss."""
    assert [candidate.id for candidate in asked.outcome.candidates] == ["a", "b", "c"]
    assert (asked.outcome.degraded, asked.outcome.run.reranked, asked.outcome.rerank_scores) == ([], False, None)
    (warning,) = asked.outcome.warnings
    assert warning.startswith(warned)


@pytest.mark.parametrize("reads", ["tokens", "stored_tokens"])
def test_a_query_without_tokens_is_no_failure(reads: Reads) -> None:
    """Nobody is asked, the order of the legs stands, nothing is lost, and a warning says why."""
    asked = fetched()
    asked.retrieval.embedding = Embedding(np.ones(3, np.float32), np.zeros((0, 3), np.float32))
    assert by(reads).ask(asked) is None
    unread(after(asked, {}, by(reads)), "no_terms: ")


def test_one_candidate_needs_no_call() -> None:
    """Nobody judges it: its score stays, and the answer names no reranker."""
    asked = fetched()
    asked.outcome.results = Results([Candidate("a", 0.37)])
    assert by().ask(asked) is None
    after(asked, {})
    outcome = asked.outcome
    assert (outcome.candidates, outcome.rerank_scores, outcome.run.reranked, outcome.degraded) == (
        [Candidate("a", 0.37)],
        None,
        False,
        [],
    )


@pytest.mark.parametrize(
    ("capacity", "max_doc_chars", "text"),
    [(Capacity(), 3, "tex"), (Capacity(chars=9 + 16 + 4), 0, "text"), (Capacity(chars=9 + 16 + 4), 2, "te")],
)
def test_documents_are_cut(capacity: Capacity, max_doc_chars: int, text: str) -> None:
    """To `max_doc_chars`, and to what the query of 9 and the frame of 16 code points leave of a call."""
    request = requested(by(capacity=capacity, max_doc_chars=max_doc_chars), fetched())
    assert set(request.documents.values()) == {text}


def test_a_query_that_leaves_no_room_is_not_asked() -> None:
    """A query as long as all that a call may hold can't be judged: the answer says `too_large`."""
    asked, narrow = fetched(), by(capacity=Capacity(chars=20))
    assert narrow.ask(asked) is None
    assert narrow.on_unasked(asked).outcome.degraded == [("rerank", Reason.TOO_LARGE)]


async def test_what_is_known_is_not_asked_again() -> None:
    """Scores of a call are kept: the next query of that text asks for new documents alone, then for none."""
    reranking = by(cache=ScoreCache(100))
    first = fetched()
    first.outcome.results = Results(first.outcome.candidates[:2])
    await reranking.call("rerank", [requested(reranking, first)], 1.0)
    second = requested(reranking, fetched())
    assert (dict(second.documents), second.known) == ({"c": "text c"}, {"a": 6.0, "b": 6.0})
    await reranking.call("rerank", [second], 1.0)
    assert requested(reranking, fetched()).documents == {}
    assert dict(requested(reranking, fetched(text="another")).documents) == {name: f"text {name}" for name in "abc"}


@pytest.mark.parametrize("said", [{"b": 0.5}, {"c": 1.0, "a": 0.25}, {"a": 1.0, "b": 0.5, "c": 0.25}, {}])
def test_a_comparison_is_not_made_again(said: Scores) -> None:
    """A model's word on candidates that it compared is known for the same candidates alone, `none` too."""
    reranking = by(compares=True, verdicts=VerdictCache(100))
    assert len(requested(reranking, fetched()).documents) == 3
    reranking.on_result(fetched(), said)
    again = requested(reranking, fetched())
    assert (dict(again.documents), dict(again.known)) == ({}, said)
    fewer = fetched()
    fewer.outcome.results = Results(fewer.outcome.candidates[:2])
    assert len(requested(reranking, fewer).documents) == 2


def test_an_omission_is_not_asked_for_again() -> None:
    """A cross-encoder that is known to omit leaves a candidate out on the next page, too, without a call."""
    reranking = by(omits=True, cache=ScoreCache(100), verdicts=VerdictCache(100))
    reranking.on_result(fetched(), {"b": 0.5, "a": 0.25})
    again = requested(reranking, fetched())
    assert (dict(again.documents), dict(again.known)) == ({}, {"b": 0.5, "a": 0.25})


@pytest.mark.parametrize(("compares", "omits"), [(False, False), (True, False), (False, True)])
def test_who_may_find_nothing_relevant(compares: bool, omits: bool) -> None:
    """No score for any candidate is a verdict of a chat model, and of a cross-encoder that is known to omit; of any
    other it is a bad response.
    """
    asked = by(compares=compares, omits=omits).on_result(fetched(), {})
    verdict = compares or omits
    assert asked.outcome.degraded == ([] if verdict else [("rerank", Reason.BAD_RESPONSE)])
    assert (asked.outcome.rerank_scores is not None) == verdict


async def test_a_failure_is_not_kept() -> None:
    """A failed request is asked for again."""
    reranking = Reranking(Scripted(fails=True), BOUNDS, cache=ScoreCache(100))
    await reranking.call("rerank", [requested(reranking, fetched())], 1.0)
    assert len(requested(reranking, fetched()).documents) == 3


def test_a_failure_leaves_the_fused_order() -> None:
    """A failed reranker changes neither order nor scores, and is noted."""
    asked = fetched()
    before = [(candidate.id, candidate.score) for candidate in asked.outcome.candidates]
    after(asked, {"rerank": BackendTimeout("late")})
    assert [(candidate.id, candidate.score) for candidate in asked.outcome.candidates] == before
    assert asked.outcome.degraded == [("rerank", Reason.TIMEOUT)]
    assert not asked.outcome.run.reranked


def test_a_verdict_reorders() -> None:
    """Scores put the best first; whom a model that compares leaves out is gone."""
    asked = after(fetched(), {"rerank": {"a": 0.1, "c": 0.9}}, by(compares=True))
    assert [candidate.id for candidate in asked.outcome.candidates] == ["c", "a"]
    assert asked.outcome.run.reranked


@pytest.mark.parametrize("cached", [False, True])
def test_a_shortfall_is_a_fault_of_the_server(cached: bool) -> None:
    """A reranker of all that leaves one out loses none: the others come first, and the answer says what is missing."""
    reranking = by(cache=ScoreCache(100), verdicts=VerdictCache(100)) if cached else by()
    asked = after(fetched(), {"rerank": {"a": 0.1, "c": 0.9}}, reranking)
    assert [candidate.id for candidate in asked.outcome.candidates] == ["c", "a", "b"]
    assert asked.outcome.degraded == [("rerank", Reason.BAD_RESPONSE)]
    assert status_of(asked.asked, asked.outcome) is Status.PARTIAL
    # No verdict is kept of it.
    assert set(requested(reranking, fetched()).documents) == {"a", "b", "c"}


def test_a_shortfall_of_all_but_one_is_no_order() -> None:
    """One score orders nothing: the query is unranked."""
    asked = after(fetched(), {"rerank": {"c": 0.9}})
    assert [candidate.id for candidate in asked.outcome.candidates] == ["a", "b", "c"]
    assert status_of(asked.asked, asked.outcome) is Status.UNRANKED


def test_none_relevant_is_a_verdict() -> None:
    """All left out by a chat model: nothing is answered, and nothing was lost."""
    asked = after(fetched(), {"rerank": {}}, by(compares=True))
    assert (asked.outcome.candidates, asked.outcome.degraded, asked.outcome.run.reranked) == ([], [], True)
