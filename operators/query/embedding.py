"""Embeddings: what a model makes of a text."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Embedding:
    """One text's vector and, from a model that gives them, its token vectors.

    `vector` has unit length, or is zero where the model finds no token in the text; shape (dimension,), float32.
    `tokens` has unit rows, shape (tokens, dimension), float32, without the special tokens; `token_ids` are the
    vocabulary ids of those rows. `directed` is False for a zero vector, which has no direction to search in.
    """

    vector: NDArray[np.float32]
    tokens: NDArray[np.float32] | None = None
    token_ids: tuple[int, ...] = ()
    directed: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Look at the vector once: a query's legs ask several times."""
        object.__setattr__(self, "directed", bool(self.vector.any()))
