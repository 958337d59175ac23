"""Qdrant's JSON, as rankstream writes it, as the engine's types: filters, vectors, and the creation of a collection.

Everything is checked before the engine sees it: the engine logs an update, then refuses it, and applies it again, in
part, when the shard is opened next. It stores NaN and infinity, and a sparse vector of unequal lengths makes it panic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import qdrant_edge as edge

from operators.clients.http.dialect import fit_float32

_CLAUSES: Final = frozenset({"must", "should", "must_not"})

_MATCHES: Final[Mapping[str, Any]] = {
    "any": edge.MatchAny,
    "phrase": edge.MatchPhrase,
    "prefix": edge.MatchPrefix,
    "text": edge.MatchText,
    "value": edge.MatchValue,
}


def read_filter(body: Mapping[str, Any] | None) -> edge.Filter | None:
    """The filter, or None where the request has none; raises what `make_filter` raises."""
    return None if body is None else make_filter(body)


def make_filter(body: Mapping[str, Any]) -> edge.Filter:
    """The filter; raises TypeError, KeyError or ValueError for a condition that rankstream does not write."""
    if not body.keys() <= _CLAUSES:
        raise ValueError("the engine has no such condition")
    clauses: dict[str, Any] = {clause: list(map(_condition, conditions)) for clause, conditions in body.items()}
    return edge.Filter(**clauses)


def _condition(body: Mapping[str, Any]) -> edge.ConditionType:
    match body:
        case {"key": str(key), "match": match}:
            return edge.FieldCondition(key, match=_match(match))
        case {"key": str(key), "range": bounds}:
            return edge.FieldCondition(key, range=_range(bounds))
        case {"key": str(key), "values_count": bounds}:
            return edge.FieldCondition(key, values_count=edge.ValuesCount(**bounds))
        case {"has_id": ids}:
            return edge.HasIdCondition(set(ids))
        case {"is_empty": {"key": key}}:
            return edge.IsEmptyCondition(key)
        case {"has_vector": name}:
            return edge.HasVectorCondition(name)
        case {"nested": {"key": key, "filter": inner}}:
            return edge.NestedCondition(key, make_filter(inner))
    return make_filter(body)


def _match(body: Mapping[str, Any]) -> edge.MatchType:
    ((kind, value),) = body.items()
    # The engine's binding takes Python's bool for an integer, and numpy's for what it is.
    made: edge.MatchType = _MATCHES[kind](np.bool_(value) if isinstance(value, bool) else value)
    return made


def _range(bounds: Mapping[str, Any]) -> edge.RangeType:
    if any(isinstance(bound, str) for bound in bounds.values()):
        return edge.RangeDateTime(**bounds)
    return edge.RangeFloat(**bounds)


@dataclass(frozen=True, slots=True)
class VectorSchema:
    """The named vectors of a collection: the size of each dense one, which are multivectors, which are sparse."""

    sizes: Mapping[str, int]
    multi: frozenset[str]
    sparse: frozenset[str]

    def of_point(self, vectors: Mapping[str, Any]) -> dict[str, edge.NamedVector]:
        """The vectors of a point by name. Raises ValueError, TypeError or KeyError where one doesn't fit."""
        return {name: self.vector(vector, name) for name, vector in vectors.items()}

    def vector(self, value: Any, name: str) -> edge.NamedVector:
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
        checked: edge.NamedVector = array.tolist()
        return checked


def _sparse(indices: list[int], values: list[float]) -> edge.SparseVector:
    if len(set(indices)) != len(indices) or len(indices) != len(values) or not fit_float32(values):
        raise ValueError("a sparse vector must have one finite value for each of its indices")
    return edge.SparseVector(indices, values)


INDEXES: Mapping[str, Any] = {
    "bool": edge.BoolIndexParams,
    "datetime": edge.DatetimeIndexParams,
    "float": edge.FloatIndexParams,
    "integer": edge.IntegerIndexParams,
    "keyword": edge.KeywordIndexParams,
    "text": edge.TextIndexParams,
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


def edge_config(created: Mapping[str, Any]) -> edge.EdgeConfig:
    """The engine's configuration for this body; raises KeyError, TypeError, ValueError or AttributeError."""
    return edge.EdgeConfig(
        vectors={name: _vector_params(params) for name, params in dense_vectors(created).items()},
        sparse_vectors={
            name: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf if params.get("modifier") == "idf" else None)
            for name, params in created.get("sparse_vectors", {}).items()
        },
        wal_enabled=True,
    )


def index_params(schema: Mapping[str, Any]) -> edge.PayloadSchemaParams:
    """The engine's payload index for a field's schema; raises KeyError, TypeError or AttributeError."""
    options = {name: value for name, value in schema.items() if name != "type"}
    if "tokenizer" in options:
        options["tokenizer"] = getattr(edge.TokenizerType, options["tokenizer"].capitalize())
    params: edge.PayloadSchemaParams = INDEXES[schema["type"]](**options)
    return params


def dense_vectors(created: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of the dense vectors by name, "" for one that has none."""
    vectors: Mapping[str, Any] = created.get("vectors", {})
    return {"": vectors} if "size" in vectors else vectors


def _vector_params(params: Mapping[str, Any]) -> edge.EdgeVectorParams:
    if "quantization_config" in params:
        raise ValueError("the engine has no quantization, but the datatypes turbo4, turbo8 and turbo16")
    multi = params.get("multivector_config")
    hnsw = params.get("hnsw_config")
    return edge.EdgeVectorParams(
        params["size"],
        getattr(edge.Distance, params["distance"]),
        on_disk=params.get("on_disk"),
        multivector_config=multi and edge.MultiVectorConfig(edge.MultiVectorComparator.MaxSim),
        datatype=getattr(edge.VectorStorageDatatype, params["datatype"].capitalize()) if "datatype" in params else None,
        hnsw_config=hnsw and edge.HnswIndexConfig(**{**HNSW, **hnsw}),
    )
