"""From an embedder's JSON to unit vectors."""

from typing import Any

import numpy as np

from operators.query.backend_answers import Embedding
from schemas.errors import BackendBadResponse

_NUMBERS = {int, float}


def unit_embeddings(rows: list[Any], dimension: int, *, backend: str) -> list[Embedding]:
    """Read each row as a vector and bring it to unit length; of zeros alone, as of a text without a token, it stays.

    Raises BackendBadResponse unless every row is a list of finite numbers (booleans aren't), as many as `dimension`.
    """
    if not rows:
        return []
    for row in rows:
        # numpy would take true for 1 and null for NaN.
        if not isinstance(row, list) or not _NUMBERS.issuperset(map(type, row)):
            raise BackendBadResponse(f"{backend}: a vector is not a list of numbers")
    if others := set(map(len, rows)) - {dimension}:
        raise BackendBadResponse(f"{backend}: vectors of another dimension than {dimension}: {min(others)}")
    try:
        matrix = np.array(rows, dtype=np.float64)
    except OverflowError:
        raise BackendBadResponse(f"{backend}: a vector holds a number out of range") from None
    if not np.isfinite(matrix).all():
        raise BackendBadResponse(f"{backend}: a vector holds a number that is not finite")
    # Scaled by the largest first: squares of very large or very small numbers leave the range of a double.
    peaks = np.abs(matrix).max(axis=-1, keepdims=True)
    matrix /= np.where(peaks, peaks, 1.0)
    matrix /= np.maximum(np.linalg.norm(matrix, axis=-1, keepdims=True), 1.0)
    # A copy each: a view kept in a cache would keep the whole batch.
    return [Embedding(row.astype(np.float32)) for row in matrix]
