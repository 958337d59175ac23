"""The commands `check`, `collections` and `topics` on collections of ours and of others."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from flows.assembly.clients import InProcess
from flows.assembly.indexing import ensure_collections, writable_collections
from flows.cli.main import app
from schemas.errors import ConfigError
from schemas.settings import load
from tests import qdrant_server

STRICT = {"enabled": True, "max_query_limit": 100, "unindexed_filtering_retrieve": False}


class System:
    """A Qdrant server, and a configuration for it."""

    def __init__(self, url: str, directory: Path) -> None:
        self.url = url
        self._config = directory / "rankstream.yaml"
        self.configure({})

    def configure(self, qdrant: dict[str, Any]) -> None:
        """Write the configuration, with these keys in its section `qdrant`."""
        # YAML reads JSON.
        self._config.write_text(json.dumps({"qdrant": {"url": self.url, "dimension": 3, **qdrant}}))

    def run(self, *arguments: str) -> Result:
        """Run a command."""
        return CliRunner().invoke(app, [*arguments, "--config", str(self._config)])

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        """What a command prints as JSON."""
        return [json.loads(line) for line in self.run(*arguments, "--json").stdout.splitlines()]

    def ensure(self) -> Any:
        """What the flows do at their start."""
        settings = load(self._config)
        return ensure_collections(settings, InProcess(settings))

    def writable(self) -> None:
        """What the indexing flow does at its start."""
        settings = load(self._config)
        writable_collections(settings, InProcess(settings))

    def created(self, **changes: Any) -> None:
        """Another tool creates the collection."""
        vectors = {"dense": {"size": 3, "distance": "Cosine"}}
        body = {"vectors": vectors, "sparse_vectors": {"bm25": {"modifier": "idf"}}, **changes}
        httpx.put(f"{self.url}/collections/documents", json=body).raise_for_status()

    def indexed(self, field: str, schema: Any) -> None:
        """Another tool creates an index."""
        body = {"field_name": field, "field_schema": schema}
        httpx.put(f"{self.url}/collections/documents/index?wait=true", json=body).raise_for_status()

    def indexes(self) -> set[str]:
        """The fields that have an index."""
        described = httpx.get(f"{self.url}/collections/documents").json()
        return set(described["result"]["payload_schema"])


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    """A server that holds nothing."""
    with qdrant_server.running(tmp_path / "engine") as url:
        yield System(url, tmp_path)


def test_a_collection_that_is_not_there_is_created_when_told(system: System) -> None:
    """`check` names the command, `--dry-run` makes nothing, and after `--create` there is nothing to say."""
    done = system.run("check")
    assert done.exit_code == 1
    assert "rankstream collections --create" in " ".join(done.stdout.split())
    assert system.rows("collections", "--create", "--dry-run") == [
        {"dry_run": True, "created": ["documents"], "added": {}}
    ]
    assert system.rows("collections") == [{"collection": "documents", "exists": False}]
    assert system.run("collections", "--create").exit_code == 0
    (row,) = system.rows("collections")
    assert (row["owned"], row["missing_indexes"], row["differences"]) == (True, [], [])
    assert {each["level"] for each in system.rows("check")} == {"ok"}
    assert system.run("check").exit_code == 0


def test_nothing_is_created_in_a_collection_of_others(system: System) -> None:
    """The flows leave it as it is, and the indexing flow says how it could be otherwise."""
    system.created()
    assert system.ensure().foreign == ["documents"]
    with pytest.raises(ConfigError, match=r"did not create: documents.*qdrant\.owned"):
        system.writable()
    assert system.indexes() == set()


def test_indexes_are_added_to_a_collection_of_others_when_told(system: System) -> None:
    """`--add-indexes` is the operator's word; an index that is there stays as it is."""
    system.created()
    system.indexed("subject", "integer")
    (row,) = system.rows("collections")
    assert "namespace" in row["missing_indexes"]
    assert row["differences"] == ["the index of subject: type is integer, and should be keyword"]
    system.run("collections", "--add-indexes", "--dry-run")
    assert system.indexes() == {"subject"}
    (plan,) = system.rows("collections", "--add-indexes")
    assert set(plan["added"]["documents"]) == set(row["missing_indexes"])
    assert system.indexes() == {"subject", *row["missing_indexes"]}
    (row,) = system.rows("collections")
    assert (row["missing_indexes"], len(row["differences"])) == ([], 1)


def test_a_collection_is_ours_when_the_configuration_says_so(system: System) -> None:
    """Then the indexes that it lacks are added at the start."""
    system.created()
    system.configure({"owned": ["documents"]})
    assert "namespace" in system.ensure().added["documents"]
    assert "namespace" in system.indexes()
    system.writable()


def test_every_difference_is_named_before_anything_is_made(system: System) -> None:
    """A wrong type and a text index without phrases stop the start, and no index was made on the way."""
    system.created()
    system.indexed("subject", "integer")
    system.indexed("text", {"type": "text", "tokenizer": "word", "lowercase": True})
    system.configure({"owned": ["documents"], "destinations": {"default": "documents", "other": "others"}})
    with pytest.raises(ConfigError) as raised:
        system.ensure()
    assert "subject: type is integer, and should be keyword" in str(raised.value)
    assert "text: phrase_matching is False, and should be True" in str(raised.value)
    assert system.indexes() == {"subject", "text"}
    assert httpx.get(f"{system.url}/collections/others").status_code == 404


def test_vectors_of_another_size_are_an_error(system: System) -> None:
    """No search of the vector leg would be answered."""
    system.created(vectors={"dense": {"size": 4, "distance": "Cosine"}})
    done = system.run("check")
    assert done.exit_code == 1
    assert "size is 4" in done.stdout


def test_limits_and_shards_are_said(system: System) -> None:
    """What makes answers other than they would be elsewhere is a warning."""
    system.created(shard_number=3, strict_mode_config=STRICT)
    said = " ".join(row["found"] for row in system.rows("check") if row["level"] == "warning")
    assert all(word in said for word in ("3 shards", "max_query_limit is 100", "without an index", "no token vectors"))


def test_a_server_that_is_not_there_is_one_line(system: System) -> None:
    """The address and the cause, and what to look at."""
    system.configure({"url": "http://127.0.0.1:1"})
    (row,) = system.rows("check")
    assert (row["level"], row["remedy"]) == ("error", "Check qdrant.url, and that the server runs there")
    assert "127.0.0.1:1" in row["found"]
    assert "refused" in row["found"]


def test_an_alias_is_named_with_its_collection(system: System) -> None:
    """The name in the configuration may stand for another."""
    system.created()
    action = {"create_alias": {"alias_name": "live", "collection_name": "documents"}}
    httpx.post(f"{system.url}/collections/aliases", json={"actions": [action]}).raise_for_status()
    system.configure({"destinations": {"default": "live"}})
    (row,) = system.rows("collections")
    assert row["alias_of"] == "documents"
    assert "alias of documents" in " ".join(system.run("check").stdout.split())
