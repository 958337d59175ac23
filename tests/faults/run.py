"""Running scenarios: the brokers and the stub backends that they share, and from each a row of the table."""

import contextlib
import itertools
import subprocess
import sys
import time
import traceback
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.kafka.broker import REPOSITORY, Broker
from bench.ports import free_port
from bench.stubs import Stubs
from tests.faults.law import account
from tests.faults.reader import longest_gap
from tests.faults.scenario import Scenario
from tests.faults.trial import Host, Trial, trial
from tests.faults.volume import CannotMount, Volume
from tests.kafka.interceptor import Interceptor
from tests.proxy import Proxy

CLIENTS: Final = ("kafka-python", "librdkafka")
LINK_LATENCY: Final = 0.05

_SECOND_ANSWERS: Final = 1.5
"""Seconds to wait for them."""
_BROKEN: Final = REPOSITORY / ".cache" / "faults"
"""The directory of the logs of a row that is broken."""
_NAMES: Final = "abcdefgh"
_QDRANT_MS, _RERANK_MS, _EMBED_MS = 10, 30, 5


@dataclass(frozen=True, slots=True)
class Row:
    """The outcome of a scenario with one client; `breaches` is empty if it kept its promise and the law."""

    scenario: str
    kind: str
    client: str
    asked: int = 0
    results: int = 0
    dead_letters: int = 0
    lost: int = 0
    twice: int = 0
    outage_s: float = 0.0
    memory_mb: float = 0.0
    restarts: int = 0
    seconds: float = 0.0
    kinds: dict[str, int] = field(default_factory=dict)
    figures: dict[str, str] = field(default_factory=dict)
    breaches: list[str] = field(default_factory=list)
    skipped: str | None = None

    @property
    def held(self) -> bool:
        """True if nothing was broken."""
        return not self.breaches

    def as_json(self) -> dict[str, Any]:
        """All of it, as JSON's types."""
        return asdict(self)


class Surroundings:
    """The servers that scenarios share: stub backends, and two unharmed brokers, one behind an interceptor."""

    def __init__(
        self, stubs: Stubs, stack: contextlib.ExitStack, transactions: int | None, shared: Broker | None
    ) -> None:
        self._stubs = stubs
        self._transactions = transactions
        self._stack = stack
        self._shared = shared
        self._intercepted: Host | None = None

    def run(self, scenario: Scenario, client: str, logs: Path | None = None, seconds: float | None = None) -> Row:
        """Do it, for `seconds` where it has no end of its own; the row. What a scenario raises is a breach, too."""
        began = time.monotonic()
        try:
            with self._hosting(scenario) as host:
                seed = zlib.crc32(scenario.name.encode())
                if isinstance(host.link, Interceptor):
                    host.link.reset()
                with trial(client, host, self._stubs, scenario.settings, seed, seconds) as run:
                    breaches = _act(run, scenario)
                    row = _row(run, scenario, breaches, time.monotonic() - began)
                    if logs is not None or row.breaches:
                        _keep(run, (logs or _BROKEN) / f"{scenario.name}-{client}-{int(began)}")
                    return row
        except CannotMount as reason:
            return Row(scenario.name, scenario.kind, client, skipped=str(reason))

    @contextlib.contextmanager
    def _interception(self) -> Iterator[Host]:
        target = free_port()
        with (
            Interceptor("127.0.0.1", target) as link,
            Broker(proxied=(target, link.port), transaction_version=self._transactions) as broker,
        ):
            yield Host(broker, link=link)

    @contextlib.contextmanager
    def _hosting(self, scenario: Scenario) -> Iterator[Host]:
        match scenario.broker:
            case "shared":
                if self._shared is None:
                    self._shared = self._stack.enter_context(Broker())
                yield Host(self._shared)
            case "own":
                with Broker() as broker:
                    yield Host(broker)
            case "proxied":
                target = free_port()
                with Proxy("127.0.0.1", target, LINK_LATENCY) as link, Broker(proxied=(target, link.port)) as broker:
                    yield Host(broker, link=link)
            case "intercepted":
                if self._intercepted is None:
                    self._intercepted = self._stack.enter_context(self._interception())
                yield self._intercepted
            case "volume":
                with Volume() as volume, Broker(data=volume.path / "data") as broker:
                    yield Host(broker, volume=volume)


@contextlib.contextmanager
def surroundings(transactions: int | None = None, shared: Broker | None = None) -> Iterator[Surroundings]:
    """Stub backends as a process of their own, and a broker once one is needed.

    `transactions`: the broker's transaction version where requests are intercepted, None for the newest; `shared`: the
    broker that no scenario hurts, None for one of its own.
    """
    command = [sys.executable, "-m", "bench.stubs", "--qdrant-latency-ms", str(_QDRANT_MS)]
    command += ["--rerank-latency-ms", str(_RERANK_MS), "--embed-latency-ms", str(_EMBED_MS)]
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True))
        stack.callback(process.terminate)
        assert process.stdout is not None
        urls = dict(line.split() for line in itertools.islice(process.stdout, 3))
        yield Surroundings(Stubs(urls["qdrant"], urls["rerank"], urls["embed"]), stack, transactions, shared)


def _act(run: Trial, scenario: Scenario) -> list[str]:
    """Let it act under load and wait until all is answered; what went wrong on the way."""
    breaches = []
    try:
        for name in _NAMES[: scenario.replicas]:
            run.fleet[name].start(wait=False)
        run.fleet.wait_ready()
        if scenario.rate is not None:
            run.load.start(scenario.rate)
            run.await_answer()
        scenario.act(run)
    except Exception as error:  # noqa: BLE001  the row says so
        breaches.append(f"{_place(error)}: {type(error).__name__}: {error}")
    try:
        run.load.stop()
        run.fleet.wait_ready()
        run.await_all()
        ends = {replica.name: replica.stop() for replica in run.fleet.wanted}
        breaches += [f"{name} exited {status} at SIGTERM" for name, status in ends.items() if status]
        time.sleep(_SECOND_ANSWERS)
    except Exception as error:  # noqa: BLE001  the row says so
        breaches.append(f"{_place(error)}: {type(error).__name__}: {error}")
    return breaches


def _row(run: Trial, scenario: Scenario, breaches: list[str], seconds: float) -> Row:
    output_records = list(run.reader.output_records)
    found = account(run.asked(), output_records, scenario.refused)
    return Row(
        scenario.name,
        scenario.kind,
        run.client,
        asked=found.asked,
        results=found.results,
        dead_letters=found.dead_letters,
        lost=len(found.lost),
        twice=len(found.twice),
        outage_s=round(longest_gap((output_record.arrival for output_record in output_records), run.load.stretches), 2),
        memory_mb=round(run.fleet.memory / 2**20, 1),
        restarts=run.fleet.restarts,
        seconds=round(seconds, 1),
        kinds=dict(found.kinds),
        figures=run.figures,
        breaches=[*found.breaches(), *breaches],
    )


def _place(error: Exception) -> str:
    """The scenario's own line, or else the last one."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "catalogue" in frame.filename]
    frame = (own or frames)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"


def _keep(run: Trial, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for log in run.fleet.logs():
        (directory / log.name).write_bytes(log.read_bytes())
    if isinstance(run.host.link, Interceptor):
        (directory / "wire.log").write_text("\n".join(run.host.link.seen))
    (directory / "broker.log").write_bytes(run.broker.log_path.read_bytes())
