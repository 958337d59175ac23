"""The load generator, a process of its own: sends queries at their time, whatever has become of those before.

A latency is from the time that a query was due to the arrival of its result at a consumer of committed records that
hands over each as it comes.

It reads phases from its input, one JSON object a line, and writes a measurement for each.
"""

import argparse
import gc
import itertools
import math
import os
import sys
import threading
import time
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, get_args

import orjson
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from bench.accounting import machine_seconds, process_seconds
from bench.corpus import corpus_events
from bench.events import given_events, query_events, repeated_events
from bench.figures import Measurement, Phase
from operators.wire.message import Origin, result_id
from schemas.result import RetrievalStage

Corpus = Literal["vectors", "texts"]

PATIENCE: Final = 30.0
"""Seconds without an answer after which the rest counts as lost."""

COMPUTED: Final = "computed"
SHARED: Final = "shared"
PASSED_BY: Final = "passed_by"
_CACHES: Final = frozenset({RetrievalStage.EXACT_CACHE, RetrievalStage.SEMANTIC_CACHE})

_QUIET: Final = 1.0
"""Seconds to wait, after the last answer, for second ones."""

_CONNECT: Final = 0.5
_POLL: Final = 0.1
_REQUEST: Final = 10.0


@dataclass(slots=True)
class _Tally:
    """The answers; for each query its arrival, NaN until then, in eight bytes: a load may be long."""

    run: str
    expected: int
    arrivals: "array[float]"
    explained: bool
    ranked: list[list[str]]
    answered: int = 0
    twice: set[int] = field(default_factory=set)
    statuses: Counter[str] = field(default_factory=Counter)
    served: Counter[str] = field(default_factory=Counter)
    result_bytes: int = 0
    last_arrival: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)
    failure: Exception | None = None
    complete: threading.Event = field(default_factory=threading.Event)

    def add(self, value: bytes, arrival: float) -> None:
        result = orjson.loads(value)
        run, _, digits = result["query_id"].rpartition("-")
        if run != self.run:
            return
        number = int(digits)
        if not math.isnan(self.arrivals[number]):
            self.twice.add(number)
            return
        self.arrivals[number] = self.last_arrival = arrival
        self.answered += 1
        self.statuses[result["status"]] += 1
        if self.explained:
            self.served[served(result)] += 1
            self.result_bytes += len(value)
        if self.ranked:
            self.ranked[number] = [hit["id"] for hit in result["results"]]


