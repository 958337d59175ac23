"""Embed and encode: the texts of many queries become vectors in one request, dense ones by the embedder and sparse ones
by the sparse encoder; a text that was embedded before needs none.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import ClassVar, Final, TypeVar

from typing_extensions import override

from operators.clients.embedders import Encoder, Purpose
from operators.clients.failures import Chance, bisect
from operators.clients.model_caches import EmbeddingCache
from operators.query.backend_answers import Embedding
from operators.query.in_flight import InFlight
from operators.query.legs import reads_of
from operators.ranking.content import is_blank
from operators.runtime.dispatcher import BatchKey, Bounds, Load
from operators.stages.backend_stage import BackendStage, model_attributes
from operators.text.terms import SparseVector
from operators.wire.message import Attributes
from schemas.errors import BackendBadResponse, BackendError

Vector = TypeVar("Vector", bound=Embedding | SparseVector)

_UNKNOWN: Final = "unknown_script: the embedding model does not know"
_UNREADABLE: Final = f"{_UNKNOWN} the letters of the text, so it is searched for by its words alone"
_UNKNOWN_SIGNS: Final = f"{_UNKNOWN} some signs of the text, so they are searched for as words alone"


def needs_embedding(query: InFlight, *, tokens: bool) -> bool:
    """True if the query has a text, or one that it is to be like, and no vector of its own, and its plan, or a reranker
    that reads `tokens`, a use for an embedding.
    """
    asked, plan, like = query.asked, query.asked.plan, query.asked.event.like
    no_text = asked.text is None and (like is None or like.text is None)
    if asked.event.vector is not None or no_text or not plan.profile.semantic:
        return False
    searched = reads_of(Embeddings.name, plan.recipe.fusion.legs)
    return asked.event.reflections_only or searched or (tokens and asked.reranks > 0)


_DOCUMENT: Final = "document"

Asked = tuple[str, str]
"""A query's namespace and its text."""


@dataclass(frozen=True)
class TextStage(BackendStage[Asked, Vector]):
    """Has a model make a vector of each query's text. `provider` serves the model; by default this process does."""

    encoder: Encoder[Vector]
    bounds: Bounds
    cached: EmbeddingCache[Vector] | None = None
    load: Load | None = None
    provider: str = "rankstream"
    chance: Chance = field(default_factory=Chance, init=False)

    cache: ClassVar[str]
    """The name of the cache in metrics."""

    @abstractmethod
    def wants(self, query: InFlight) -> bool:
        """True if the query is to have a vector of its text."""

    @abstractmethod
    def vector(self, query: InFlight) -> Vector | None:
        """The vector that the query has."""

    def ask(self, query: InFlight) -> tuple[BatchKey, Asked] | None:
        text, like = query.asked.text, query.asked.event.like
        if like is not None and like.text is not None and self.wants(query):
            return (self.name, _DOCUMENT), (query.asked.namespace, like.text)
        if text is None or not self.wants(query):
            return None
        asked = query.asked.namespace, text
        if self.cached is not None:
            found = self.cached.get(asked)
            query.trace.looked_up(self.cache, found is not None, found is None)
            if found is not None:
                self.on_answer(query, found)
        return (self.name, asked) if self.vector(query) is None else None

    @override
    async def call(self, batch_key: BatchKey, requests: Sequence[Asked], timeout: float) -> list[Vector | BackendError]:
        """One call for the texts, in which no text is asked for twice; usable vectors of queries are cached.

        If the call is refused, say for a text longer than the model's context, its texts are bisected.
        """
        deadline = monotonic() + timeout
        purpose: Purpose = "query" if batch_key == self.name else _DOCUMENT
        texts = list(dict.fromkeys(text for _, text in requests))

        async def embed(some: Sequence[str]) -> list[Vector]:
            return await self.encoder.embed(some, purpose=purpose, timeout=deadline - monotonic())

        answers = await bisect(texts, embed, chance=self.chance)
        found = {text: self.check(answer) for text, answer in zip(texts, answers, strict=True)}
        if self.cached is not None and purpose != _DOCUMENT:
            for asked in requests:
                answer = found[asked[1]]
                if not isinstance(answer, BackendError):
                    self.cached.put(asked, answer)
        return [found[text] for _, text in requests]

    def check(self, answer: Vector | BackendError) -> Vector | BackendError:
        """The answer for a text, or why it cannot be searched by."""
        return answer

    @override
    def on_unasked(self, item: InFlight) -> InFlight:
        """A cached vector is passed like one that was asked for."""
        if self.vector(item) is not None:
            item.passed(self.step)
        return item

    @override
    def span(self, query: InFlight) -> tuple[str, Attributes]:
        return self.name, model_attributes("embeddings", self.encoder.model, self.provider)


@dataclass(frozen=True)
class Embeddings(TextStage[Embedding]):
    """Embeds queries' texts as vectors of `dimension`; `tokens`: a reranker reads token vectors."""

    name: ClassVar = "embed"
    cache: ClassVar = "embedding"

    dimension: int = field(kw_only=True)
    tokens: bool = field(default=False, kw_only=True)

    def wants(self, query: InFlight) -> bool:
        return needs_embedding(query, tokens=self.tokens)

    def vector(self, query: InFlight) -> Embedding | None:
        return query.retrieval.embedding

    def on_answer(self, query: InFlight, answer: Embedding) -> None:
        query.retrieval.embedding = answer
        if not answer.readable:
            query.outcome.warnings.append(_UNREADABLE)
        elif answer.unknown_signs:
            query.outcome.warnings.append(_UNKNOWN_SIGNS)

    @override
    def check(self, answer: Embedding | BackendError) -> Embedding | BackendError:
        if isinstance(answer, BackendError) or len(answer.vector) == self.dimension:
            return answer
        return BackendBadResponse(f"embedder: {len(answer.vector)} dimensions, expected {self.dimension}")

    @override
    def span(self, query: InFlight) -> tuple[str, Attributes]:
        name, attributes = super().span(query)
        return name, {**attributes, "gen_ai.embeddings.dimension.count": self.dimension}


@dataclass(frozen=True)
class Encodings(TextStage[SparseVector]):
    """Encodes queries' texts for the leg `learned`."""

    name: ClassVar = "encode"
    cache: ClassVar = "encoding"

    def wants(self, query: InFlight) -> bool:
        asked, plan = query.asked, query.asked.plan
        if asked.text is None or is_blank(asked.text) or asked.event.reflections_only or not plan.profile.semantic:
            return False
        return reads_of(self.name, plan.recipe.fusion.legs, query.retrieval.capabilities)

    def vector(self, query: InFlight) -> SparseVector | None:
        return query.retrieval.encoding

    def on_answer(self, query: InFlight, answer: SparseVector) -> None:
        query.retrieval.encoding = answer
