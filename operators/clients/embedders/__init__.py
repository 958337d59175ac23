"""Embedders: texts in, one vector a text out, dense or sparse, many queries' texts in one request."""

from collections.abc import Sequence
from typing import Literal, Protocol, TypeVar

from operators.query.backend_answers import Embedding
from operators.text.terms import SparseVector

Purpose = Literal["query", "document"]
"""The use of a text: many models embed a question otherwise than the texts that it is to find."""

Vector = TypeVar("Vector")


class Encoder(Protocol[Vector]):
    """The interface of a model that makes a vector of each text, for the search flow's stages and the indexer."""

    @property
    def model(self) -> str:
        """The model's name, as provenance reports it."""

    async def embed(self, texts: Sequence[str], *, purpose: Purpose, timeout: float) -> list[Vector]:
        """Embed `texts`, all of one purpose, in their order within `timeout` seconds.

        Raises BackendError when the whole request failed; an answer is complete or rejected whole.
        """

    async def aclose(self) -> None: ...


Embedder = Encoder[Embedding]
"""A model of dense vectors."""

SparseEncoder = Encoder[SparseVector]
"""A model of sparse vectors, such as SPLADE; a text without a term has an empty one."""
