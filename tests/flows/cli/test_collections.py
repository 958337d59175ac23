"""`rankstream collections`: what it prints of a collection, and that it makes what it is told to, and no more."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from operators.collections.requirements import indexes
from schemas.errors import ConfigError
from tests.flows.cli.running import Command
from tests.operators.indexing.asking import PLAIN, Server
from tests.qdrant_server import serve


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server with a collection of another program, which has an index of the title that is too little."""
    with serve(tmp_path / "engine") as url:
        made = Server(url)
        made.put("plain", {**PLAIN, "shard_number": 2, "strict_mode_config": {"enabled": True, "max_query_limit": 100}})
        made.index("plain", "title", type="text", tokenizer="word")
        yield made


@pytest.fixture
def command(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command line, configured for the collections `docs`, which isn't there, and `plain`."""
    qdrant = {"url": server.url, "dimension": 4, "destinations": {"default": "docs", "other": "plain"}}
    return Command(tmp_path, monkeypatch, {"qdrant": qdrant})


def rows(output: str) -> list[dict[str, Any]]:
    """The JSON objects that were printed."""
    return [json.loads(line) for line in output.splitlines()]


def test_it_prints_what_each_collection_has_and_lacks(command: Command, server: Server) -> None:
    """The command prints owner, vectors, shards, limits and indexes, differences and gaps; it makes nothing."""
    done = command("collections")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[:2] == ["docs: does not exist; make it with --create", "plain:"]
    for line in (
        "  points: 0",
        "  shards: 2",
        "  vectors dense size: 4",
        "  sparse vectors bm25 modifier: idf",
        "  indexes title tokenizer: word",
        "  strict mode max_query_limit: 100",
        "  missing indexes namespace is_tenant: True",
        "  differences: the vector tokens isn't there, the index of title is without phrase_matching",
    ):
        assert line in lines
    assert server.names() == {"plain"}


def test_it_prints_the_same_as_json(command: Command, server: Server) -> None:
    """One object a collection."""
    server.put("aliases", {"actions": [{"create_alias": {"alias_name": "docs", "collection_name": "plain"}}]}, "POST")
    docs, plain = rows(command("collections", "--json").stdout)
    assert (docs["alias_of"], plain["alias_of"]) == ("plain", None)
    assert docs | {"collection": "plain", "alias_of": None} == plain
    assert (plain["exists"], plain["owned_by"], plain["points"], plain["shards"]) == (True, None, 0, 2)
    assert plain["strict_mode"]["max_query_limit"] == 100
    assert plain["missing_indexes"].keys() == indexes().keys() - {"title"}
    assert plain["indexes"] == {"title": {"type": "text", "tokenizer": "word"}}
    assert len(plain["differences"]) == 2


def test_create_makes_the_collections_that_do_not_exist(command: Command, server: Server) -> None:
    """As rankstream's own, with all indexes; one that is there stays as it is."""
    before = server.info("plain")
    done = command("collections", "--create")
    assert done.stdout.startswith(
        "created collection docs\ncreated index namespace (keyword, is_tenant) in collection docs"
    )
    assert server.survey()["docs"].owner == "metadata"
    assert server.info("docs").indexes.keys() == indexes().keys()
    assert server.info("plain") == before
    assert command("collections", "--create").stdout == ""


def test_add_indexes_adds_to_a_collection_of_another_program(command: Command, server: Server) -> None:
    """Those that are missing; one that is there is not changed, and no collection is created."""
    title = server.info("plain").indexes["title"]
    done = rows(command("collections", "--add-indexes", "--json").stdout)
    assert {row["index"] for row in done} == indexes().keys() - {"title"}
    assert all(row["created"] and row["collection"] == "plain" for row in done)
    info = server.info("plain")
    assert info.indexes.keys() == indexes().keys()
    assert info.indexes["title"] == title
    assert server.names() == {"plain"}
    assert server.survey()["plain"].foreign


@pytest.mark.parametrize("options", [[], ["--create"], ["--add-indexes"], ["--create", "--add-indexes"]])
def test_a_dry_run_says_what_would_be_made_and_makes_nothing(
    command: Command, server: Server, options: list[str]
) -> None:
    """It is what the same options make then; without one it is what both would make."""
    before = server.info("plain")
    would = rows(command("collections", "--dry-run", "--json", *options).stdout)
    assert not any(row["created"] for row in would)
    assert server.names() == {"plain"}
    assert server.info("plain") == before
    made = rows(command("collections", "--json", *(options or ["--create", "--add-indexes"])).stdout)
    assert [{**row, "created": False} for row in made] == would


def test_a_server_that_does_not_answer_is_a_failure(command: Command, server: Server) -> None:
    """Exit code 1 with the cause, whatever was to be done; what could not be read is not created."""
    command.settings["qdrant"]["url"] = "http://127.0.0.1:9"
    for options in ([], ["--create"]):
        done = command("collections", *options)
        assert done.exit_code == 1
        assert "collection docs: qdrant at http://127.0.0.1:9: connection refused" in done.stderr
    assert server.names() == {"plain"}


def test_the_indexing_flow_refuses_a_collection_of_another_program(command: Command, server: Server) -> None:
    """Before Kafka is asked for anything: nothing listens there."""
    before = server.info("plain")
    done = command("index")
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception).startswith("Qdrant collection plain: it is not rankstream's own")
    assert server.names() == {"plain"}
    assert server.info("plain") == before
