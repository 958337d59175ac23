"""A new generation of the index is built beside the one that answers, and the alias is switched to it."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import kafka
import pytest

from bench.kafka.broker import Broker
from flows.assembly.clients import InProcess
from flows.cli.reindex import _make
from operators.collections.notes import Generation
from operators.collections.reindexing import AliasMove
from schemas.settings import Settings
from tests import qdrant_server
from tests.integration.deployment import Deployment, Flow, assert_each_once, wait_until

VECTOR = [0.6, 0.8, 0.0]
FEW = 40


class Shop:
    """A deployment with an index, and a look into its collections."""

    def __init__(self, system: Deployment, qdrant: str) -> None:
        self.system = system
        self.qdrant = qdrant

    def write(self, *documents: dict[str, Any]) -> None:
        """Produce documents, each to the partition of its id: their order holds when the topic is read again, too."""
        filled = [{"namespace": "red", "updated_at": 1000, **each} for each in documents]
        keys = [str(each["id"]) for each in filled]
        self.system.produce("documents", [json.dumps(each).encode() for each in filled], keys=keys)

    def fields(self, collection: str, *names: str) -> dict[str, tuple[Any, ...]]:
        """These fields of each document, by its id; none where the collection isn't there."""
        found = httpx.post(f"{self.qdrant}/collections/{collection}/points/scroll", json={"limit": 1000})
        points = found.json()["result"]["points"] if found.status_code == 200 else []
        return {each["payload"]["id"]: tuple(each["payload"].get(name) for name in names) for each in points}

    def alias(self, name: str) -> str | None:
        """The collection of an alias."""
        found = httpx.get(f"{self.qdrant}/aliases").json()["result"]["aliases"]
        return next((each["collection_name"] for each in found if each["alias_name"] == name), None)

    def configure(self, **qdrant: Any) -> None:
        """Change the configuration of whatever starts from now on."""
        self.system.settings["qdrant"] |= qdrant

    def reindex(self, *options: str) -> Flow:
        """Start to reindex."""
        return self.system.start(" ".join(("reindex", *options)), replica="i", wait=False)

    def ended(self, flow: Flow) -> tuple[int, str]:
        """The exit code of a command that ends by itself, and its output."""
        code = flow.process.wait(150)
        return code, flow.log.read_text()


@pytest.fixture
def shop(broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]) -> Iterator[Shop]:
    """A plain collection with some documents, patched and deleted, and the indexing flow that wrote it."""
    with qdrant_server.running(tmp_path / "engine") as url:
        sections = {
            "qdrant": {"url": url, "timeout": 20, "dimension": 3},
            "cache": {"watermark_timeout": 10},
            "limits": {"timeout": 60},
        }
        with Deployment.on(broker, tmp_path, topic_names, sections) as system:
            made = Shop(system, url)
            system.start("index", replica="i")
            made.write(*({"id": f"d{each}", "text": f"lantern {each}", "vector": VECTOR} for each in range(FEW)))
            made.write({"id": "d0", "op": "patch", "price": 5, "updated_at": 3000})
            wait_until(lambda: made.fields("documents", "price").get("d0") == (5,))
            made.write({"id": "d0", "text": "older", "vector": VECTOR, "price": 9, "updated_at": 2000})
            made.write({"id": "d1", "op": "delete", "updated_at": 2000})
            wait_until(lambda: len(made.fields("documents")) == FEW - 1)
            wait_until(lambda: made.fields("documents", "text")["d0"] == ("older",))
            yield made


