"""Qdrant's JSON, as rankstream writes it, as the engine's types: filters, vectors, and the creation of a collection.

Everything is checked before the engine sees it: the engine logs an update, then refuses it, and applies it again, in
part, when the shard is opened next. It stores NaN and infinity, and a sparse vector of unequal lengths makes it panic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from qdrant_edge import (
    BoolIndexParams,
    DatetimeIndexParams,
    Distance,
    EdgeConfig,
    EdgeSparseVectorParams,
    EdgeVectorParams,
    FieldCondition,
    Filter,
    FloatIndexParams,
    HasIdCondition,
    HasVectorCondition,
    HnswIndexConfig,
    IntegerIndexParams,
    IsEmptyCondition,
    KeywordIndexParams,
    MatchAny,
    MatchPhrase,
    MatchPrefix,
    MatchText,
    MatchValue,
    Modifier,
    MultiVectorComparator,
    MultiVectorConfig,
    NestedCondition,
    RangeDateTime,
    RangeFloat,
    SparseVector,
    TextIndexParams,
    TokenizerType,
    ValuesCount,
    VectorStorageDatatype,
)

from operators.clients.http.dialect import fit_float32

if TYPE_CHECKING:
    # Names of the engine's type stubs only.
    from qdrant_edge import ConditionType, MatchType, NamedVector, PayloadSchemaParams, RangeType

_CLAUSES: Final = frozenset({"must", "should", "must_not"})

_MATCHES: Final[Mapping[str, Any]] = {
    "any": MatchAny,
    "phrase": MatchPhrase,
    "prefix": MatchPrefix,
    "text": MatchText,
    "value": MatchValue,
}


def read_filter(body: Mapping[str, Any] | None) -> Filter | None:
    """The filter, or None where the request has none; raises what `make_filter` raises."""
    return None if body is None else make_filter(body)


def make_filter(body: Mapping[str, Any]) -> Filter:
    """The filter; raises TypeError, KeyError or ValueError for a condition that rankstream does not write."""
    if not body.keys() <= _CLAUSES:
        raise ValueError("the engine has no such condition")
    clauses: dict[str, Any] = {clause: list(map(_condition, conditions)) for clause, conditions in body.items()}
    return Filter(**clauses)


def _condition(body: Mapping[str, Any]) -> ConditionType:
    match body:
        case {"key": str(key), "match": match}:
            return FieldCondition(key, match=_match(match))
        case {"key": str(key), "range": bounds}:
            return FieldCondition(key, range=_range(bounds))
        case {"key": str(key), "values_count": bounds}:
            return FieldCondition(key, values_count=ValuesCount(**bounds))
        case {"has_id": ids}:
            return HasIdCondition(set(ids))
        case {"is_empty": {"key": key}}:
            return IsEmptyCondition(key)
        case {"has_vector": name}:
            return HasVectorCondition(name)
        case {"nested": {"key": key, "filter": inner}}:
            return NestedCondition(key, make_filter(inner))
    return make_filter(body)


def _match(body: Mapping[str, Any]) -> MatchType:
    ((kind, value),) = body.items()
    # The engine's binding takes Python's bool for an integer, and numpy's for what it is.
    made: MatchType = _MATCHES[kind](np.bool_(value) if isinstance(value, bool) else value)
    return made


def _range(bounds: Mapping[str, Any]) -> RangeType:
    if any(isinstance(bound, str) for bound in bounds.values()):
        return RangeDateTime(**bounds)
    return RangeFloat(**bounds)


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


INDEXES: Mapping[str, Any] = {
    "bool": BoolIndexParams,
    "datetime": DatetimeIndexParams,
    "float": FloatIndexParams,
    "integer": IntegerIndexParams,
    "keyword": KeywordIndexParams,
    "text": TextIndexParams,
}
HNSW = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000}


def vector_schema(created: Mapping[str, Any]) -> VectorSchema:
    """The named vectors of a collection that was created with this body."""
    dense = dense_vectors(created)
    return VectorSchema(
        sizes={name: params["size"] for name, params in dense.items()},
        multi=frozenset(name for name, params in dense.items() if "multivector_config" in params),
        sparse=frozenset(created.get("sparse_vectors", {})),
    )


def edge_config(created: Mapping[str, Any]) -> EdgeConfig:
    """The engine's configuration for this body; raises KeyError, TypeError, ValueError or AttributeError."""
    return EdgeConfig(
        vectors={name: _vector_params(params) for name, params in dense_vectors(created).items()},
        sparse_vectors={
            name: EdgeSparseVectorParams(modifier=Modifier.Idf if params.get("modifier") == "idf" else None)
            for name, params in created.get("sparse_vectors", {}).items()
        },
        wal_enabled=True,
    )


def index_params(schema: Mapping[str, Any]) -> PayloadSchemaParams:
    """The engine's payload index for a field's schema; raises KeyError, TypeError or AttributeError."""
    options = {name: value for name, value in schema.items() if name != "type"}
    if "tokenizer" in options:
        options["tokenizer"] = getattr(TokenizerType, options["tokenizer"].capitalize())
    params: PayloadSchemaParams = INDEXES[schema["type"]](**options)
    return params


def dense_vectors(created: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of the dense vectors by name, "" for one that has none."""
    vectors: Mapping[str, Any] = created.get("vectors", {})
    return {"": vectors} if "size" in vectors else vectors


def _vector_params(params: Mapping[str, Any]) -> EdgeVectorParams:
    if "quantization_config" in params:
        raise ValueError("the engine has no quantization, but the datatypes turbo4, turbo8 and turbo16")
    multi = params.get("multivector_config")
    hnsw = params.get("hnsw_config")
    return EdgeVectorParams(
        params["size"],
        getattr(Distance, params["distance"]),
        on_disk=params.get("on_disk"),
        multivector_config=multi and MultiVectorConfig(MultiVectorComparator.MaxSim),
        datatype=getattr(VectorStorageDatatype, params["datatype"].capitalize()) if "datatype" in params else None,
        hnsw_config=hnsw and HnswIndexConfig(**{**HNSW, **hnsw}),
    )
