"""Several replicas as processes: one that ends is replaced, the others go on, and all end with the command."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from bench.kafka.broker import Broker
from bench.ports import free_port
from bench.stubs import stub_backends
from tests.faults.law import account
from tests.faults.load import Load
from tests.faults.reader import Reader, contents
from tests.integration.deployment import PATIENCE, Deployment, Flow, wait_until
from tests.missing import missing
from tests.proxy import Proxy
from tests.tiers import sized

pytestmark = pytest.mark.slow

COUNT = sized(2, nightly=3)


@dataclass
class Command:
    """`rankstream run --replicas COUNT`, in a session of its own as a terminal starts it."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def said(self, event: str) -> list[dict[str, Any]]:
        """The command's own log lines of that event."""
        lines = (line for line in self.log.read_text().splitlines() if line.startswith("{"))
        return [each for each in map(json.loads, lines) if each["event"] == event]

    @property
    def pids(self) -> dict[str, int]:
        """The replicas by name, each with its last process."""
        return {line["replica"]: line["pid"] for line in self.said("replica started")}

    def ready(self, index: int) -> bool:
        """True if that replica is in its group."""
        return Flow(self.process, self.port + index, self.log).ready()

    def wait_ready(self) -> None:
        """Return once all are in their group."""
        wait_until(lambda: all(map(self.ready, range(COUNT))) or self.process.poll() is not None)
        assert self.process.poll() is None, self.log.read_text()


