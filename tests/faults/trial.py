"""A trial: one scenario's surroundings while it acts, and the account of it afterwards."""

import contextlib
import random
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from bench.kafka.broker import Broker
from bench.stubs import DIMENSION, Stubs
from tests.faults.fleet import Fleet
from tests.faults.law import Asked, OutputRecord, Place
from tests.faults.load import RATE, Load
from tests.faults.reader import Reader, contents
from tests.faults.volume import Volume
from tests.integration.deployment import Deployment, wait_until
from tests.kafka.interceptor import Interceptor
from tests.proxy import Proxy

RECOVERY: Final = 100.0
"""Seconds that a flow may be silent: its watchdog's, and a start. How long it was is in the table."""

_LOOK: Final = 0.1


@dataclass(frozen=True, slots=True)
class Host:
    """A broker; where there is one, the proxy between it and the flow; and the small volume with its logs."""

    broker: Broker
    link: Proxy | None = None
    volume: Volume | None = None


@dataclass
class Trial:
    """The objects that a scenario acts on."""

    client: str
    host: Host
    backends: Mapping[str, Proxy]
    deployment: Deployment
    fleet: Fleet
    load: Load
    reader: Reader
    rng: random.Random
    directory: Path
    seconds: float | None = None
    """The length of a fault that has no end of its own; None for as long as it lasts by itself."""
    figures: dict[str, str] = field(default_factory=dict)
    """The scenario's measurements, by name."""

    @property
    def broker(self) -> Broker:
        """The broker."""
        return self.host.broker

    @property
    def network(self) -> Proxy:
        """The proxy between the flow and the broker."""
        assert self.host.link is not None, "the scenario isn't proxied"
        return self.host.link

    @property
    def wire(self) -> Interceptor:
        """The same, where it reads frames."""
        assert isinstance(self.host.link, Interceptor), "the scenario isn't intercepted"
        return self.host.link

    @property
    def disk(self) -> Volume:
        """The directory of the broker's logs."""
        assert self.host.volume is not None, "the scenario has no volume"
        return self.host.volume

    def topic(self, role: str) -> str:
        """The name of the topic of that role."""
        return self.deployment.names[role]

    def alter(self, role: str, config: str, value: int) -> None:
        """Set a configuration of the topic of that role."""
        self.broker.alter_topic(self.topic(role), config, str(value))

    def asked(self) -> dict[Place, Asked]:
        """Every message of the queries topic."""
        return contents(self.broker.bootstrap, self.topic("queries"))

    def answers(self, since: float) -> list[OutputRecord]:
        """The results that have arrived since then, in Unix seconds."""
        return [
            output_record
            for output_record in list(self.reader.output_records)
            if output_record.arrival >= since and not output_record.dead
        ]

    def await_full_answer(self, since: float) -> None:
        """Return once a query is answered in full that was answered after `since`, in Unix seconds.

        A busy machine loses parts of answers to time-outs for as long as all of the load goes on: it is eased.
        """
        self.load.stop()
        self.load.start(RATE / 4)
        wait_until(lambda: any(answer.kind == "ok" for answer in self.answers(since)), RECOVERY)

    def replaced(self) -> int:
        """The number of times that a process has replaced its producer, by the logs."""
        return sum(log.read_text(errors="replace").count("producer replaced") for log in self.fleet.logs())

    def await_answer(self) -> None:
        """Return once another record has arrived."""
        count = len(self.reader.output_records)
        wait_until(lambda: len(self.reader.output_records) > count, RECOVERY)

    def await_all(self) -> None:
        """Return once all that was asked until now is answered, or after RECOVERY without another answer."""
        asked = self.asked().keys()
        heard, count = time.monotonic(), -1
        while time.monotonic() - heard < RECOVERY:
            self.reader.check()
            output_records = list(self.reader.output_records)
            if len(output_records) != count:
                heard, count = time.monotonic(), len(output_records)
                if asked <= {output_record.place for output_record in output_records if not output_record.refusal}:
                    return
            time.sleep(_LOOK)


@contextlib.contextmanager
def trial(
    client: str, host: Host, stubs: Stubs, settings: Mapping[str, Any], seed: int, seconds: float | None
) -> Iterator[Trial]:
    """Topics, proxies before the backends, a fleet without a process, a load that is off, and a reader."""
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rankstream-faults-")))
        backends, urls = {}, {}
        for name, url in (("qdrant", stubs.qdrant), ("embedder", stubs.embed), ("reranker", stubs.rerank)):
            parts = urlsplit(url)
            assert parts.hostname is not None
            assert parts.port is not None
            backends[name] = stack.enter_context(Proxy(parts.hostname, parts.port))
            urls[name] = f"http://127.0.0.1:{backends[name].port}"
        sections = {
            "qdrant": {"url": urls["qdrant"], "dimension": DIMENSION},
            "embedder": {"kind": "openai", "url": urls["embedder"]},
            "rerank": {"kind": "cohere", "url": urls["reranker"]},
            "limits": {"timeout": 60},
        }
        deployment = stack.enter_context(Deployment.on(host.broker, directory, _names(), sections))
        if host.link is not None:
            deployment.settings["kafka"]["bootstrap_servers"] = f"127.0.0.1:{host.link.port}"
        deployment.settings["kafka"]["client"] = client
        for section, values in settings.items():
            deployment.settings[section] = {**deployment.settings.get(section, {}), **values}
        results, letters = deployment.names["results"], deployment.names["dead_letters"]
        reader = stack.enter_context(Reader(host.broker.bootstrap, results, letters))
        load = stack.enter_context(Load(host.broker.bootstrap, deployment.names["queries"]))
        fleet = stack.enter_context(Fleet(deployment))
        yield Trial(client, host, backends, deployment, fleet, load, reader, random.Random(seed), directory, seconds)


def _names() -> Callable[[str], str]:
    unique = uuid.uuid4().hex[:8]
    return lambda word: f"{word}-{unique}"
