"""Documents that change without their text, on a real broker, with the caches on: a server, and the engine inside.

Each answer is asked for twice before a change, so that the caches hold it, and again after it.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.kafka.broker import Broker
from tests import qdrant_server, warm
from tests.integration.deployment import PATIENCE, Deployment, wait_until

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

    def settle(self) -> None:
        """Wait until everything that was produced is applied or rejected."""
        wait_until(lambda: self._end() >= self.written)

    def _end(self) -> int:
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

    def command(self, *arguments: str) -> str:
        """Run a command to its end; what it said."""
        config = self.deployment.directory / "command.yaml"
        config.write_text(yaml.safe_dump(self.deployment.settings))
        env = {name: value for name, value in os.environ.items() if not name.startswith("RANKSTREAM_")}
        done = warm.run([arguments[0], "--config", str(config), *arguments[1:]], env, PATIENCE)
        assert done.returncode == 0, done.stderr
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
