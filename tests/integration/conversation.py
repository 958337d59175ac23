"""A running deployment spoken to for a while: what was sent when, what came back when, and how far the index was.

All times are of one steady clock. What is sent is noted before the broker can have it, what comes back after it was
committed: between the two of a query lies everything that happened to it.
"""

import contextlib
import json
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import kafka

from operators.wire.message import Origin, result_id
from schemas import headers as names
from tests.integration.deployment import PARTITIONS, PATIENCE, Deployment, Position

NEVER = float("inf")
HEADER = "x-source"

Message = tuple[list[tuple[str, bytes]], bytes]
"""The headers and the value of a query."""


@dataclass
class Asked:
    """A query, who it is from, and its one terminal record: an answer, or the class of its dead letter."""

    event: dict[str, Any]
    source: str | None = None
    given: "Asked | None" = None
    """The query whose answer its cursor is from."""

    forged: bool = False
    """True if its cursor was changed on the way."""

    attack: str | None = None
    """The form in which it is written; None: in plain JSON."""

    sent: float = 0.0
    place: Position = ("", 0, 0)
    ended: float = NEVER
    answer: dict[str, Any] = field(default_factory=dict)
    refusal: dict[str, Any] = field(default_factory=dict)
    dead: str | None = None

    @property
    def id(self) -> str:
        """Its query_id, which no other has."""
        return str(self.event["query_id"])

    @property
    def computed_at(self) -> Position:
        """The place of the query that its answer was computed for."""
        source = self.answer["provenance"]["source"]
        return source["topic"], source["partition"], source["offset"]


@dataclass
class Written:
    """A document event that was sent."""

    event: dict[str, Any]
    sent: float
    partition: int = -1
    offset: int = -1
    timestamp: int = 0
    """The record's time in ms, its version: by the wall clock, which may go back."""


