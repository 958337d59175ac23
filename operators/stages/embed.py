"""Embed: the texts of many queries become vectors in one request; one that was embedded before needs none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

from bytewax.dataflow import Stream, operator
from opentelemetry.trace import SpanKind

from operators.clients.embedders import Embedder
from operators.clients.embedders.cached import CachedEmbeddings
from operators.clients.http.bisection import apart
from operators.query.embedding import Embedding
from operators.query.in_flight import InFlight
from operators.runtime.async_io import async_io
from operators.runtime.dispatcher import BatchKey, Bounds, Finished
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.stage import Batch, Stage, stage
from schemas.errors import BackendBadResponse, BackendError, Reason
from schemas.leg import VECTOR

_BATCH_KEY = "embed"


@dataclass(frozen=True)
class Embeddings:
    """Who embeds the queries' texts, if anybody does, as vectors of `dimension`.

    `tokens`: whether a reranker reads token vectors.
    """

    embedder: Embedder | None
    dimension: int
    tokens: bool
    bounds: Bounds
    cached: CachedEmbeddings | None = None

    def wanted(self, query: InFlight) -> bool:
        """Whether the query has a text and no vector, and its plan, or a reranker that reads tokens, a use for one."""
        if (
            query.asked.canonical.vector is not None
            or query.asked.canonical.text is None
            or not query.asked.plan.profile.semantic
        ):
            return False
        searched = query.asked.canonical.reflections_only or VECTOR in query.asked.plan.recipe.fusion.legs
        read = query.asked.plan.recipe.picking is None and query.asked.plan.reranks(query.asked.canonical) > 0
        return searched or (self.tokens and read)

    def plan(self, query: InFlight) -> Mapping[BatchKey, str]:
        """Ask for the query's embedding, if it is wanted and isn't there."""
        query.started = monotonic()
        if query.asked.canonical.text is None or not self.wanted(query):
            return {}
        if self.cached is not None:
            query.retrieval.embedding = self.cached.get(query.asked.canonical.text)
        return {_BATCH_KEY: query.asked.canonical.text} if query.retrieval.embedding is None else {}

    async def call(self, _: BatchKey, texts: Sequence[str], timeout: float) -> list[Embedding | BackendError]:
        """One call for the texts, in which none is asked for twice; what is usable of its answer is kept.

        If it is refused, say for a text longer than the model's context, its texts are asked apart.
        """
        embedder = self.embedder
        assert embedder is not None
        deadline = monotonic() + timeout
        asked = list(dict.fromkeys(texts))
        answers = await apart(asked, lambda some: embedder.embed(some, timeout=deadline - monotonic()))
        found = dict(zip(asked, answers, strict=True))
        if self.cached is not None:
            for text, answer in found.items():
                if isinstance(answer, Embedding) and len(answer.vector) == self.dimension:
                    self.cached.put(text, answer)
        return [found[text] for text in texts]

    def take(self, finished: Finished[InFlight, Embedding]) -> InFlight:
        """Take over the vector, or note that and why there is none."""
        query, outcome = finished.item, finished.outcomes.get(_BATCH_KEY)
        if outcome is None:
            return query
        if isinstance(outcome, Embedding) and len(outcome.vector) != self.dimension:
            outcome = BackendBadResponse(f"embedder: {len(outcome.vector)} dimensions, expected {self.dimension}")
        error = None
        if isinstance(outcome, BackendError):
            error = outcome.reason
            query.lose("embed", outcome.reason)
        else:
            query.retrieval.embedding = outcome
        query.passed("embed")
        assert self.embedder is not None
        attributes = {"gen_ai.operation.name": "embeddings", "gen_ai.request.model": self.embedder.model}
        query.trace.child("embed", query.started, attributes, error=error, kind=SpanKind.CLIENT)
        return query

    def missed(self, query: InFlight) -> InFlight:
        """Note that nobody embeds here, if the query needs it."""
        if self.wanted(query):
            query.lose("embed", Reason.NO_EMBEDDER)
        return query


@operator
def embed(step_id: str, up: Stream[Batch], embeddings: Embeddings, calls: EventLoopThread) -> Stage[InFlight]:
    """Queries in and on, with their vectors; a lost embedder is noted in the query."""
    if embeddings.embedder is None:
        return stage("embed", up, lambda query: query, embeddings.missed)
    bounds = embeddings.bounds
    done = async_io("embedder", up, calls, embeddings.plan, embeddings.call, lambda query: query.deadline, bounds)
    return stage("embed", done, lambda done: done.item, embeddings.take)