def test_an_index_is_made_again_while_it_answers(shop: Shop) -> None:
    """Killed in the middle and resumed, the new index gets all that the topic has, events of the meantime included;
    each query is answered once, none without its results; the successor goes on from there, and undo goes back.
    """
    system = shop.system
    system.start("run", replica="s")
    asked = 0

    def ask() -> None:
        nonlocal asked
        asked += 1
        system.ask([{"query_id": f"q{asked}", "namespace": "red", "text": "lantern", "vector": VECTOR, "limit": 5}])

    ask()
    shop.configure(search_fields={"title": 3, "text": 1})
    killed = shop.reindex()
    wait_until(lambda: "documents-2" in httpx.get(f"{shop.qdrant}/collections").text)
    killed.kill()
    assert shop.alias("documents.rankstream") is None
    shop.write({"id": "d2", "op": "patch", "price": 7, "updated_at": 4000})
    shop.write({"id": "d3", "op": "delete", "updated_at": 4000})
    shop.write({"id": "new", "text": "a new lantern", "vector": VECTOR})
    resumed = shop.reindex()

    def switched() -> bool:
        ask()
        return shop.alias("documents.rankstream") == "documents-2"

    wait_until(switched)
    before, after = (shop.fields(each, "text", "price") for each in ("documents", "documents-2"))
    assert after == before
    assert (after["d0"], after["d2"]) == (("older", 5), ("lantern 2", 7))
    assert "d3" not in after
    successor = system.start("index", replica="i2")
    assert shop.ended(resumed)[0] == 0
    shop.write({"id": "later", "text": "a later lantern", "vector": VECTOR})
    wait_until(lambda: "later" in shop.fields("documents-2"))
    # The indexing flow of the earlier settings goes on with its collection.
    wait_until(lambda: "later" in shop.fields("documents"))
    ask()
    system.start("run", replica="s2")
    ask()
    code, said = shop.ended(shop.reindex())
    assert code == 0
    assert "documents-2 was made with these settings" in said
    assert shop.ended(shop.reindex("--undo"))[0] == 0
    assert shop.alias("documents.rankstream") is None
    ask()
    # What was undone is there, up to date, and has a successor already.
    assert shop.ended(shop.reindex())[0] == 0
    assert shop.alias("documents.rankstream") == "documents-2"
    assert successor.terminate() == 0
    ask()
    records = system.output_records(asked)
    assert_each_once(system, records)
    assert {each.value["status"] for each in records} == {"ok"}
    assert all(len(each.value["results"]) == 5 for each in records)


def test_an_indexing_flow_of_other_settings_does_not_write_to_a_new_generation(shop: Shop) -> None:
    """Started with settings of its own, it ends with a clear message; so does a run whose topic was cut, unless it
    copies what is lost, one with nothing to go back to, and one on the engine in the process.
    """
    shop.configure(search_fields={"title": 3, "text": 1})
    made = shop.reindex()
    wait_until(lambda: shop.alias("documents.rankstream") == "documents-2")
    assert made.terminate() == 0
    shop.configure(search_fields={"title": 2, "text": 1})
    code, said = shop.ended(shop.system.start("index", replica="i3", wait=False))
    assert code == 2
    assert "rankstream reindex made it with other settings" in said
    code, said = shop.ended(shop.reindex("--drop-old"))
    assert code == 0, said
    assert shop.alias("documents") == "documents-2"
    assert shop.alias("documents.rankstream") is None
    assert shop.ended(shop.reindex("--undo"))[0] == 2
    # What the retention has deleted would be missing.
    admin = kafka.KafkaAdminClient(bootstrap_servers=shop.system.broker.bootstrap)
    admin.delete_records({kafka.TopicPartition(shop.system.names["documents"], 0): 1})
    admin.close()
    code, said = shop.ended(shop.reindex())
    assert code == 1
    assert "the retention has deleted the beginning of the partitions 0" in said
    # The documents that the topic has lost are in the present collection.
    names = ("text", "price", "updated_at")
    before = shop.fields("documents-2", *names)
    killed = shop.reindex("--from-collection")
    wait_until(lambda: "documents-3" in httpx.get(f"{shop.qdrant}/collections").text)
    killed.kill()
    shop.write({"id": "d4", "op": "delete", "updated_at": 4000})
    made = shop.reindex("--from-collection")
    wait_until(lambda: shop.alias("documents") == "documents-3")
    assert shop.fields("documents-3", *names) == {id_: each for id_, each in before.items() if id_ != "d4"}
    assert made.terminate() == 0
    del shop.system.settings["qdrant"]["url"]
    shop.configure(path=str(shop.system.directory / "embedded"))
    code, said = shop.ended(shop.reindex())
    assert code == 2
    assert "has no aliases" in said


def test_runs_that_begin_at_once_are_of_one_group(shop: Shop) -> None:
    """The one that finds the collection made by the other watches the group that the collection notes."""
    given = Settings.model_validate(shop.system.settings)
    moves = [AliasMove("documents", "documents.rankstream", "documents", "documents-2")]
    with closing(InProcess(given)) as in_process:
        groups = [_make(given, in_process, moves, Generation(name), None) for name in ("first", "second")]
    assert groups == ["first", "first"]


def test_counts_that_differ_prevent_the_switch(shop: Shop) -> None:
    """Documents that the topic does not have would be lost: the command says of which namespace, and exits with 1."""
    lost = {"id": 7, "vector": {"dense": VECTOR}, "payload": {"id": "x", "namespace": "blue", "_version": 1}}
    httpx.put(f"{shop.qdrant}/collections/documents/points?wait=true", json={"points": [lost]}).raise_for_status()
    code, said = shop.ended(shop.reindex())
    assert code == 1
    assert "blue" in said
    assert shop.alias("documents.rankstream") is None
    made = shop.reindex("--allow-differences")
    wait_until(lambda: shop.alias("documents.rankstream") == "documents-2")
    assert made.terminate() == 0
