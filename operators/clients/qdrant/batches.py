"""Batches: searches and points in requests of the sizes that a collection takes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson


def parts(searches: Sequence[Mapping[str, Any]], most: int | None) -> list[Sequence[Mapping[str, Any]]]:
    """The searches in batches of at most so many; None is no bound."""
    size = most or max(len(searches), 1)
    return [searches[start : start + size] for start in range(0, len(searches), size)]


def chunks(points: Iterable[bytes], limit: int, most: int) -> Iterator[list[orjson.Fragment]]:
    """Written points in requests of at most `limit` bytes, or one point, and `most` points."""
    chunk: list[orjson.Fragment] = []
    size = 0
    for point in points:
        if chunk and (size + len(point) > limit or len(chunk) >= most):
            yield chunk
            chunk, size = [], 0
        chunk.append(orjson.Fragment(point))
        size += len(point) + 1
    if chunk:
        yield chunk