@contextlib.contextmanager
def command(config: dict[str, Any], directory: Path, port: int) -> Iterator[Command]:
    """The command with that configuration; nothing of it outlives the block."""
    file, log = directory / "supervised.yaml", directory / "supervised.log"
    file.write_text(yaml.safe_dump(config))
    environment = {
        **os.environ,
        "RANKSTREAM_DELIVERY__REPLICA": "r",
        "RANKSTREAM_TELEMETRY__PORT": str(port),
    }
    with log.open("wb") as out:
        arguments = [sys.executable, "-m", "flows.cli", "run", "--replicas", str(COUNT), "--config", str(file)]
        process = subprocess.Popen(arguments, env=environment, stdout=out, stderr=out, start_new_session=True)
    running = Command(process, port, log)
    try:
        yield running
    finally:
        process.kill()
        process.wait()
        for line in running.said("replica started"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(line["pid"], signal.SIGKILL)


def alive(pid: int) -> bool:
    """True if a process has this number."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def environment_of(pid: int) -> set[str]:
    """The environment that a process was started with."""
    return set(Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0"))


@pytest.fixture
def qdrant() -> Iterator[Proxy]:
    """A proxy before a stub of Qdrant that takes its time."""
    with stub_backends(qdrant_latency=0.01) as stubs:
        url = urlsplit(stubs.qdrant)
        assert url.hostname is not None
        assert url.port is not None
        with Proxy(url.hostname, url.port) as proxy:
            yield proxy


@pytest.fixture
def deployment(
    broker: Broker, qdrant: Proxy, tmp_path: Path, topic_names: Callable[[str], str]
) -> Iterator[Deployment]:
    """Topics and a configuration."""
    sections = {"qdrant": {"url": f"http://127.0.0.1:{qdrant.port}", "timeout": 20}, "limits": {"timeout": 60}}
    with Deployment.on(broker, tmp_path, topic_names, sections) as made:
        yield made


@pytest.fixture
def supervised(deployment: Deployment, tmp_path: Path) -> Iterator[Command]:
    """Replicas that are in their group."""
    with command(deployment.settings, tmp_path, free_port(COUNT)) as running:
        running.wait_ready()
        yield running


def test_a_killed_replica_is_replaced(deployment: Deployment, supervised: Command) -> None:
    """One of them is killed under load: another process takes its name, the others answer meanwhile, and each query is
    answered once. Ctrl-C, which a terminal sends to all processes of the command, drains all.
    """
    bootstrap, names = deployment.broker.bootstrap, deployment.names
    results, letters = names["results"], names["dead_letters"]
    before = supervised.pids
    assert before.keys() == {f"r-{index}" for index in range(COUNT)}
    with Reader(bootstrap, results, letters) as reader, Load(bootstrap, names["queries"]) as load:
        load.start()
        wait_until(lambda: reader.output_records)
        os.kill(before["r-1"], signal.SIGKILL)
        killed = time.time()
        wait_until(lambda: supervised.pids != before)
        replaced = time.time()
        wait_until(lambda: supervised.ready(1))
        load.stop()
        asked = contents(bootstrap, names["queries"])
        wait_until(lambda: asked.keys() <= {each.place for each in list(reader.output_records) if not each.refusal})
        os.killpg(supervised.process.pid, signal.SIGINT)
        assert supervised.process.wait(PATIENCE) == 0
        time.sleep(1)
        answers = list(reader.output_records)
    assert account(asked, answers).breaches() == []
    assert any(killed < each.arrival < replaced for each in answers)
    after = supervised.pids
    assert {name for name in before if before[name] != after[name]} == {"r-1"}
    first, *drained = supervised.said("replica ended")
    assert (first["replica"], first["pid"], first["signal"]) == ("r-1", before["r-1"], "Killed")
    assert first["restart_in_s"] == 1
    assert {(each["replica"], each["pid"], each["exit_code"]) for each in drained} == {
        (name, pid, 0) for name, pid in after.items()
    }


def test_replicas_have_names_and_ports_of_their_own(supervised: Command) -> None:
    """Each has the command's name and port with its index, as its successor will, and names itself in its log."""
    for index in range(COUNT):
        assert any(line["replica"] == f"r-{index}" for line in supervised.said("health port open"))
        own = {f"RANKSTREAM_DELIVERY__REPLICA=r-{index}", f"RANKSTREAM_TELEMETRY__PORT={supervised.port + index}"}
        assert own <= environment_of(supervised.pids[f"r-{index}"])


def test_a_second_signal_ends_all_at_once(deployment: Deployment, supervised: Command, qdrant: Proxy) -> None:
    """While replicas drain queries that hang, a second signal ends the command with 130, and no replica outlives it."""
    qdrant.switch("hang")
    before = qdrant.requests
    deployment.ask([{"query_id": f"q{n}", "text": "harbor"} for n in range(40)])
    wait_until(lambda: qdrant.requests > before)
    pids = supervised.pids.values()
    supervised.process.send_signal(signal.SIGTERM)
    # Another one: two of a kind may come as one.
    supervised.process.send_signal(signal.SIGINT)
    assert supervised.process.wait(PATIENCE) == 130
    wait_until(lambda: not any(map(alive, pids)))
    assert '"drained"' not in supervised.log.read_text()


def test_replicas_do_not_outlive_the_command(supervised: Command) -> None:
    """If the command is killed, its replicas drain and end: they hold neither ports nor partitions."""
    if sys.platform != "linux":
        missing("the kernel tells no process of its parent's end")
    pids = supervised.pids.values()
    supervised.process.kill()
    wait_until(lambda: not any(map(alive, pids)))
    assert supervised.log.read_text().count('"drained"') == COUNT


@pytest.fixture
def away(tmp_path: Path) -> dict[str, Any]:
    """A configuration whose broker isn't there."""
    return {
        "kafka": {"bootstrap_servers": f"127.0.0.1:{free_port()}"},
        "qdrant": {"url": "http://127.0.0.1:9"},
        "embedder": {"kind": "none"},
        "rerank": {"kind": "none"},
        "telemetry": {"host": "127.0.0.1"},
    }


def test_a_replica_that_cannot_start_ends_the_command(away: dict[str, Any], tmp_path: Path) -> None:
    """A health port that is taken is a configuration error: the command says so and ends with 2, without a restart of
    that replica.
    """
    port = free_port(COUNT)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port + 1))
        taken.listen()
        with command(away, tmp_path, port) as running:
            assert running.process.wait(4 * PATIENCE) == 2
            log = running.log.read_text()
    assert f"configuration: telemetry.port: cannot listen on 127.0.0.1:{port + 1}" in log
    assert "Traceback" not in log
    [line] = running.said("replica cannot start: all end")
    assert (line["replica"], line["exit_code"], line["level"]) == ("r-1", 2, "error")
    assert [each["replica"] for each in running.said("replica started")].count("r-1") == 1


def test_replicas_without_a_broker_are_started_again(away: dict[str, Any], tmp_path: Path) -> None:
    """As long as the broker is away each replica ends and is started again; a signal ends the command with 0."""

    def waits(name: str) -> list[float]:
        ends = running.said("replica ended")
        return [each["restart_in_s"] for each in ends if each["replica"] == name and "restart_in_s" in each]

    with command(away, tmp_path, free_port(COUNT)) as running:
        wait_until(lambda: all(len(waits(f"r-{index}")) >= 2 for index in range(COUNT)), 4 * PATIENCE)
        running.process.terminate()
        assert running.process.wait(PATIENCE) == 0
        for index in range(COUNT):
            assert waits(f"r-{index}")[0] == 1
