"""Embed: the texts of many queries become vectors in one request; a text that was embedded before needs none.

The stage is a step of a query's way whether or not its text was cached.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import ClassVar, Final

from typing_extensions import override

from operators.clients.embedders import Embedder
from operators.clients.failures import Chance, bisect
from operators.clients.model_caches import EmbeddingCache
from operators.query.backend_answers import Embedding
from operators.query.in_flight import InFlight
from operators.query.trace import Attributes
from operators.runtime.dispatcher import BatchKey, Bounds, Load
from operators.stages.backend_stage import BackendStage
from schemas.errors import BackendBadResponse, BackendError
from schemas.result import VECTOR, VECTOR_CONTEXT

_UNREADABLE: Final = (
    "unknown_script: the embedding model does not know the letters of the text, so it is searched for by its"
    " words alone"
)


def needs_embedding(query: InFlight, *, tokens: bool) -> bool:
    """True if the query has a text and no vector of its own, and its plan, or a reranker that reads `tokens`, a use for
    an embedding.
    """
    asked, plan = query.asked.canonical, query.asked.plan
    if asked.vector is not None or asked.text is None or not plan.profile.semantic:
        return False
    searched = asked.reflections_only or not {VECTOR, VECTOR_CONTEXT}.isdisjoint(plan.recipe.fusion.legs)
    return searched or (tokens and plan.reranks(asked) > 0)


Asked = tuple[str, str]
"""A query's namespace and its text."""


@dataclass(frozen=True)
class Embeddings(BackendStage[Asked, Embedding]):
    """Embeds queries' texts as vectors of `dimension`; `tokens`: a reranker reads token vectors.

    `provider` serves the model; by default this process does.
    """

    name: ClassVar = "embed"

    embedder: Embedder
    dimension: int
    tokens: bool
    bounds: Bounds
    cached: EmbeddingCache | None = None
    load: Load | None = None
    provider: str = "rankstream"
    chance: Chance = field(default_factory=Chance, init=False)

    @override
    def wants(self, item: InFlight) -> bool:
        return needs_embedding(item, tokens=self.tokens)

    @override
    def ask(self, query: InFlight) -> tuple[BatchKey, Asked] | None:
        text = query.asked.canonical.text
        if text is None or not needs_embedding(query, tokens=self.tokens):
            return None
        asked = query.asked.canonical.namespace, text
        if self.cached is not None:
            query.retrieval.embedding = found = self.cached.get(asked)
            query.trace.looked_up("embedding", found is not None, found is None)
        return (self.name, asked) if query.retrieval.embedding is None else None

    @override
    async def call(
        self, batch_key: BatchKey, requests: Sequence[Asked], timeout: float
    ) -> list[Embedding | BackendError]:
        """One call for the texts, in which no text is asked for twice; usable embeddings are cached.

        If the call is refused, say for a text longer than the model's context, its texts are bisected.
        """
        deadline = monotonic() + timeout
        texts = list(dict.fromkeys(text for _, text in requests))

        async def embed(some: Sequence[str]) -> list[Embedding]:
            return await self.embedder.embed(some, purpose="query", timeout=deadline - monotonic())

        answers = await bisect(texts, embed, chance=self.chance)
        found = {text: self._check(answer) for text, answer in zip(texts, answers, strict=True)}
        if self.cached is not None:
            for asked in requests:
                if isinstance(answer := found[asked[1]], Embedding):
                    self.cached.put(asked, answer)
        return [found[text] for _, text in requests]

    @override
    def on_answer(self, query: InFlight, answer: Embedding) -> None:
        query.retrieval.embedding = answer
        _warn(query, answer)

    def on_unasked(self, item: InFlight) -> InFlight:
        """A cached embedding is passed like one that was asked for."""
        if item.retrieval.embedding is not None:
            _warn(item, item.retrieval.embedding)
            item.passed(self.step)
        return item

    @override
    def span(self, query: InFlight) -> tuple[str, Attributes]:
        """By the conventions for generative AI."""
        return "embed", {
            "gen_ai.operation.name": "embeddings",
            "gen_ai.provider.name": self.provider,
            "gen_ai.request.model": self.embedder.model,
            "gen_ai.embeddings.dimension.count": self.dimension,
        }

    def _check(self, answer: Embedding | BackendError) -> Embedding | BackendError:
        if isinstance(answer, BackendError) or len(answer.vector) == self.dimension:
            return answer
        return BackendBadResponse(f"embedder: {len(answer.vector)} dimensions, expected {self.dimension}")


def _warn(query: InFlight, embedding: Embedding) -> None:
    if not embedding.readable:
        query.outcome.warnings.append(_UNREADABLE)
