"""Rerank: query and candidate read together, the candidates of many queries in one call where the reranker can.

Of the candidates that the plan has reranked, those whose score is known aren't asked for again; one candidate or none
needs no call. What can't be asked, can't make it or fails leaves the fused order, noted in the query.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final, Self

from bytewax.dataflow import Stream, operator
from opentelemetry.trace import SpanKind

from operators.clients.rerankers import Reranker, RerankRequest
from operators.clients.rerankers.candidates import Candidates, room
from operators.clients.rerankers.score_cache import ScoreCache
from operators.query.in_flight import InFlight
from operators.query.outcome import Outcome
from operators.query.rerank_scores import RerankScores, Scores
from operators.ranking.candidate import Candidate
from operators.ranking.dedupe import content
from operators.ranking.distance import pick
from operators.ranking.relevance import merge
from operators.runtime.async_io import async_io
from operators.runtime.dispatcher import BatchKey, Bounds, Finished
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.stage import Batch, Stage, stage
from schemas.errors import BackendError, Reason
from schemas.recipes import Recipe
from schemas.recipes.stages import LlmRerank
from schemas.settings import RerankSettings

_BATCH_KEY: Final = "rerank"
_STAGE: Final = "rerank"
_PICK: Final = LlmRerank(enabled=True)


@dataclass(frozen=True, slots=True)
class Judging:
    """What a verdict does: its say in the score, 0 to 1, or, if the reranker `picks`, one candidate goes first."""

    weight: float = 1.0
    picks: bool = False

    @classmethod
    def of(cls, settings: RerankSettings) -> Self:
        """What the settings say."""
        return cls(settings.weight, settings.kind == "chat" and settings.mode == "pick")


@dataclass(frozen=True)
class Reranking:
    """One reranker's part of the work; without a reranker there is none.

    `picking`: it serves the queries whose recipe has a chat model pick, and else all the others. `max_doc_chars` cuts
    each document; 0 doesn't. `in_flight` is told the number of its calls under way whenever that changes.
    """

    reranker: Reranker | None
    bounds: Bounds
    judging: Judging = Judging()
    picking: bool = False
    max_doc_chars: int = 0
    cache: ScoreCache | None = None
    in_flight: Callable[[int], None] | None = None

    def serves(self, query: InFlight) -> bool:
        """Whether it is to rerank this query's candidates."""
        picked = query.asked.plan.recipe.picking is not None
        # One candidate needs no judge, and keeps its score.
        wanted = (
            query.asked.canonical.text is not None
            and min(len(query.outcome.candidates), query.asked.plan.reranks(query.asked.canonical)) > 1
        )
        return self.reranker is not None and picked == self.picking and wanted

    @property
    def reads_tokens(self) -> bool:
        """Whether its reranker needs the query's token vectors."""
        return self.reranker is not None and self.reranker.reads == "tokens"

    def depth(self, query: InFlight) -> int:
        """How many candidates must be fetched for it."""
        return query.asked.plan.reranks(query.asked.canonical) if self.serves(query) else 0

    def plan(self, query: InFlight) -> Mapping[BatchKey, RerankRequest]:
        """Ask for the first candidates of a query that it serves and can read."""
        query.started = monotonic()
        if not self.serves(query) or self.unreadable(query) is not None:
            return {}
        text = query.asked.canonical.text
        assert text is not None
        first = query.outcome.candidates[: query.asked.plan.reranks(query.asked.canonical)]
        cut = self._room(text)
        documents = {each.id: content(query.outcome.payloads.get(each.id, {}))[:cut] for each in first}
        known = self.cache.known(text, documents) if self.cache is not None else {}
        if known:
            documents = {id_: document for id_, document in documents.items() if id_ not in known}
        where = query.asked.collection, query.asked.canonical.namespace
        return {
            _BATCH_KEY: RerankRequest(text, documents, *where, query.retrieval.embedding, known, query.cache.watermark)
        }

    def unreadable(self, query: InFlight) -> Reason | None:
        """Why the reranker can't read this query or its candidates, if it can't."""
        assert self.reranker is not None
        lost = dict(query.outcome.degraded)
        if self.reranker.reads == "tokens" and query.retrieval.embedding is None:
            return lost.get("embed", Reason.NO_VECTOR)
        if "fetch" in lost:
            return lost["fetch"]
        assert query.asked.canonical.text is not None
        left = self._room(query.asked.canonical.text)
        return Reason.TOO_LARGE if left is not None and left <= 0 else None

    async def call(
        self, _: BatchKey, requests: Sequence[RerankRequest], timeout: float
    ) -> Sequence[Scores | BackendError]:
        """One call to the reranker, whose scores are kept."""
        assert self.reranker is not None
        outcomes = await self.reranker.score(requests, timeout=timeout)
        if self.cache is not None:
            for request, outcome in zip(requests, outcomes, strict=True):
                if not isinstance(outcome, BackendError):
                    self.cache.put(request.query, request.documents, outcome)
        return outcomes

    def take(self, finished: Finished[InFlight, Scores]) -> InFlight:
        """Merge the scores into the order, or note why the fused order stands."""
        query, outcomes = finished.item, finished.outcomes
        if not self.serves(query):
            return query
        assert self.reranker is not None
        outcome = outcomes.get(_BATCH_KEY)
        if outcome is None:
            reason = self.unreadable(query)
            # A vector that the query brought itself has no tokens, and nobody has lost them.
            if reason is not None and reason is not Reason.NO_VECTOR:
                query.lose(_STAGE, reason)
            return query
        error = None
        if isinstance(outcome, BackendError):
            error = outcome.reason
            query.lose(_STAGE, error)
        else:
            query.outcome.rerank_scores = RerankScores(self.reranker.model, outcome)
            top = query.asked.plan.reranks(query.asked.canonical)
            query.outcome.candidates = judged(
                query.asked.plan.recipe, query.outcome, query.outcome.candidates, outcome, top, self.judging
            )
            query.outcome.reranked = True
        query.passed("pick" if self.picking else "rerank", len(query.outcome.candidates))
        attributes = {"gen_ai.operation.name": "rerank", "gen_ai.request.model": self.reranker.model}
        query.trace.child(_STAGE, query.started, attributes, error=error, kind=SpanKind.CLIENT)
        return query

    def _room(self, text: str) -> int | None:
        assert self.reranker is not None
        return room(text, self.reranker.capacity.chars, self.max_doc_chars)


