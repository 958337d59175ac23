"""Vectors in JSON: the form of a value, checked against the collection that stores it or is searched by it.

Everything is checked before the engine sees it: the engine logs an update, then refuses it, and applies it again, in
part, when the shard is opened next. It stores NaN and infinity, and a sparse vector of unequal lengths makes it panic.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import orjson
from qdrant_edge import (
    Bm25,
    Bm25Config,
    SparseVector,
)
from typing_extensions import override

from operators.clients.qdrant_edge import conversions
from operators.clients.qdrant_edge.shards import Refusal
from tests.qdrant_server.payload_indexes import analyser_options
from tests.qdrant_server.refusals import bad_request, out_of_range, wrong_input

if TYPE_CHECKING:
    # Names of the engine's type stubs only.
    from qdrant_edge import NamedVector

FLOAT32_MAX = 3.4028234663852886e38
UINT32_MAX = 2**32 - 1
BM25_MODEL = "qdrant/bm25"


class VectorSchema(conversions.VectorSchema):
    """The named vectors of a collection, and the words in which a server refuses others."""

    def query(self, value: object, using: str) -> NamedVector:
        """The vector to search `using` with; raises Refusal where it doesn't fit."""
        return self._fitting(value, using, "internal.query", "", query=True)

    @override
    def of_point(self, value: object) -> dict[str, NamedVector]:
        """The vectors of a point by name; raises Refusal where one doesn't fit."""
        named = value if isinstance(value, dict) and not _is_text(value) else {"": value}
        return {
            name: self._fitting(item, name, f"points.vector.{name}", f" for vector '{name}'", query=False)
            for name, item in named.items()
        }

    def _fitting(self, value: object, name: str, field: str, where: str, *, query: bool) -> NamedVector:
        vector = _sparse_vector(value, field, query=query)
        if name not in self.dense and name not in self.sparse:
            raise wrong_input(f"Not existing vector name error: {name}")
        if (vector is None) == (name in self.sparse):
            raise wrong_input("Conversion between sparse and regular vectors failed")
        if vector is not None:
            return vector
        if not isinstance(value, list):
            raise _no_vector()
        if not value or not isinstance(value[0], list):
            self._check_size(len(_numbers(value)), name, where)
            return value
        if "multivector_config" not in self.dense[name]:
            raise wrong_input("Conversion between multi and regular vectors failed")
        for row in value:
            self._check_size(len(_numbers(row)), name, where)
        return value

    def _check_size(self, size: int, name: str, where: str) -> None:
        expected = self.dense[name]["size"]
        if size != expected:
            raise wrong_input(f"Vector dimension error: expected dim: {expected}, got {size}{where}")


def _sparse_vector(value: object, field: str, *, query: bool) -> SparseVector | None:
    match value:
        case {"text": str(text), "model": str(model), **rest}:
            return _bm25(text, model, rest.get("options"), query=query)
        case {"indices": list(indices), "values": list(values)} if all(map(_is_index, indices)):
            return _sparse(indices, values, field)
        case [list(indices), list(values)] if all(map(_is_index, indices)):
            # The server tries this form before a multivector's: two rows of which the first could be indices.
            return _sparse(indices, values, field)
    return None


def _sparse(indices: list[int], values: list[float], field: str) -> SparseVector:
    if len(set(indices)) != len(indices):
        raise out_of_range(f"{field}.indices", "Validation error: must be unique [{}]")
    if len(indices) != len(values):
        raise out_of_range(f"{field}.values", "Validation error: must be the same length as indices [{}]")
    return SparseVector(indices, _numbers(values))


def _is_index(value: object) -> bool:
    return type(value) is int and 0 <= value <= UINT32_MAX


def _numbers(row: object) -> list[float]:
    if not isinstance(row, list) or not set(map(type, row)) <= {int, float}:
        raise _no_vector()
    if row and not -FLOAT32_MAX <= min(row) <= max(row) <= FLOAT32_MAX:
        raise _no_vector()
    return row


def _no_vector() -> Refusal:
    return bad_request("data did not match any variant of untagged enum VectorInput")


def _is_text(value: Mapping[str, object]) -> bool:
    return "text" in value and "model" in value


def _bm25(text: str, model: str, options: object, *, query: bool) -> SparseVector:
    if model.lower() != BM25_MODEL:
        raise wrong_input(f"InferenceService is not initialized: the engine runs no model but {BM25_MODEL}")
    bm25 = _bm25_model(orjson.dumps(options or {}, option=orjson.OPT_SORT_KEYS))
    return bm25.embed_query(text) if query else bm25.embed_document(text)


@lru_cache(maxsize=16)
def _bm25_model(options: bytes) -> Bm25:
    return Bm25(Bm25Config(**analyser_options(orjson.loads(options))))
