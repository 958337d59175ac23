"""Embedders: texts in, one dense vector a text out, many queries' texts in one request."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Embedding:
    """One text's vector and, from a model that gives them, its token vectors.

    `vector` has unit length, shape (dimension,), float32. `tokens` has unit rows, shape (tokens, dimension), float32,
    without the special tokens; `pieces` are the vocabulary ids of those rows.
    """

    vector: NDArray[np.float32]
    tokens: NDArray[np.float32] | None = None
    pieces: tuple[int, ...] = ()


class Embedder(Protocol):
    """What the embed stage and the indexer ask of an embedder."""

    @property
    def model(self) -> str:
        """The model's name, as provenance reports it."""
        ...

    async def embed(self, texts: Sequence[str], *, timeout: float) -> list[Embedding]:
        """Embed `texts` in their order within `timeout` seconds.

        Raises BackendError when the whole request failed; an answer is complete or rejected whole.
        """
        ...

    async def aclose(self) -> None:
        """Release connections and threads."""
        ...
