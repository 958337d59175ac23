"""Sparse vectors: what the keyword leg searches by."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SparseVector:
    """A sparse vector: ascending term ids without repeats, and a weight each."""

    indices: list[int]
    values: list[float]
