"""Vectors of points and queries, checked against the collection that stores them or is searched by them.

Everything is checked before the engine sees it: the engine logs an update, then refuses it, and applies it again, in
part, when the shard is opened next. It stores NaN and infinity, and a sparse vector of unequal lengths makes it panic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from qdrant_edge import SparseVector

from operators.clients.http.dialect import fit_float32

if TYPE_CHECKING:
    # Names of the engine's type stubs only.
    from qdrant_edge import NamedVector


@dataclass(frozen=True, slots=True)
class VectorSchema:
    """The named vectors of a collection: the size of each dense one, which are multivectors, which are sparse."""

    sizes: Mapping[str, int]
    multi: frozenset[str]
    sparse: frozenset[str]

    def of_point(self, vectors: Mapping[str, Any]) -> dict[str, NamedVector]:
        """The vectors of a point by name. Raises ValueError, TypeError or KeyError where one doesn't fit."""
        return {name: self.vector(vector, name) for name, vector in vectors.items()}

    def vector(self, value: Any, name: str) -> NamedVector:
        """The vector of this name, or to search it with. Raises ValueError, TypeError or KeyError if it doesn't fit."""
        if name in self.sparse:
            return _sparse(value["indices"], value["values"])
        if name not in self.sizes:
            raise ValueError(f"Not existing vector name error: {name}")
        with np.errstate(over="ignore"):
            array = np.asarray(value, np.float32)
        if array.ndim not in ({1, 2} if name in self.multi else {1}):
            raise ValueError("Conversion between multi and regular vectors failed")
        if not np.isfinite(array).all():
            raise ValueError("a vector of numbers that are not finite")
        if array.shape[-1] != self.sizes[name]:
            raise ValueError(f"Vector dimension error: expected dim: {self.sizes[name]}, got {array.shape[-1]}")
        checked: NamedVector = array.tolist()
        return checked


def _sparse(indices: list[int], values: list[float]) -> SparseVector:
    if len(set(indices)) != len(indices) or len(indices) != len(values) or not fit_float32(values):
        raise ValueError("a sparse vector must have one finite value for each of its indices")
    return SparseVector(indices, values)


def written_bytes(vectors: Mapping[str, Any]) -> int:
    """About the bytes that these vectors take in the engine's log."""
    return sum(
        8 * len(vector["values"]) if isinstance(vector, Mapping) else 4 * np.size(vector) for vector in vectors.values()
    )
