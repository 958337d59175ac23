"""A real Qdrant server is killed under load: no write is lost, and each query is answered once."""

import contextlib
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import httpx
import pytest

from bench.kafka.broker import Broker
from bench.ports import free_port
from bench.qdrant_server import named, spawned
from tests.integration.deployment import Deployment, assert_each_once, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.broker]

DIMENSION: Final = 3
KILLS: Final = 3
EACH: Final = 60
"""Documents, and queries, before and after each kill."""


class Killed:
    """A server at one address that can be killed, and started again over the same directory."""

    def __init__(self, binary: str, path: Path) -> None:
        self._binary, self._path = binary, path
        self._port = free_port(1)
        self._stack = contextlib.ExitStack()
        self.url = f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        self._process = self._stack.enter_context(spawned(self._binary, self._path, self._port))

    def kill(self) -> None:
        """Kill it by SIGKILL: it writes nothing more."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)
        self._stack.close()


NONE: Final = pytest.param("", marks=pytest.mark.skip(reason="QDRANT_BINARY names no Qdrant server to kill"))


@pytest.fixture(params=[named() or NONE])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Killed]:
    """A server that runs."""
    killed = Killed(request.param, tmp_path / "server")
    killed.start()
    yield killed
    killed.kill()


def test_a_killed_server_loses_no_write(
    server: Killed, broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]
) -> None:
    """Documents and queries go on while it is killed and started again; in the end all documents are there."""
    sections = {
        "qdrant": {"url": server.url, "dimension": DIMENSION, "timeout": 5},
        "limits": {"timeout": 20},
    }
    with Deployment.on(broker, tmp_path, topic_names, sections) as deployment:
        deployment.start("index", replica="i")
        deployment.start("run", replica="s")
        written = asked = 0

        def go_on() -> None:
            nonlocal written, asked
            documents = [
                {"id": f"d{number}", "text": f"lantern {number}", "vector": [1.0, number, 0.5]}
                for number in range(written, written + EACH)
            ]
            deployment.produce("documents", [json.dumps(each).encode() for each in documents])
            deployment.ask(
                [
                    {"query_id": f"q{number}", "text": "lantern", "vector": [1.0, 2.0, 0.5]}
                    for number in range(asked, asked + EACH)
                ]
            )
            written, asked = written + EACH, asked + EACH

        for _ in range(KILLS):
            go_on()
            server.kill()
            go_on()
            server.start()

        def count() -> int:
            with contextlib.suppress(httpx.HTTPError):
                body = {"exact": True, "filter": {"must": [{"key": "namespace", "match": {"value": "default"}}]}}
                answer = httpx.post(f"{server.url}/collections/documents/points/count", json=body, timeout=10)
                return int(answer.json()["result"]["count"]) if answer.is_success else 0
            return 0

        wait_until(lambda: count() == written)
        answers = deployment.output_records(asked)
        assert_each_once(deployment, answers)
        assert {each.value["query_id"] for each in answers} == {f"q{number}" for number in range(asked)}
        assert deployment.records("dead_letters") == []
        deployment.ask([{"query_id": "last", "text": "lantern", "vector": [1.0, 2.0, 0.5]}])
        [last] = [each for each in deployment.output_records(asked + 1) if each.value["query_id"] == "last"]
        assert (last.value["status"], len(last.value["results"])) == ("ok", 20)