class Conversation:
    """Sends queries and documents, and follows what the flows commit, on a thread of its own."""

    def __init__(self, system: Deployment) -> None:
        self._names = system.names
        self._bootstrap = system.broker.bootstrap
        self._producer = kafka.KafkaProducer(bootstrap_servers=self._bootstrap, acks="all", linger_ms=1)
        self._marks: dict[str, tuple[list[int], list[float]]] = {}
        self._removals: dict[str, list[float]] = {}
        self._deletions: list[Written] = []
        self._moved = threading.Condition()
        self._over = threading.Event()
        self._problems: list[str] = []
        self.asked: dict[str, Asked] = {}
        self.by_place: dict[Position, Asked] = {}
        self._dead: dict[Position, tuple[str, float]] = {}
        self._refusals: dict[Position, dict[str, Any]] = {}
        self._open = 0
        self._thread = threading.Thread(target=self._follow, name="conversation", daemon=True)

    @classmethod
    @contextlib.contextmanager
    def with_(cls, system: Deployment) -> Iterator[Self]:
        """Begin to follow, and end."""
        conversation = cls(system)
        conversation._thread.start()
        try:
            yield conversation
        finally:
            conversation._over.set()
            conversation._thread.join()
            conversation._producer.close()

    def ask(
        self, queries: Sequence[Asked], write: Callable[[Asked, Message], Message] = lambda _, plain: plain
    ) -> None:
        """Send queries, spread over the partitions, as `write` has them; returns once the broker has them."""
        futures = []
        for query in queries:
            with self._moved:
                self.asked[query.id] = query
                self._open += 1
            headers = [(HEADER, query.source.encode())] if query.source is not None else []
            headers, value = write(query, (headers, json.dumps(query.event).encode()))
            query.sent = time.monotonic()
            futures.append(self._producer.send(self._names["queries"], value=value, headers=headers))
        self._producer.flush()
        for query, future in zip(queries, futures, strict=True):
            sent = future.get(10)
            query.place = (sent.topic, sent.partition, sent.offset)
            self.by_place[query.place] = query

    def write(self, events: Sequence[dict[str, Any]]) -> list[Written]:
        """Send document events, those of one id in this order."""
        written = []
        futures = []
        for event in events:
            written.append(Written(event, time.monotonic()))
            key, value = event.get("id", "").encode(), json.dumps(event).encode()
            futures.append(self._producer.send(self._names["documents"], key=key, value=value))
        self._producer.flush()
        for each, future in zip(written, futures, strict=True):
            sent = future.get(10)
            each.partition, each.offset, each.timestamp = sent.partition, sent.offset, sent.timestamp
        with self._moved:
            self._deletions += [each for each in written if each.event.get("op") == "delete_where"]
        return written

    def acknowledged(self, written: Written, collection: str) -> float:
        """The time when the watermark that counts this document was seen committed; NEVER: it wasn't yet."""
        key = f"{collection}|{written.event['namespace']}|{written.partition}"
        with self._moved:
            offsets, times = self._marks.get(key, ([], []))
            index = bisect_left(offsets, written.offset)
            counted = times[index] if index < len(times) else NEVER
            return min(counted, *(at for at in self._removals.get(key, []) if self._is_done(written, at)), NEVER)

    def _is_done(self, written: Written, at: float) -> bool:
        """True if a watermark that was removed then counts this document: the deletion behind it left nothing.

        Of deletions one is under way at a time.
        """
        return any(
            each.sent < at
            and each.event["namespace"] == written.event["namespace"]
            and each.partition == written.partition
            and each.offset >= written.offset
            for each in self._deletions
        )

    def wait_acknowledged(self, written: Sequence[Written], collection: Mapping[str, str] | str) -> None:
        """Return once these documents are in committed watermarks; `collection`: of all, or by destination."""

        def place(each: Written) -> str:
            return collection if isinstance(collection, str) else collection[each.event["destination"]]

        self.wait(lambda: all(self.acknowledged(each, place(each)) < NEVER for each in written))

    def wait_answered(self) -> None:
        """Return once every query has its terminal record."""
        self.wait(self._settled)

    def wait(self, done: Any) -> None:
        """Return once it holds, looked at whenever something came."""
        limit = time.monotonic() + PATIENCE
        with self._moved:
            while not done():
                assert time.monotonic() < limit, "waited in vain"
                assert not self._problems, self._problems[:5]
                self._moved.wait(0.5)

    def _settled(self) -> bool:
        # Who is refused has both a dead letter and a result; of an attack it may not be legible who that is.
        for place in [place for place in self._dead if place in self.by_place]:
            query = self.by_place[place]
            if place not in self._refusals and query.attack is None:
                continue
            kind, at = self._dead.pop(place)
            query.refusal = self._refusals.get(place, {"error": {"class": kind}})
            assert query.refusal["error"]["class"] == kind, query
            query.dead = kind
            self._end(query, at)
        assert not self._problems, self._problems[:5]
        return self._open == 0

    def _end(self, query: Asked, at: float) -> None:
        if query.ended < NEVER:
            self._problems.append(f"{query.id} has two terminal records")
        query.ended = at
        self._open -= 1

    def _follow(self) -> None:
        topics = [self._names[role] for role in ("results", "dead_letters", "watermarks")]
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=None,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        )
        consumer.assign([kafka.TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)])
        while not self._over.is_set():
            polled = consumer.poll(timeout_ms=100, max_records=5000)
            at = time.monotonic()
            with self._moved:
                for records in polled.values():
                    for record in records:
                        self._take(record, at)
                self._moved.notify_all()
        consumer.close()

    def _take(self, record: Any, at: float) -> None:
        if record.topic == self._names["watermarks"]:
            if record.value is None:
                self._removals.setdefault(record.key.decode(), []).append(at)
                return
            offsets, times = self._marks.setdefault(record.key.decode(), ([], []))
            offsets.append(int(record.value))
            times.append(at)
        elif record.topic == self._names["dead_letters"]:
            headers = dict(record.headers)
            self._dead[_place(headers)] = headers[names.CLASS].decode(), at
        else:
            answer = json.loads(record.value)
            if answer["status"] == "invalid":
                source = answer["provenance"]["source"]
                place = source["topic"], source["partition"], source["offset"]
                if place in self._refusals:
                    self._problems.append(f"{place} is refused twice")
                self._refusals[place] = answer
                return
            query = self.asked[answer["query_id"]]
            query.answer = answer
            self._end(query, at)


def _place(headers: Mapping[str, bytes]) -> Position:
    partition, offset = headers[names.PARTITION], headers[names.OFFSET]
    return headers[names.TOPIC].decode(), int(partition), int(offset)


def is_its_own(query: Asked) -> bool:
    """True if the fields that every query has of its own are this query's."""
    own = result_id(Origin(*query.place, 0)), query.event.get("metadata")
    return (query.answer["result_id"], query.answer["metadata"]) == own
