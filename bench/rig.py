"""The rig: a broker, stub backends, a subject and a load generator, each a process of its own."""

import contextlib
import re
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

import orjson
from confluent_kafka import Producer

from bench.accounting import thread_seconds
from bench.child import Child, running_child
from bench.figures import BenchError, Measurement, Phase
from bench.footprint import footprint
from bench.indexing import Indexing
from bench.kafka.broker import Broker
from bench.profiling import thread_names
from bench.stubs import SERVED
from bench.subject import Launch, Subject, Surroundings, environment
from operators.delivery import topics
from schemas.settings import KafkaSettings, Topics

QDRANT_MS: Final = 10
RERANK_MS: Final = 30
EMBED_MS: Final = 5

_START_TIMEOUT: Final = 60.0
_LIBRDKAFKA: Final = "librdkafka's"
_NUMBER: Final = re.compile(r"-\d+")


class Running:
    """A subject that takes queries, and the generator of its load."""

    def __init__(self, replicas: Sequence[Child], generator: Child) -> None:
        self._replicas = replicas
        self._generator = generator

    @property
    def pid(self) -> int:
        """The subject's, or its first replica's."""
        return self._replicas[0].process.pid

    def resident_mb(self) -> float:
        """The memory of all replicas now. Raises OSError if one is gone."""
        return sum(footprint(replica.process.pid)["rss_mb"] for replica in self._replicas)

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
    """A broker and stub backends, on which subjects run, one start after another.

    `qdrant`: address of a real server in place of the stub; queries are then of the corpus.
    """

    def __init__(self, broker: Broker, stubs: Child, directory: Path, qdrant: str | None = None) -> None:
        self._broker = broker
        self._real = qdrant is not None
        self._stubs = stubs
        self._directory = directory
        self._starts = 0
        urls = dict(stubs.line().split() for _ in SERVED)
        self._qdrant, self._rerank, self._embed, self._otlp = (urls[name] for name in SERVED)
        self._qdrant = qdrant or self._qdrant

    @contextlib.contextmanager
    def running(
        self,
        subject: Subject,
        replicas: int = 1,
        watermarks: Sequence[str] = (),
        partitions: int | None = None,
        asked: Path | None = None,
    ) -> Iterator[Running]:
        """Start the subject on topics of this start alone, with a load; end it afterwards. Raises BenchError.

        The namespaces in `watermarks` have one from the start. `partitions`: of the topic of queries, as many as the
        other topics have by default. The load asks the queries of the file `asked`, if there is one.
        """
        with self._started(subject, replicas, watermarks, partitions) as (children, kafka, directory):
            command = [sys.executable, "-m", "bench.load", "--bootstrap", self._broker.bootstrap]
            command += ["--queries", kafka.topics.queries, "--results", kafka.topics.results]
            if self._real or subject.corpus:
                command += ["--corpus", "texts" if subject.embeds else "vectors"]
            if asked is not None:
                command += ["--asked", str(asked)]
            watched = [f"subject={each.process.pid}" for each in children]
            watched += [f"stubs={self._stubs.process.pid}", f"broker={self._broker.pid}"]
            command += [word for each in watched for word in ("--watch", each)]
            with running_child("load generator", command, directory / "load.log", talk=True) as generator:
                generator.line()
                yield Running(children, generator)

    @contextlib.contextmanager
    def indexing(self, subject: Subject) -> Iterator[Indexing]:
        """Start an indexer on topics of this start alone; end it afterwards. Raises BenchError."""
        with self._started(subject) as ([child], kafka, _), contextlib.closing(Indexing(child, kafka)) as indexing:
            yield indexing

    @contextlib.contextmanager
    def _started(
        self,
        subject: Subject,
        replicas: int = 1,
        watermarks: Sequence[str] = (),
        partitions: int | None = None,
    ) -> Iterator[tuple[list[Child], KafkaSettings, Path]]:
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
        if partitions is not None:
            self._broker.create_topic(kafka.topics.queries, partitions)
        topics.create(kafka)
        _publish_watermarks(kafka, watermarks)
        with contextlib.ExitStack() as stack:
            children = []
            for number in range(replicas):
                replica = f"bench-{number}"
                place = directory / replica
                place.mkdir(parents=True)
                around = Surroundings(kafka, self._qdrant, self._rerank, self._embed, self._otlp, place, replica)
                launch = subject.launch(around)
                variables = {**environment(), **launch.variables}
                child = stack.enter_context(running_child(subject.name, launch.command, place / "log", variables))
                _await_ready(child, launch)
                children.append(child)
            yield children, kafka, directory


def _publish_watermarks(kafka: KafkaSettings, namespaces: Sequence[str]) -> None:
    room = {"queue.buffering.max.messages": len(namespaces) + 1}
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **room})
    for namespace in namespaces:
        producer.produce(kafka.topics.watermarks, b"1", f"documents|{namespace}|0".encode())
    if producer.flush(_START_TIMEOUT):
        raise BenchError("the broker does not take the watermarks in time")


@contextlib.contextmanager
def rig(qdrant_ms: int = QDRANT_MS, rerank_ms: int = RERANK_MS, qdrant: str | None = None) -> Iterator[Rig]:
    """The rig, with backends that answer after so long, or a Qdrant server at an address, until the block ends.

    Raises BrokerError and BenchError.
    """
    with tempfile.TemporaryDirectory(prefix="rankstream-bench-") as scratch, Broker() as broker:
        directory = Path(scratch)
        command = [sys.executable, "-m", "bench.stubs"]
        command += ["--qdrant-latency-ms", str(qdrant_ms), "--rerank-latency-ms", str(rerank_ms)]
        command += ["--embed-latency-ms", str(EMBED_MS)]
        with running_child("stub backends", command, directory / "stubs.log", talk=True) as stubs:
            yield Rig(broker, stubs, directory, qdrant)


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
