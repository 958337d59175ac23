"""Embeddings: what a model makes of a text."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Embedding:
    """One text's vector and, from a model that gives them, its token vectors.

    `vector` has unit length, or is zero where the model finds no token in the text; shape (dimension,), float32.
    `tokens` has unit rows, shape (tokens, dimension), float32, without the special tokens; `token_ids` are the
    vocabulary ids of those rows.
    """

    vector: NDArray[np.float32]
    tokens: NDArray[np.float32] | None = None
    token_ids: tuple[int, ...] = ()
