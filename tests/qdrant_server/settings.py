"""The settings of the stand-in's collections: what the engine gets of them, what their description shows of them."""

from collections.abc import Mapping
from typing import Any

from operators.clients.qdrant_edge.conversions import HNSW
from tests.qdrant_server.refusals import bad_request, out_of_range, wrong_input

Body = Mapping[str, Any]

# Qdrant's defaults.
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

# What the embedded engine has and a server of 1.19 hasn't.
DATATYPES = frozenset({"float32", "float16", "uint8", "turbo4"})
SHOWN = ("read_fan_out_factor", "read_fan_out_delay_ms", "sharding_method", "payload")
MODIFIERS = frozenset({"none", "idf"})
AT_LEAST_ONE = ("shard_number", "replication_factor", "write_consistency_factor")


def without_nulls(body: Any) -> Any:
    """A JSON value without the object members that are null: for Qdrant they are as good as absent."""
    if isinstance(body, dict):
        return {name: without_nulls(value) for name, value in body.items() if value is not None}
    return body


def read_settings(body: Body) -> dict[str, Any]:
    """The body of a creation, checked where the engine wouldn't; raises Refusal."""
    settings: dict[str, Any] = without_nulls(body)
    for name in AT_LEAST_ONE:
        if settings.get(name, 1) == 0:
            raise out_of_range(name, "value 0 invalid, must be 1 or larger")
    vectors = settings.get("vectors", {})
    for params in [vectors] if "size" in vectors else vectors.values():
        if params.get("datatype", "float32") not in DATATYPES:
            raise bad_request("data did not match any variant of untagged enum VectorsConfig")
    return settings


def engine_body(settings: Body) -> dict[str, Any]:
    """The same creation for one shard of the engine, which has no quantization; `settings` travel with it."""
    vectors = settings.get("vectors", {})
    plain = (
        _unquantized(vectors) if "size" in vectors else {name: _unquantized(params) for name, params in vectors.items()}
    )
    own = {"vectors": plain, "sparse_vectors": settings.get("sparse_vectors", {}), "settings": settings}
    return own | {name: settings[name] for name in ("metadata",) if name in settings}


def described(settings: Body) -> dict[str, Any]:
    """The `config` of the collection's description."""
    params: dict[str, Any] = {
        "vectors": settings.get("vectors", {}),
        **{name: settings.get(name, 1) for name in AT_LEAST_ONE},
        "on_disk_payload": settings.get("on_disk_payload", True),
        **{name: settings[name] for name in (*SHOWN, "sparse_vectors") if name in settings},
    }
    return {
        "params": params,
        "hnsw_config": {**SETTINGS["hnsw_config"], **settings.get("hnsw_config", {})},
        "optimizer_config": {**SETTINGS["optimizer_config"], **settings.get("optimizers_config", {})},
        "wal_config": {**SETTINGS["wal_config"], **settings.get("wal_config", {})},
        "quantization_config": settings.get("quantization_config"),
        **{name: settings[name] for name in ("strict_mode_config", "metadata") if name in settings},
    }


def patched(settings: Body, change: Body) -> dict[str, Any]:
    """The settings after `PATCH /collections/{name}`; raises Refusal where there is no such vector."""
    new = dict(settings)
    for name in ("hnsw_config", "optimizers_config", "strict_mode_config"):
        if change.get(name) is not None:
            new[name] = {**new.get(name, {}), **without_nulls(change[name])}
    new.update(without_nulls(change.get("params") or {}))
    if change.get("quantization_config") == "Disabled":
        new.pop("quantization_config", None)
    elif change.get("quantization_config") is not None:
        new["quantization_config"] = change["quantization_config"]
    if change.get("metadata") is not None:
        # Here a null has a meaning: it takes the key away.
        new["metadata"] = without_nulls({**new.get("metadata", {}), **change["metadata"]})
    for name, params in (change.get("vectors") or {}).items():
        new["vectors"] = _vector_changed(new.get("vectors", {}), name, without_nulls(params))
    for name, params in (change.get("sparse_vectors") or {}).items():
        held = new.get("sparse_vectors", {})
        if name not in held:
            raise wrong_input(f"Not existing vector name error: {name}")
        if params.get("modifier", "none") not in MODIFIERS:
            raise bad_request(f"unknown variant `{params['modifier']}`, expected `none` or `idf`")
        new["sparse_vectors"] = {**held, name: {**held[name], **without_nulls(params)}}
    return new


def _vector_changed(vectors: Body, name: str, change: Body) -> dict[str, Any]:
    unnamed = "size" in vectors
    if name != "" if unnamed else name not in vectors:
        raise wrong_input(f"Not existing vector name error: {name}")
    held: Body = vectors if unnamed else vectors[name]
    hnsw = {**held.get("hnsw_config", {}), **change.get("hnsw_config", {})}
    changed = {**held, **change, **({"hnsw_config": hnsw} if hnsw else {})}
    return changed if unnamed else {**vectors, name: changed}


def _unquantized(params: Body) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name != "quantization_config"}
