"""Embedders: texts in, one dense vector a text out, many queries' texts in one request."""

from collections.abc import Sequence
from typing import Literal, Protocol

from operators.query.backend_answers import Embedding

Purpose = Literal["query", "document"]
"""The use of a text: many models embed a question otherwise than the texts that it is to find."""


class Embedder(Protocol):
    """The interface of an embedder for the embed stage and the indexer."""

    @property
    def model(self) -> str:
        """The model's name, as provenance reports it."""
        ...

    async def embed(self, texts: Sequence[str], *, purpose: Purpose, timeout: float) -> list[Embedding]:
        """Embed `texts`, all of one purpose, in their order within `timeout` seconds.

        Raises BackendError when the whole request failed; an answer is complete or rejected whole.
        """
        ...

    async def aclose(self) -> None:
        """Release connections and threads."""
        ...