def judged(
    recipe: Recipe, outcome: Outcome, candidates: Sequence[Candidate], scores: Scores, top: int, judging: Judging
) -> list[Candidate]:
    """The candidates in the order that the scores of their first `top` give them; a pick moves one to the front."""
    if recipe.picking is None and not judging.picks:
        return merge(candidates, scores, top, judging.weight, outcome.explanations)
    read = [candidate.id for candidate in candidates[:top] if candidate.id in scores]
    if not read:
        return list(candidates)
    return pick(candidates, max(read, key=scores.__getitem__), recipe.picking or _PICK, outcome.explanations)


@operator
def rerank(step_id: str, up: Stream[Batch], reranking: Reranking, calls: EventLoopThread) -> Stage[InFlight]:
    """Queries in and on, reranked; a lost reranker leaves the fused order and is noted in the query."""
    if reranking.reranker is None:
        return stage("rerank", up, lambda query: query, lambda query: query)
    batching = Candidates(reranking.reranker.capacity)
    observed = reranking.in_flight
    done = async_io(
        "reranker",
        up,
        calls,
        reranking.plan,
        reranking.call,
        lambda query: query.deadline,
        reranking.bounds,
        batching,
        None if observed is None else lambda _, count: observed(count),
    )
    return stage("rerank", done, lambda done: done.item, reranking.take)
