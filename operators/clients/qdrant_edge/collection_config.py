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
    HnswIndexConfig,
    IntegerIndexParams,
    KeywordIndexParams,
    Modifier,
    MultiVectorComparator,
    MultiVectorConfig,
    TextIndexParams,
    TokenizerType,
    VectorStorageDatatype,
)

from operators.clients.qdrant_edge.vectors import VectorSchema

if TYPE_CHECKING:
    # Names of the engine's type stubs only.
    from qdrant_edge import PayloadSchemaParams

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