class Meter:
    """Sends to one topic, reads another, and watches what the processes between the two cost."""

    def __init__(
        self,
        bootstrap: str,
        queries: str,
        results: str,
        watched: Mapping[str, Sequence[int]],
        corpus: Corpus | None = None,
        asked: Path | None = None,
    ) -> None:
        self._corpus = corpus
        self._asked = [orjson.loads(line) for line in asked.open("rb")] if asked is not None else []
        self._watched = {**watched, "load": [os.getpid()]}
        self._queries = queries
        self._runs = itertools.count(1)
        # Nagle's algorithm and lingering would add waits that are the meter's own.
        connection = {"bootstrap.servers": bootstrap, "socket.nagle.disable": True}
        self._failed: Exception | None = None
        self._producer = Producer({**connection, "linger.ms": 0, "acks": "all"})
        self._producer.list_topics(queries, timeout=_REQUEST)
        self._consumer = Consumer(
            {
                **connection,
                "group.id": "bench-meter",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.min.bytes": 1,
                # A full queue is looked at again at once, not after a second.
                "fetch.queue.backoff.ms": 5,
            }
        )
        partitions = self._consumer.list_topics(results, timeout=_REQUEST).topics[results].partitions
        starts = []
        for partition in partitions:
            _, end = self._consumer.get_watermark_offsets(TopicPartition(results, partition), timeout=_REQUEST)
            starts.append(TopicPartition(results, partition, end))
        self._consumer.assign(starts)
        self._consumer.poll(_CONNECT)

    def measure(self, phase: Phase) -> Measurement:
        """Load, wait for every answer, or PATIENCE for the next, then for second ones. Raises KafkaException."""
        run = f"run{next(self._runs)}"
        events = self._events(run, phase)
        interval = 0.0
        if phase.rate is None:
            # A burst is made before it is sent; else each query is made while its time hasn't come.
            events = list(events)
        else:
            interval = 1 / phase.rate
        arrivals = array("d", [math.nan]) * phase.count
        ranked: list[list[str]] = [[]] * phase.count if phase.ranked else []
        tally = _Tally(run, phase.count, arrivals, phase.texts is not None, ranked)
        stop = threading.Event()
        reader = threading.Thread(target=self._read, args=(tally, stop), daemon=True)
        reader.start()
        before = self._cpu()
        start = tally.last_arrival = time.perf_counter()
        lateness = self._send(events, start, interval, tally)
        tally.expected = len(lateness)
        self._await_answers(tally)
        after = tally.cpu or self._cpu()
        time.sleep(_QUIET)
        stop.set()
        reader.join()
        if failure := tally.failure or self._failed:
            raise failure
        return Measurement(
            sent=len(lateness),
            answered=tally.answered,
            twice=len(tally.twice),
            statuses=dict(tally.statuses),
            seconds=tally.last_arrival - start,
            cpu={name: after[name] - spent for name, spent in before.items()},
            latencies_ms=[
                None if math.isnan(arrival) else 1000 * (arrival - start - number * interval)
                for number, arrival in enumerate(tally.arrivals[: len(lateness)])
            ],
            lateness_ms=lateness.tolist(),
            served=dict(tally.served),
            result_bytes=tally.result_bytes,
            ranked=tally.ranked,
        )

    def close(self) -> None:
        """Leave the broker."""
        self._producer.flush(_REQUEST)
        self._consumer.close()

    def _events(self, run: str, phase: Phase) -> Iterable[tuple[bytes, bytes]]:
        if self._asked:
            return given_events(run, self._asked, phase.texts or range(phase.count), phase.limit)
        if phase.texts is not None:
            return repeated_events(run, phase.texts)
        if self._corpus is not None:
            return corpus_events(run, phase.count, phase.limit, vectors=self._corpus == "vectors")
        return query_events(run, phase.count, phase.limit, phase.namespaces)

    def _send(
        self, events: Iterable[tuple[bytes, bytes]], start: float, interval: float, tally: _Tally
    ) -> "array[float]":
        """Send each event at its time, unless nothing comes back any more; by how many ms each was late."""
        lateness = array("d")
        for number, (key, value) in enumerate(events):
            due = start + number * interval
            while (wait := due - time.perf_counter()) > 0:
                time.sleep(wait)
            if interval and due - tally.last_arrival > PATIENCE + interval:
                break
            lateness.append(-1000 * wait)
            self._producer.produce(self._queries, value, key, on_delivery=self._delivered)
            self._producer.poll(0)
        return lateness

    def _await_answers(self, tally: _Tally) -> None:
        heard = time.perf_counter()
        while not tally.complete.wait(_POLL):
            self._producer.poll(0)
            heard = max(heard, tally.last_arrival)
            if time.perf_counter() - heard > PATIENCE:
                return

    def _read(self, tally: _Tally, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                # `consume` waits until it has as many as it may return: the first comes by `poll`, which doesn't, and
                # only what is there already comes with it.
                first = self._consumer.poll(_POLL)
                if first is None:
                    continue
                rest = self._consumer.consume(500, 0)
                arrival = time.perf_counter()
                for message in (first, *rest):
                    tally.add(_value(message), arrival)
                if tally.answered == tally.expected and not tally.complete.is_set():
                    tally.cpu = self._cpu()
                    tally.complete.set()
        except Exception as error:  # noqa: BLE001  it is the sending thread's to raise
            tally.failure = error
            tally.complete.set()

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failed = KafkaException(error)

    def _cpu(self) -> dict[str, float]:
        spent = {name: sum(map(process_seconds, pids)) for name, pids in self._watched.items()}
        return {**spent, "machine": machine_seconds()}


def served(result: Mapping[str, Any]) -> str:
    """The origin of an answer, as it says itself: the cache that it is from, or else `shared` with another query that
    was under way, or `computed`, or computed because it wasn't known how far the index is: the caches were `passed_by`.
    """
    stage: str | None = result.get("retrieval_stage")
    if stage is None:
        # A service written by hand, which has no caches.
        return COMPUTED
    if stage in _CACHES:
        return stage
    # Of the query that the answer was computed for.
    provenance = result["provenance"]
    if result_id(Origin(**provenance["source"], epoch=0)) != result["result_id"]:
        return SHARED
    return PASSED_BY if provenance["index_watermark"] is None else COMPUTED


def _value(message: Any) -> bytes:
    if (error := message.error()) is not None:
        raise KafkaException(error)
    value: bytes = message.value()
    return value


def main() -> None:
    """Measure each phase of the input until it ends."""
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=main.__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--queries", required=True, help="the topic to send to")
    parser.add_argument("--results", required=True, help="the topic to read")
    parser.add_argument(
        "--watch",
        action="append",
        default=[],
        metavar="NAME=PID",
        help="a process to account for; those of a name together",
    )
    parser.add_argument("--corpus", choices=get_args(Corpus), help="ask the corpus, with vectors or by texts alone")
    parser.add_argument("--asked", type=Path, help="ask the queries of this file, JSON Lines")
    arguments = parser.parse_args()
    watched: dict[str, list[int]] = {}
    for name, _, pid in (each.partition("=") for each in arguments.watch):
        watched.setdefault(name, []).append(int(pid))
    # Nothing here makes cycles, and a collection would be a pause in somebody's latency.
    gc.disable()
    meter = Meter(arguments.bootstrap, arguments.queries, arguments.results, watched, arguments.corpus, arguments.asked)
    print("ready", flush=True)
    for line in sys.stdin:
        measurement = meter.measure(Phase(**orjson.loads(line)))
        print(orjson.dumps(measurement).decode(), flush=True)
    meter.close()


if __name__ == "__main__":
    main()
