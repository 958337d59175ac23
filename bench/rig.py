"""The rig: a broker, stub backends, a subject and a load generator, each a process of its own."""

import contextlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Final

import orjson
from confluent_kafka import Producer

from bench.accounting import thread_seconds
from bench.figures import BenchError, Measurement, Phase
from bench.kafka.broker import REPOSITORY, Broker
from bench.profiling import thread_names
from bench.stubs import SERVED
from bench.subject import Launch, Subject, Surroundings, environment
from operators.delivery import topics
from schemas.settings import KafkaSettings, Topics

QDRANT_MS: Final = 10
RERANK_MS: Final = 30

_START_TIMEOUT: Final = 60.0
_STOP_TIMEOUT: Final = 40.0
_LOG_LINES: Final = 20
_LIBRDKAFKA: Final = "librdkafka's"
_NUMBER: Final = re.compile(r"-\d+")


@dataclass(frozen=True, slots=True)
class Child:
    """A process of the rig and the file that it logs to."""

    name: str
    process: subprocess.Popen[str]
    log: Path

    def failure(self, what: str) -> BenchError:
        """An error that ends with the last lines of the log."""
        lines = self.log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return BenchError("\n".join([f"{self.name}: {what}", *lines]))

    def line(self) -> str:
        """The next line that it prints. Raises BenchError if it ends instead."""
        assert self.process.stdout is not None
        if not (line := self.process.stdout.readline()):
            raise self.failure("ended before its answer")
        return line

    def check(self) -> None:
        """Raise BenchError unless it runs."""
        if (status := self.process.poll()) is not None:
            raise self.failure(f"ended with status {status}")


class Running:
    """A subject that takes queries, and the generator of its load."""

    def __init__(self, replicas: Sequence[Child], generator: Child) -> None:
        self._replicas = replicas
        self._generator = generator

    @property
    def pid(self) -> int:
        """The subject's, or its first replica's."""
        return self._replicas[0].process.pid

    def measure(self, phase: Phase) -> Measurement:
        """Load the subject and wait for its answers. Raises BenchError if it or the generator ends, or answers none."""
        stdin = self._generator.process.stdin
        assert stdin is not None
        before = thread_seconds(self.pid)
        stdin.write(orjson.dumps(asdict(phase)).decode() + "\n")
        stdin.flush()
        try:
            measurement = Measurement.of(orjson.loads(self._generator.line()))
        finally:
            for replica in self._replicas:
                replica.check()
        measurement = replace(measurement, threads=self._by_thread(before))
        if not measurement.answered:
            raise self._replicas[0].failure(f"answered none of {measurement.sent} queries")
        return measurement

    def _by_thread(self, before: Mapping[int, tuple[str, float]]) -> dict[str, float]:
        """The CPU time of each thread since; those of one name together, librdkafka's under one."""
        names = thread_names(self.pid)
        spent: dict[str, float] = {}
        for thread, (kernels, seconds) in thread_seconds(self.pid).items():
            # Numbers tell the threads of one kind apart, and differ from start to start.
            name = _LIBRDKAFKA if kernels.startswith("rdk:") else _NUMBER.sub("", names.get(thread, kernels))
            since = seconds - before.get(thread, (kernels, 0.0))[1]
            spent[name] = spent.get(name, 0.0) + since
        return spent


class Rig:
    """A broker and stub backends, on which subjects run, one start after another."""

    def __init__(self, broker: Broker, stubs: Child, directory: Path) -> None:
        self._broker = broker
        self._stubs = stubs
        self._directory = directory
        self._starts = 0
        urls = dict(stubs.line().split() for _ in SERVED)
        self._qdrant, self._rerank, self._embed, self._otlp = (urls[name] for name in SERVED)

    @contextlib.contextmanager
    def running(self, subject: Subject, replicas: int = 1, indexed: int = 0) -> Iterator[Running]:
        """Start the subject on topics of this start alone; end it afterwards. Raises BenchError.

        So many namespaces, which no load asks, have a watermark from the start.
        """
        self._starts += 1
        name = f"{subject.name}-{self._starts}"
        directory = self._directory / name
        kafka = KafkaSettings(
            bootstrap_servers=self._broker.bootstrap,
            group_id=name,
            topics=Topics(
                queries=f"queries-{name}",
                results=f"results-{name}",
                dead_letters=f"dead-letters-{name}",
                documents=f"documents-{name}",
                watermarks=f"watermarks-{name}",
            ),
        )
        topics.create(kafka)
        _publish_watermarks(kafka, indexed)
        with contextlib.ExitStack() as stack:
            children = []
            for number in range(replicas):
                replica = f"bench-{number}"
                place = directory / replica
                place.mkdir(parents=True)
                around = Surroundings(kafka, self._qdrant, self._rerank, self._embed, self._otlp, place, replica)
                launch = subject.launch(around)
                variables = {**environment(), **launch.variables}
                child = stack.enter_context(_child(subject.name, launch.command, place / "log", variables))
                _await_ready(child, launch)
                children.append(child)
            command = [sys.executable, "-m", "bench.load", "--bootstrap", self._broker.bootstrap]
            command += ["--queries", kafka.topics.queries, "--results", kafka.topics.results]
            watched = [f"subject={each.process.pid}" for each in children] + [f"stubs={self._stubs.process.pid}"]
            command += [word for each in watched for word in ("--watch", each)]
            generator = stack.enter_context(_child("load generator", command, directory / "load.log", talk=True))
            generator.line()
            yield Running(children, generator)


def _publish_watermarks(kafka: KafkaSettings, namespaces: int) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "queue.buffering.max.messages": namespaces + 1})
    for number in range(namespaces):
        producer.produce(kafka.topics.watermarks, b"1", b"documents|indexed-%d|0" % number)
    if producer.flush(_START_TIMEOUT):
        raise BenchError("the broker does not take the watermarks in time")


@contextlib.contextmanager
def rig(qdrant_ms: int = QDRANT_MS, rerank_ms: int = RERANK_MS) -> Iterator[Rig]:
    """The rig, with backends that answer after so long, until the block ends. Raises BrokerError and BenchError."""
    with tempfile.TemporaryDirectory(prefix="rankstream-bench-") as scratch, Broker() as broker:
        directory = Path(scratch)
        command = [sys.executable, "-m", "bench.stubs"]
        command += ["--qdrant-latency-ms", str(qdrant_ms), "--rerank-latency-ms", str(rerank_ms)]
        with _child("stub backends", command, directory / "stubs.log", talk=True) as stubs:
            yield Rig(broker, stubs, directory)


@contextlib.contextmanager
def _child(
    name: str, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None, *, talk: bool = False
) -> Iterator[Child]:
    """Run `command` until the block ends, logging to `log`; with `talk`, through pipes and only errors to the log."""
    with log.open("w") as file:
        output: IO[str] | int = subprocess.PIPE if talk else file
        # In a session of its own, so that Ctrl-C ends the bench first and its processes through it.
        process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env=env,
            stdin=subprocess.PIPE if talk else subprocess.DEVNULL,
            stdout=output,
            stderr=file,
            text=True,
            start_new_session=True,
        )
    try:
        yield Child(name, process, log)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def _await_ready(child: Child, launch: Launch) -> None:
    deadline = time.monotonic() + _START_TIMEOUT
    while True:
        child.check()
        try:
            with urllib.request.urlopen(launch.ready, timeout=5):
                return
        except (urllib.error.URLError, OSError) as error:
            if time.monotonic() > deadline:
                raise child.failure(f"not ready in {_START_TIMEOUT:.0f} s: {error}") from error
        time.sleep(0.1)
