"""Settings of collections that are created: each reaches Qdrant, and none is ignored where it can't be had."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from operators.collections.making import configuration
from schemas.errors import ConfigError
from schemas.settings import QdrantSettings, load
from tests.operators.indexing.asking import Server
from tests.qdrant_server import serve

DOCS = {"default": "docs"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server that holds nothing."""
    with serve(tmp_path) as url:
        yield Server(url)


def created(server: Server, **create: Any) -> dict[str, Any]:
    """A server's description of a collection that is created with these settings."""
    server.ensure(destinations=DOCS, create=create)
    return server.config("docs")


def test_by_default_a_collection_has_one_shard_and_is_what_the_server_makes_it() -> None:
    """The request says no more, so that what the server is configured for holds."""
    body = configuration(QdrantSettings(url="http://q"))
    assert body.keys() == {"vectors", "sparse_vectors", "shard_number"}
    assert body["shard_number"] == 1
    assert body["vectors"]["dense"] == {"size": 384, "distance": "Cosine"}


def test_shards_copies_and_payloads_are_those_of_the_settings(server: Server) -> None:
    """The server describes the collection with them."""
    settings = {"shards": 3, "replication_factor": 2, "write_consistency_factor": 2, "on_disk_payload": False}
    params = created(server, **settings)["params"]
    assert params["shard_number"] == 3
    assert params["replication_factor"] == params["write_consistency_factor"] == 2
    assert params["on_disk_payload"] is False


def test_the_index_and_the_place_of_vectors_are_those_of_the_settings(server: Server) -> None:
    """Token vectors keep an index of no links: only the dense vector has one."""
    vectors = created(server, m=32, ef_construct=200, on_disk=True)["params"]["vectors"]
    assert vectors["dense"]["hnsw_config"] == {"m": 32, "ef_construct": 200}
    assert vectors["tokens"]["hnsw_config"] == {"m": 0}
    assert vectors["dense"]["on_disk"] is vectors["tokens"]["on_disk"] is True


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        ("scalar", {"scalar": {"type": "int8", "always_ram": True}}),
        ("binary", {"binary": {"always_ram": True}}),
        ("turbo", {"turbo": {"always_ram": True}}),
    ],
)
def test_the_dense_vector_alone_is_quantized(server: Server, quantization: str, expected: dict[str, Any]) -> None:
    """Its copy stays in memory; token vectors are compact already."""
    vectors = created(server, quantization=quantization)["params"]["vectors"]
    assert vectors["dense"]["quantization_config"] == expected
    assert "quantization_config" not in vectors["tokens"]


def test_the_engine_takes_what_it_can(tmp_path: Path) -> None:
    """Its index and the place of vectors can be chosen."""
    qdrant = {"path": str(tmp_path), "create": {"m": 8, "ef_construct": 50, "on_disk": True, "on_disk_payload": True}}
    assert load(None, {"qdrant": qdrant}).qdrant.create.m == 8


@pytest.mark.parametrize(
    ("create", "keys"),
    [
        ({"shards": 2}, "shards"),
        ({"replication_factor": 2}, "replication_factor"),
        ({"replication_factor": 3, "write_consistency_factor": 2}, "replication_factor, write_consistency_factor"),
        ({"on_disk_payload": False}, "on_disk_payload"),
        ({"quantization": "scalar", "m": 8}, "quantization"),
    ],
)
def test_what_the_engine_cannot_do_is_a_configuration_error(tmp_path: Path, create: dict[str, Any], keys: str) -> None:
    """It would be ignored: the error names each key, and the way out."""
    with pytest.raises(ConfigError, match=f"create: {keys}: only a Qdrant server can do this; set url"):
        load(None, {"qdrant": {"path": str(tmp_path), "create": create}})


@pytest.mark.parametrize(
    ("create", "problem"),
    [
        ({"replication_factor": 1, "write_consistency_factor": 2}, "no write would succeed"),
        ({"shards": 0}, "qdrant.create.shards"),
        ({"m": 0}, "qdrant.create.m"),
        ({"quantization": "product"}, "qdrant.create.quantization"),
    ],
)
def test_settings_that_no_server_takes_are_configuration_errors(create: dict[str, Any], problem: str) -> None:
    """Before anything is asked."""
    with pytest.raises(ConfigError, match=problem):
        load(None, {"qdrant": {"url": "http://q", "create": create}})


def test_what_is_owned_must_be_configured() -> None:
    """A name that is misspelt would protect a collection that was to be written to."""
    with pytest.raises(ConfigError, match="owned: dosc: not a Qdrant collection of destinations or collections"):
        load(None, {"qdrant": {"url": "http://q", "destinations": DOCS, "owned": ["dosc"]}})
