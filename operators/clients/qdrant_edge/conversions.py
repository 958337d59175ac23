"""Qdrant's JSON, as rankstream writes it, as the engine's types: filters, vectors, and the creation of a collection.

Everything is checked before the engine sees it: the engine logs an update, then refuses it, and applies it again, in
part, when the shard is opened next. It stores NaN and infinity, and a sparse vector of unequal lengths makes it panic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import qdrant_edge as edge

from operators.clients.http.dialect import fit_float32
from operators.clients.qdrant.requests import CLAUSES


def read_filter(body: Mapping[str, Any] | None) -> edge.Filter | None:
    """The filter, or None where the request has none; raises what `make_filter` raises."""
    return None if body is None else make_filter(body)


def make_filter(body: Mapping[str, Any]) -> edge.Filter:
    """The filter; raises TypeError, AttributeError or ValueError for a condition that rankstream does not write."""
    if not body.keys() <= CLAUSES:
        raise ValueError("the engine has no such condition")
    clauses: dict[str, Any] = {clause: list(map(_condition, conditions)) for clause, conditions in body.items()}
    return edge.Filter(**clauses)


def _condition(body: Mapping[str, Any]) -> edge.ConditionType:
    match body:
        case {"key": str(key), "match": match}:
            ((kind, value),) = match.items()
            # The engine's binding takes Python's bool for an integer, and numpy's for what it is.
            wanted = np.bool_(value) if isinstance(value, bool) else value
            return edge.FieldCondition(key, match=getattr(edge, f"Match{kind.capitalize()}")(wanted))
        case {"key": str(key), "range": bounds}:
            of_times = any(isinstance(bound, str) for bound in bounds.values())
            return edge.FieldCondition(key, range=(edge.RangeDateTime if of_times else edge.RangeFloat)(**bounds))
        case {"key": str(key), "values_count": bounds}:
            return edge.FieldCondition(key, values_count=edge.ValuesCount(**bounds))
        case {"key": str(key), "geo_radius": {"center": center, "radius": radius}}:
            return edge.FieldCondition(key, geo_radius=edge.GeoRadius(edge.GeoPoint(**center), radius))
        case {"key": str(key), "geo_bounding_box": corners}:
            box = edge.GeoBoundingBox(**{corner: edge.GeoPoint(**place) for corner, place in corners.items()})
            return edge.FieldCondition(key, geo_bounding_box=box)
        case {"key": str(key), "geo_polygon": {"exterior": exterior, "interiors": interiors}}:
            ring, *holes = [[edge.GeoPoint(**place) for place in each["points"]] for each in (exterior, *interiors)]
            return edge.FieldCondition(key, geo_polygon=edge.GeoPolygon(ring, holes))
        case {"has_id": ids}:
            return edge.HasIdCondition(set(ids))
        case {"is_empty": {"key": key}}:
            return edge.IsEmptyCondition(key)
        case {"is_null": {"key": key}}:
            return edge.IsNullCondition(key)
        case {"has_vector": name}:
            return edge.HasVectorCondition(name)
        case {"nested": {"key": key, "filter": inner}}:
            return edge.NestedCondition(key, make_filter(inner))
    return make_filter(body)


@dataclass(frozen=True, slots=True)
class VectorSchema:
    """The named vectors of a collection, dense ones and sparse ones, with the parameters of each."""

    dense: Mapping[str, Mapping[str, Any]]
    sparse: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, created: Mapping[str, Any]) -> Self:
        """Those of a collection that was created with this body; "" is the name of one that has none."""
        vectors: Mapping[str, Any] = created.get("vectors", {})
        return cls({"": vectors} if "size" in vectors else vectors, created.get("sparse_vectors", {}))

    def of_point(self, vectors: Mapping[str, Any]) -> dict[str, edge.NamedVector]:
        """The vectors of a point by name. Raises ValueError, TypeError or KeyError where one doesn't fit."""
        return {name: self.vector(vector, name) for name, vector in vectors.items()}

    def vector(self, value: Any, name: str) -> edge.NamedVector:
        """The vector of this name, or to search it with. Raises ValueError, TypeError or KeyError if it doesn't fit."""
        if name in self.sparse:
            indices, values = value["indices"], value["values"]
            if len(set(indices)) != len(indices) or len(indices) != len(values) or not fit_float32(values):
                raise ValueError("a sparse vector must have one finite value for each of its indices")
            return edge.SparseVector(indices, values)
        if (params := self.dense.get(name)) is None:
            raise ValueError(f"Not existing vector name error: {name}")
        with np.errstate(over="ignore"):
            array = np.asarray(value, np.float32)
        if array.ndim not in ({1, 2} if "multivector_config" in params else {1}):
            raise ValueError("Conversion between multi and regular vectors failed")
        if not np.isfinite(array).all():
            raise ValueError("a vector of numbers that are not finite")
        if array.shape[-1] != params["size"]:
            raise ValueError(f"Vector dimension error: expected dim: {params['size']}, got {array.shape[-1]}")
        checked: edge.NamedVector = array.tolist()
        return checked


HNSW = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000}


def edge_config(created: Mapping[str, Any]) -> edge.EdgeConfig:
    """The engine's configuration for this body; raises KeyError, TypeError, ValueError or AttributeError."""
    schema = VectorSchema.of(created)
    return edge.EdgeConfig(
        vectors={name: _vector_params(params) for name, params in schema.dense.items()},
        sparse_vectors={
            name: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf if params.get("modifier") == "idf" else None)
            for name, params in schema.sparse.items()
        },
        wal_enabled=True,
    )


def index_params(schema: Mapping[str, Any]) -> edge.PayloadSchemaParams:
    """The engine's payload index for a field's schema; raises KeyError, TypeError or AttributeError."""
    options = {name: value for name, value in schema.items() if name != "type"}
    if "tokenizer" in options:
        options["tokenizer"] = getattr(edge.TokenizerType, options["tokenizer"].capitalize())
    params: edge.PayloadSchemaParams = getattr(edge, f"{schema['type'].capitalize()}IndexParams")(**options)
    return params


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
