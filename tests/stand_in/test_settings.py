"""The settings of a created collection are shown again, as a server shows them, and can be changed."""

from typing import Any

import pytest

from tests.stand_in.asking import Server

VECTORS = {
    "dense": {
        "size": 2,
        "distance": "Cosine",
        "on_disk": True,
        "hnsw_config": {"m": 32},
        "quantization_config": {"scalar": {"type": "int8", "always_ram": True}},
    },
    "tokens": {
        "size": 2,
        "distance": "Dot",
        "datatype": "turbo4",
        "multivector_config": {"comparator": "max_sim"},
    },
}
CREATED: dict[str, Any] = {
    "vectors": VECTORS,
    "sparse_vectors": {"bm25": {"modifier": "idf", "index": {"on_disk": True}}},
    "shard_number": 2,
    "replication_factor": 2,
    "write_consistency_factor": 2,
    "on_disk_payload": False,
    "hnsw_config": {"m": 24, "on_disk": True},
    "quantization_config": {"binary": {"always_ram": True}},
    "optimizers_config": {"default_segment_number": 4},
    "metadata": {"owner": "rankstream"},
}


@pytest.fixture
def config(server: Server) -> dict[str, Any]:
    """The description of a collection that was created with every setting."""
    server.done("PUT", "/collections/c", CREATED)
    shown: dict[str, Any] = server.done("GET", "/collections/c")["config"]
    return shown


def test_shown_as_created(config: dict[str, Any]) -> None:
    """Every setting of the creation is in the description."""
    numbers = {name: CREATED[name] for name in ("shard_number", "replication_factor", "write_consistency_factor")}
    assert config["params"] == {
        "vectors": VECTORS,
        "sparse_vectors": CREATED["sparse_vectors"],
        "on_disk_payload": False,
        **numbers,
    }
    assert config["quantization_config"] == CREATED["quantization_config"]
    assert config["metadata"] == CREATED["metadata"]


def test_defaults_stay(config: dict[str, Any]) -> None:
    """A setting that a creation leaves out of a group has its default."""
    assert (config["hnsw_config"]["m"], config["hnsw_config"]["ef_construct"]) == (24, 100)
    assert config["optimizer_config"]["default_segment_number"] == 4
    assert config["optimizer_config"]["indexing_threshold"] == 10000
    assert "strict_mode_config" not in config


def test_a_quantized_collection_answers(server: Server, config: dict[str, Any]) -> None:
    """Quantization is shown, and searches are those of the vectors themselves."""
    points = [{"id": number, "vector": {"dense": [1.0, number / 10]}} for number in range(5)]
    server.done("PUT", "/collections/c/points", {"points": points})
    search = {"query": [1.0, 0.0], "using": "dense", "limit": 2, "params": {"quantization": {"rescore": True}}}
    found = server.done("POST", "/collections/c/points/query", search)["points"]
    assert [point["id"] for point in found] == [0, 1]
    assert config["params"]["vectors"]["dense"]["quantization_config"] == VECTORS["dense"]["quantization_config"]


def test_a_datatype_of_the_engine_alone(server: Server) -> None:
    """A datatype that the embedded engine has and a server hasn't is refused."""
    vectors = {"size": 2, "distance": "Dot", "datatype": "turbo8"}
    words = server.refused("PUT", "/collections/c", {"vectors": vectors})
    # A server adds the place.
    assert words.startswith("Format error in JSON body: data did not match any variant of untagged enum VectorsConfig")


def test_changes(server: Server, config: dict[str, Any]) -> None:
    """A change is merged into what is there; a null takes a key of the metadata away."""
    changes: list[dict[str, Any]] = [
        {"metadata": {"owner": None, "model": "minilm"}},
        {"strict_mode_config": {"enabled": True, "max_query_limit": 5}},
        {"strict_mode_config": {"max_query_limit": 6}},
        {"hnsw_config": {"m": 8}, "quantization_config": "Disabled", "params": {"on_disk_payload": True}},
        {"vectors": {"dense": {"hnsw_config": {"ef_construct": 50}}}},
        {"sparse_vectors": {"bm25": {"modifier": "none"}}},
    ]
    for change in changes:
        assert server.done("PATCH", "/collections/c", change) is True
    shown = server.done("GET", "/collections/c")["config"]
    assert shown["metadata"] == {"model": "minilm"}
    assert shown["strict_mode_config"] == {"enabled": True, "max_query_limit": 6}
    assert shown["hnsw_config"] == {**config["hnsw_config"], "m": 8}
    assert shown["quantization_config"] is None
    assert shown["params"]["on_disk_payload"] is True
    assert shown["params"]["vectors"]["dense"]["hnsw_config"] == {"m": 32, "ef_construct": 50}
    assert shown["params"]["sparse_vectors"]["bm25"] == {"modifier": "none", "index": {"on_disk": True}}
    assert server.answer("PATCH", "/collections/none", {}).status_code == 404


def test_changes_outlive_an_index(server: Server, config: dict[str, Any]) -> None:
    """An index that is created later leaves the settings as they were changed."""
    server.done("PATCH", "/collections/c", {"metadata": {"seen": 1}})
    server.done("PUT", "/collections/c/index", {"field_name": "k", "field_schema": "keyword"})
    assert server.done("GET", "/collections/c")["config"]["metadata"] == {**config["metadata"], "seen": 1}


def test_no_shards_is_refused(server: Server) -> None:
    """A collection has a shard at least."""
    response = server.answer("PUT", "/collections/c", {**CREATED, "shard_number": 0})
    assert response.status_code == 422
    words = "Validation error in JSON body: [shard_number: value 0 invalid, must be 1 or larger]"
    assert response.json()["status"] == {"error": words}
