"""Documents that change without their text, on a real broker, with the caches on: a server, and the engine inside.

Each answer is asked for twice before a change, so that the caches hold it, and again after it.
"""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import yaml

from bench.kafka.broker import Broker
from schemas.document import FORGOTTEN
from tests import qdrant_server, warm
from tests.integration.deployment import PATIENCE, Deployment, wait_until
from tests.proxy import Connection, Mode, Proxy

VECTOR = [1.0, 0.5, 0.25, 0.0]
NEAR = [1.0, 0.5, 0.25, 0.01]

Event = dict[str, Any]


class Shop:
    """Both flows, and one namespace that is asked and written."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.written = 0
        self._asked = 0

    def write(self, *events: Event) -> None:
        """Produce document events, all to one partition, and wait until each is applied or rejected."""
        for event in events:
            self.deployment.produce("documents", [json.dumps({"namespace": "shop", **event}).encode()])
        self.written += len(events)
        self.settle()

    def ids(self) -> set[str]:
        """The documents that the server has."""
        body = {"limit": 100, "with_payload": ["id"], "filter": {"must_not": [{"is_empty": {"key": "namespace"}}]}}
        url = f"{self.deployment.settings['qdrant']['url']}/collections/documents/points/scroll"
        found = httpx.post(url, json=body, timeout=PATIENCE).json()
        return {point["payload"]["id"] for point in found["result"]["points"]}

    def settle(self) -> None:
        """Wait until everything that was produced is applied or rejected."""
        wait_until(lambda: self._end() >= self.written)

    def _end(self) -> int:
        marks = self.deployment.records("watermarks")
        if marks and marks[-1].value is None:
            # The last event has deleted all: the namespace has no watermark any more.
            return self.written
        applied = [int(value) + 1 for value in self.deployment.watermarks().values()]
        return max([*applied, *(place[2] + 1 for place in self._rejected())], default=0)

    def _rejected(self) -> list[tuple[str, int, int]]:
        found = []
        for record in self.deployment.records("dead_letters"):
            headers = dict(record.headers)
            if headers["__connect.errors.topic"].decode() == self.deployment.names["documents"]:
                found.append(("", 0, int(headers["__connect.errors.offset"])))
        return found

    def classes(self) -> list[str]:
        """The classes of the dead letters."""
        headers = [dict(record.headers) for record in self.deployment.records("dead_letters")]
        return [each["__connect.errors.exception.class.name"].decode() for each in headers]

    def ask(self, event: Event) -> Event:
        """The result of a query."""
        self._asked += 1
        query_id = f"q{self._asked}"
        self.deployment.ask([{"query_id": query_id, "namespace": "shop", **event}])
        found: list[Event] = []

        def ended() -> bool:
            results = (json.loads(record.value) for record in self.deployment.records("results"))
            found[:] = [result for result in results if result["query_id"] == query_id]
            return bool(found)

        wait_until(ended)
        (result,) = found
        return result

    def payloads(self, **fields: Any) -> list[dict[str, Event]]:
        """The payloads by id, computed or cached: of a search, of the same one, of one like it, and of a lookup."""
        same = {"text": "lamp", "vector": VECTOR}
        events: list[Event] = [
            same,
            same,
            {**same, "vector": NEAR},
            {"filters": [{"field": "id", "op": "prefix", "value": "lamp"}]},
        ]
        answers = [self.ask({**event, **fields}) for event in events]
        assert [answer["status"] for answer in answers] == ["ok"] * len(events)
        return [{hit["id"]: hit["payload"] for hit in answer["results"]} for answer in answers]

    def command(self, *arguments: str, code: int = 0) -> str:
        """Run a command to its end; what it said."""
        config = self.deployment.directory / "command.yaml"
        config.write_text(yaml.safe_dump(self.deployment.settings))
        env = {name: value for name, value in os.environ.items() if not name.startswith("RANKSTREAM_")}
        done = warm.run([arguments[0], "--config", str(config), *arguments[1:]], env, PATIENCE)
        assert done.returncode == code, done.stderr
        # A deletion of many may be the last of its partition.
        self.written = max(self.written, self._end())
        return done.stdout + done.stderr


@pytest.fixture(params=["server", "engine"])
def shop(
    request: pytest.FixtureRequest, broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]
) -> Iterator[Shop]:
    """Two processes before a server, or one with the engine in it."""
    with contextlib.ExitStack() as stack:
        qdrant: Event = {"dimension": len(VECTOR)}
        if request.param == "server":
            qdrant |= {"url": stack.enter_context(qdrant_server.running(tmp_path / "engine")), "timeout": 20}
        else:
            qdrant |= {"path": str(tmp_path / "engine")}
        sections = {"qdrant": qdrant, "limits": {"timeout": 60}, "cache": {"watermark_timeout": 10.0}}
        deployment = stack.enter_context(Deployment.on(broker, tmp_path, topic_names, sections))
        if request.param == "server":
            deployment.start("index", replica="i")
            deployment.start("run", replica="s")
        else:
            deployment.start("run --with-indexing")
        yield Shop(deployment)


def lamp(number: int, **fields: Any) -> Event:
    """A document."""
    return {"id": f"lamp-{number}", "text": f"a lamp {number}", "vector": VECTOR, **fields}


def test_a_patch_is_in_every_answer_after_it(shop: Shop) -> None:
    """Its fields are in each answer, cached ones included; without a document it comes back by `replay`."""
    shop.write(lamp(1, price=10, colour="red"), lamp(2, price=20))
    before = shop.payloads()
    assert all(found["lamp-1"]["price"] == 10 for found in before)
    shop.write({"id": "lamp-1", "op": "patch", "price": 8, "colour": None, "access_count": 3})
    for found in shop.payloads():
        assert (found["lamp-1"]["price"], found["lamp-1"]["access_count"]) == (8, 3)
        assert "colour" not in found["lamp-1"]
        assert found["lamp-2"]["price"] == 20
        assert not [name for payload in found.values() for name in payload if name.startswith("_")]
    shop.write({"id": "lamp-3", "op": "patch", "price": 5}, {"id": "lamp-1", "op": "patch", "text": "new"})
    assert shop.classes() == ["not_found", "invalid"]
    shop.write(lamp(3, price=30, updated_at=1.0))
    assert all(found["lamp-3"]["price"] == 30 for found in shop.payloads())
    shop.command("replay", "--class", "not_found")
    # It may go to another partition.
    wait_until(lambda: all(found["lamp-3"]["price"] == 5 for found in shop.payloads()))


def test_an_expired_document_is_in_no_answer(shop: Shop) -> None:
    """From its moment on it is in none, cached or computed, nor for a query of an earlier `now`; a patch prolongs."""
    # Until the caches are filled before the end, on a machine that may be slow.
    for seconds in (4, 8, 16, 32, 64):
        ends = time.time() + seconds
        shop.write(lamp(1), lamp(2, expires_at=ends), lamp(3, expires_at=ends))
        shop.write({"id": "lamp-3", "op": "patch", "expires_at": ends + 3600})
        filled = shop.payloads()
        if time.time() < ends:
            break
    assert all(found.keys() == {"lamp-1", "lamp-2", "lamp-3"} for found in filled)
    wait_until(lambda: time.time() >= ends)
    for found in [*shop.payloads(), *shop.payloads(now=ends - 3600)]:
        assert found.keys() == {"lamp-1", "lamp-3"}


def test_what_expired_long_ago_is_deleted(shop: Shop) -> None:
    """The indexing flow deletes it: a patch no longer finds it."""
    shop.write(lamp(1, expires_at=100.0))
    shop.deployment.flows[0].terminate()
    shop.deployment.start("run --with-indexing" if len(shop.deployment.flows) == 1 else "index", replica="i")

    def gone() -> bool:
        shop.write({"id": "lamp-1", "op": "patch", "price": 1})
        return "not_found" in shop.classes()

    wait_until(gone)


def test_a_forgotten_namespace_is_in_no_answer(shop: Shop) -> None:
    """A forgotten document is in no answer, cached or computed, and does not come back late; a later version may."""
    shop.write(lamp(1, owner="x"), lamp(2, owner="x"), lamp(3, owner="y"), lamp(4, owner="x", updated_at=4e9))
    shop.deployment.produce("documents", [json.dumps({"namespace": "other", **lamp(1)}).encode()])
    assert all(found.keys() == {f"lamp-{number}" for number in range(1, 5)} for found in shop.payloads())
    counted = "url" in shop.deployment.settings["qdrant"]
    said = shop.command("forget", "--namespace", "shop", "--filter", "owner=x", code=2)
    assert ("2 documents would be deleted. Give --yes" in said) == counted
    said = shop.command("forget", "--namespace", "shpo", code=2)
    assert (
        "0 documents would be deleted: no document is in the namespace `shpo`; did you mean `shop`?" in said
    ) == counted
    if counted:
        said = shop.command("forget", "--namespace", "shpo", "--yes", code=1)
        assert "nothing was deleted: no document is in the namespace `shpo`; did you mean `shop`?" in said
        said = shop.command("forget", "--namespace", "shop", "--filter", "titel=x", "--yes", code=1)
        assert "nothing was deleted: no document has the field `titel`; did you mean `title`?" in said
    assert all(len(found) == 4 for found in shop.payloads())
    said = shop.command("forget", "--namespace", "shop", "--filter", "owner=x", "--yes")
    assert ("2 documents deleted; 1 with a later version stayed" in said) == counted
    assert all(found.keys() == {"lamp-3", "lamp-4"} for found in shop.payloads())
    assert "namespace forgotten" in "".join(flow.log.read_text() for flow in shop.deployment.flows)
    shop.write(lamp(1, owner="x", updated_at=1e9), lamp(5, owner="y", updated_at=1e9), lamp(2, owner="x"))
    assert all(found.keys() == {"lamp-2", "lamp-3", "lamp-4", "lamp-5"} for found in shop.payloads())
    shop.command("forget", "--namespace", "shop", "--yes")
    assert all(found.keys() == {"lamp-4"} for found in shop.payloads())
    assert shop.ask({"namespace": "other", "text": "lamp", "vector": VECTOR})["total"] == 1
    for _ in range(2):
        # What was forgotten before is no mistake.
        said = shop.command("forget", "--namespace", "other", "--yes")
    assert ("0 documents deleted; 0 with a later version stayed" in said) == counted
    shop.write({"op": "delete_where", "filters": [{"field": "owner", "op": "eq"}]}, {"op": "delete_where", "id": "x"})
    assert shop.classes() == ["invalid", "invalid"]


def test_an_unchanged_document_that_an_export_has_again_comes_back(shop: Shop) -> None:
    """Each week what the export lacks is deleted, and nothing else: also of rows with an older time of change, and of
    one that was gone for a week.
    """
    shop.deployment.settings["documents"] = {"columns": {"id": "No", "updated_at": "Updated", "namespace": "tenant"}}
    export = shop.deployment.directory / "export.jsonl"

    def week(*numbers: int) -> None:
        rows = [{"No": f"lamp-{n}", "tenant": "shop", "Updated": 1e9 + n / 1000, "text": "lamp"} for n in numbers]
        export.write_text("\n".join(json.dumps({**row, "vector": VECTOR}) for row in rows))
        shop.command("index", "--from", str(export))

    def tidy(*options: str, code: int = 0) -> str:
        return shop.command("forget", "--namespace", "shop", "--not-in", str(export), *options, code=code)

    # The flow has no columns: it is told them by a new one.
    for flow in shop.deployment.flows:
        flow.terminate()
    served = "url" in shop.deployment.settings["qdrant"]
    shop.deployment.start("index" if served else "run --with-indexing", replica="j")
    week(1, 2, 3, 4)
    if not served:
        assert "--not-in reads the index, which is open in another process" in tidy(code=2)
        return
    week(1, 2, 3)
    assert "1 document would be deleted: lamp-4. Give --yes" in tidy(code=2)
    assert "1 document deleted; 0 with a later version stayed" in tidy("--yes")
    week(1, 2, 4, 5)
    assert "1 document deleted" in tidy("--yes")
    assert "0 documents deleted" in tidy("--yes")
    assert shop.ids() == {"lamp-1", "lamp-2", "lamp-4", "lamp-5"}
    week(2)
    assert "--yes and --allow-most, for they are more than half" in tidy(code=2)
    assert "3 of 4 documents are not in" in tidy("--yes", code=1)
    export.write_text(json.dumps({"No": "lamp-2", "tenant": "shpo"}))
    assert "--not-in: no document of the namespace shop is in it; there are some of shpo" in tidy("--yes", code=1)
    export.write_text(json.dumps({"No": "lamp-2", "tenant": "shop"}) + "\n{")
    assert "line 2" in tidy("--yes", "--allow-most", code=1)
    assert len(shop.ids()) == 4
    week(2)
    assert "3 documents deleted" in tidy("--yes", "--allow-most")
    assert shop.ids() == {"lamp-2"}


def test_what_the_index_does_not_take_is_not_counted_as_indexed(shop: Shop) -> None:
    """Doubles, older versions and what was deleted before are counted, each for its reason; an engine tells nothing."""
    export = shop.deployment.directory / "export.jsonl"
    shop.write(lamp(1, updated_at=2e9), lamp(3, owner="x"))
    shop.command("forget", "--namespace", "shop", "--filter", "owner=x", "--yes")
    old = [lamp(1, updated_at=1e9), lamp(3, owner="x", updated_at=1e9)]
    rows = [*old, lamp(2, updated_at=1.0), lamp(2, updated_at=2.0), lamp(4), {"id": "lamp-5"}]
    export.write_text("\n".join(json.dumps({"namespace": "shop", **row}) for row in rows))
    said = shop.command("index", "--from", str(export), code=1)
    if "url" in shop.deployment.settings["qdrant"]:
        assert "documents indexed: 2, rejected: 1" in said
        why = "1 replaced by another of the same id, 1 older than that in the index, 1 deleted before, or expired"
        assert f"not indexed: {why}" in said
    else:
        assert "documents sent: 6, rejected: 1" in said


class Cut(Proxy):
    """A proxy that takes every byte and answers none once a tombstone has passed."""

    async def _passed(self, connection: Connection, chunk: bytes, *, answer: bool) -> bytes:
        if b'"_forgotten":' in chunk and not answer:
            self.cut = asyncio.get_running_loop().create_task(self._switch(Mode.HANG))
        return chunk

    cut: asyncio.Task[None] | None = None


def test_a_kill_within_a_deletion_is_repaired(
    broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]
) -> None:
    """An indexing flow is killed when the tombstone is written and nothing deleted; the next one deletes."""
    with qdrant_server.running(tmp_path / "engine") as url, Cut("127.0.0.1", urlsplit(url).port or 0) as proxy:
        qdrant = {"url": url, "dimension": len(VECTOR), "timeout": 20}
        with Deployment.on(broker, tmp_path, topic_names, {"qdrant": qdrant}) as deployment:
            deployment.start("index", replica="a")
            shop = Shop(deployment)
            shop.write(*(lamp(number) for number in range(20)))
            deployment.flows[0].terminate()
            deployment.settings["qdrant"]["url"] = f"http://127.0.0.1:{proxy.port}"
            deployment.start("index", replica="b")
            deployment.produce("documents", [json.dumps({"namespace": "shop", "op": "delete_where"}).encode()])
            wait_until(lambda: proxy.cut is not None)

            def points() -> list[Event]:
                body = {"limit": 100, "with_payload": True}
                found = httpx.post(f"{url}/collections/documents/points/scroll", json=body).raise_for_status()
                payloads: list[Event] = [point["payload"] for point in found.json()["result"]["points"]]
                return payloads

            wait_until(lambda: any(FORGOTTEN in payload for payload in points()))
            deployment.flows[1].kill()
            assert len(points()) == 21
            deployment.settings["qdrant"]["url"] = url
            deployment.start("index", replica="c")
            shop.written += 1
            shop.settle()
            assert [FORGOTTEN in payload for payload in points()] == [True]
