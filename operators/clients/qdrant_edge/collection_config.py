"""The creation of a collection: its vectors and payload indexes, from Qdrant's JSON to the engine's types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from qdrant_edge import (
    BoolIndexParams,
    DatetimeIndexParams,
    Distance,
    EdgeConfig,
    EdgeSparseVectorParams,
    EdgeVectorParams,
    FloatIndexParams,
    GeoIndexParams,
    HnswIndexConfig,
    IntegerIndexParams,
    KeywordIndexParams,
    Modifier,
    MultiVectorComparator,
    MultiVectorConfig,
    TextIndexParams,
    UuidIndexParams,
    VectorStorageDatatype,
)

from operators.clients.qdrant_edge.refusals import bad_request, wrong_input
from operators.clients.qdrant_edge.vectors import VectorSchema, analyser_options

if TYPE_CHECKING:
    # Names of the engine's type stubs only.
    from qdrant_edge import PayloadSchemaParams

INDEXES: Mapping[str, Any] = {
    "bool": BoolIndexParams,
    "datetime": DatetimeIndexParams,
    "float": FloatIndexParams,
    "geo": GeoIndexParams,
    "integer": IntegerIndexParams,
    "keyword": KeywordIndexParams,
    "text": TextIndexParams,
    "uuid": UuidIndexParams,
}
HNSW = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000}

# Qdrant's defaults. The engine has no such settings, but clients don't parse a description without them.
SETTINGS: Mapping[str, Any] = {
    "hnsw_config": {**HNSW, "max_indexing_threads": 0, "on_disk": False},
    "optimizer_config": {
        "deleted_threshold": 0.2,
        "vacuum_min_vector_number": 1000,
        "default_segment_number": 2,
        "max_segment_size": None,
        "memmap_threshold": None,
        "indexing_threshold": 10000,
        "flush_interval_sec": 5,
        "max_optimization_threads": None,
        "prevent_unoptimized": None,
    },
    "wal_config": {"wal_capacity_mb": 32, "wal_segments_ahead": 0, "wal_retain_closed": 1},
    "quantization_config": None,
}


def without_nulls(body: Any) -> Any:
    """A JSON value without the object members that are null: for Qdrant they are as good as absent."""
    if isinstance(body, dict):
        return {name: without_nulls(value) for name, value in body.items() if value is not None}
    return body


def vector_schema(created: Mapping[str, Any]) -> VectorSchema:
    """The named vectors of a collection that was created with this body."""
    dense = _dense(created)
    return VectorSchema(
        sizes={name: params["size"] for name, params in dense.items()},
        multi=frozenset(name for name, params in dense.items() if "multivector_config" in params),
        sparse=frozenset(created.get("sparse_vectors", {})),
    )


def edge_config(created: Mapping[str, Any]) -> EdgeConfig:
    """The engine's configuration for this body; raises Refusal, KeyError, TypeError, ValueError or AttributeError."""
    return EdgeConfig(
        vectors={name: _vector_params(params) for name, params in _dense(created).items()},
        sparse_vectors={name: _sparse_params(params) for name, params in created.get("sparse_vectors", {}).items()},
        wal_enabled=True,
    )


def index_params(schema: str | Mapping[str, Any]) -> PayloadSchemaParams:
    """The engine's payload index for a field's schema; raises Refusal, TypeError or AttributeError."""
    options = {"type": schema} if isinstance(schema, str) else dict(schema)
    kind = options.pop("type")
    if kind not in INDEXES:
        raise bad_request(f"unknown variant `{kind}`, expected one of {', '.join(sorted(INDEXES))}")
    params: PayloadSchemaParams = INDEXES[kind](**analyser_options(options))
    return params


def describe_params(created: Mapping[str, Any]) -> dict[str, Any]:
    """The `config` of a collection's description."""
    params: dict[str, Any] = {
        "vectors": created.get("vectors", {}),
        "shard_number": 1,
        "replication_factor": 1,
        "write_consistency_factor": 1,
        "on_disk_payload": True,
    }
    if "sparse_vectors" in created:
        params["sparse_vectors"] = created["sparse_vectors"]
    metadata = {"metadata": created["metadata"]} if "metadata" in created else {}
    return {"params": params, **SETTINGS, **metadata}


_SHOWN: Mapping[str, Mapping[str, Any]] = {
    "datetime": {"is_principal": None},
    "float": {"is_principal": None},
    "text": {"tokenizer": "word"},
}


def describe_index(schema: str | Mapping[str, Any], points: int) -> dict[str, Any]:
    """One entry of a description's `payload_schema`."""
    if isinstance(schema, str):
        return {"data_type": schema, "points": points}
    kind = schema["type"]
    return {"data_type": kind, "params": {**_SHOWN.get(kind, {}), **schema}, "points": points}


def _dense(created: Mapping[str, Any]) -> Mapping[str, Any]:
    vectors: Mapping[str, Any] = created.get("vectors", {})
    return {"": vectors} if "size" in vectors else vectors


def _vector_params(params: Mapping[str, Any]) -> EdgeVectorParams:
    if "quantization_config" in params:
        raise wrong_input("the engine has no quantization, but the datatypes turbo4, turbo8 and turbo16")
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


def _sparse_params(params: Mapping[str, Any]) -> EdgeSparseVectorParams:
    index = params.get("index", {})
    return EdgeSparseVectorParams(
        full_scan_threshold=index.get("full_scan_threshold"),
        on_disk=index.get("on_disk"),
        modifier=Modifier.Idf if params.get("modifier") == "idf" else None,
    )
