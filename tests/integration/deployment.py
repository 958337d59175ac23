"""A deployment under test: topics on a real broker, a configuration, and flows as processes of their own."""

import contextlib
import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import kafka
import yaml

from bench.kafka.broker import Broker
from bench.ports import free_port
from operators.wire.message import Origin, result_id
from schemas import headers as names
from tests import warm
from tests.legible import is_plain, legible

PARTITIONS = 4
_CONFIGS = {"watermarks": {"cleanup.policy": "compact"}, "dead_letters": {"max.message.bytes": "1200000"}}
REFUSAL = "refusal"
PATIENCE = 150.0
"""Seconds to wait for what must happen in the end; no test asserts how long it takes."""

Headers = list[tuple[str, bytes]]
Position = tuple[str, int, int]
"""Topic, partition, offset."""


class Origins:
    """Finds a query by its result: that one's id is a hash of the query's place, and the rest may be another's."""

    _BLOCK = 1_000
    _LAST = 200_000

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._known: dict[str, Position] = {}
        self._hashed = 0

    def place(self, result: Mapping[str, Any]) -> Position:
        """The place of the query that this result answers; fails if it is none of a topic's first 200,000 offsets."""
        # Who computed an answer read the same topic.
        topic = result["provenance"]["source"]["topic"]
        while result["result_id"] not in self._known:
            assert self._hashed < self._LAST, f"{result['result_id']} is no place in {topic}"
            for partition in range(self._partitions):
                for offset in range(self._hashed, self._hashed + self._BLOCK):
                    id_ = result_id(Origin(topic, partition, offset, 0))
                    self._known[id_] = (topic, partition, offset)
            self._hashed += self._BLOCK
        return self._known[result["result_id"]]


@dataclass
class OutputRecord:
    """The end of a query: a result, or a dead letter with its class, and with the result that refuses the query."""

    place: Position
    value: dict[str, Any]
    headers: dict[str, bytes]
    kind: str = "result"
    refusal: dict[str, Any] | None = None
    topic: str = ""


@dataclass
class Flow:
    """One flow's process."""

    process: warm.Running
    port: int
    log: Path

    def ready(self) -> bool:
        """True if the health port says that it is in its group."""
        url = f"http://127.0.0.1:{self.port}/readyz"
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=2) as answer:
            status: int = answer.status
            return status == 200
        return False

    def unready(self) -> set[str]:
        """The checks by which the health port says that it is not ready; none where it answers otherwise."""
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=2).close()
        except urllib.error.HTTPError as answer:
            with answer:
                checks: dict[str, bool] = json.load(answer)["checks"]
            return {name for name, holds in checks.items() if answer.status == 503 and not holds}
        except OSError:
            pass
        return set()

    def wait_ready(self) -> Self:
        """Return once it has joined its group; fails with its log if it ends before."""
        wait_until(lambda: self.ready() or self.process.poll() is not None)
        assert self.process.poll() is None, self.log.read_text()
        return self

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        """Ask it to stop; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


def wait_until(done: Any, timeout: float = PATIENCE) -> None:
    """Return once `done()` holds; fails after `timeout` seconds."""
    limit = time.monotonic() + timeout
    while not done():
        assert time.monotonic() < limit, "waited in vain"
        time.sleep(0.05)


@dataclass
class Deployment:
    """Topics and a configuration of one test's own."""

    broker: Broker
    directory: Path
    names: Mapping[str, str]
    settings: dict[str, Any]
    flows: list[Flow] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    origins: Origins = field(default_factory=lambda: Origins(PARTITIONS))

    @classmethod
    @contextlib.contextmanager
    def on(cls, broker: Broker, directory: Path, name: Any, sections: Mapping[str, Any]) -> Iterator[Self]:
        """Make the topics; every process is ended when the block is left."""
        roles = ("queries", "results", "dead_letters", "documents", "watermarks")
        names = {role: name(role.replace("_", "-")) for role in roles}
        settings = {
            "kafka": {"bootstrap_servers": broker.bootstrap, "group_id": name("group"), "topics": names},
            "embedder": {"kind": "none"},
            "rerank": {"kind": "none"},
            "telemetry": {"host": "127.0.0.1"},
            **sections,
        }
        deployment = cls(broker, directory, names, settings)
        broker.create_topics({names[role]: _CONFIGS.get(role, {}) for role in roles}, PARTITIONS)
        try:
            yield deployment
        finally:
            for flow in deployment.flows:
                flow.kill()

    def create(self, role: str, partitions: int = PARTITIONS) -> None:
        """Create the topic of that role."""
        self.broker.create_topic(self.names[role], partitions, _CONFIGS.get(role))

    def start(self, command: str = "run", *, replica: str = "0", wait: bool = True) -> Flow:
        """Start a flow's process; `wait` until it is in its group."""
        number = len(self.flows)
        config = self.directory / f"{number}.yaml"
        config.write_text(yaml.safe_dump(self.settings))
        log = self.directory / f"{number}.log"
        port = free_port()
        environment = {
            **os.environ,
            "RANKSTREAM_DELIVERY__REPLICA": replica,
            "RANKSTREAM_TELEMETRY__PORT": str(port),
            **self.environment,
        }
        with log.open("wb") as out:
            process = warm.start([*command.split(), "--config", str(config)], environment, out)
        flow = Flow(process, port, log)
        self.flows.append(flow)
        return flow.wait_ready() if wait else flow

    def produce(
        self,
        role: str,
        values: Sequence[bytes | None],
        headers: Headers | None = None,
        keys: Sequence[str] | None = None,
    ) -> None:
        """Produce raw values, by these keys or else spread over the partitions, and wait until the broker has them."""
        named = keys if keys is not None else [str(number) for number in range(len(values))]
        producer = kafka.KafkaProducer(bootstrap_servers=self.broker.bootstrap, acks="all", max_request_size=1 << 24)
        sent = [
            producer.send(self.names[role], key=key.encode(), value=value, headers=headers or [])
            for key, value in zip(named, values, strict=True)
        ]
        producer.flush()
        for future in sent:
            future.get(10)
        producer.close()

    def ask(self, events: Sequence[Mapping[str, Any]], headers: Headers | None = None) -> None:
        """Produce query events."""
        self.produce("queries", [json.dumps(event).encode() for event in events], headers)

    def output_records(self, count: int, *, settled: bool = True) -> list[OutputRecord]:
        """The records that a reader of committed records sees once `count` places have a terminal one.

        With `settled`, it reads on until nothing more comes: a second answer to the same query must not be missed. A
        refusal without its dead letter, which is none, comes last and is of the kind `refusal`.
        """

        def enough(found: Sequence[OutputRecord]) -> bool:
            return len({record.place for record in found if record.kind != REFUSAL}) >= count

        return _joined(self._read_until(enough, settled=settled))

    def result(self, query_id: str) -> dict[str, Any]:
        """The result of the query with that id. Records of other queries or of documents are not it."""

        def of_query(found: Sequence[OutputRecord]) -> list[dict[str, Any]]:
            return [record.value for record in found if record.value.get("query_id") == query_id]

        (result,) = of_query(self._read_until(lambda found: bool(of_query(found)), settled=False))
        return result

    def _read_until(self, enough: Callable[[Sequence[OutputRecord]], bool], *, settled: bool) -> list[OutputRecord]:
        chosen = self.settings["kafka"]["topics"].get("reply_to", [])
        consumer = self._reader((self.names["results"], *chosen, self.names["dead_letters"]))
        found: list[OutputRecord] = []
        limit = time.monotonic() + PATIENCE
        quiet = 0
        while time.monotonic() < limit and quiet < (5 if settled else 1):
            polled = consumer.poll(timeout_ms=200)
            found += [self._terminal(record) for records in polled.values() for record in records]
            quiet = quiet + 1 if enough(found) and not (polled and settled) else 0
        consumer.close()
        return found

    def watermarks(self) -> dict[str, str]:
        """The committed watermark of each key that has one."""
        values = {record.key.decode(): record.value for record in self.records("watermarks")}
        return {key: value.decode() for key, value in values.items() if value is not None}

    def records(self, role: str) -> list[Any]:
        """Every committed record of the topic of that role."""
        consumer = self._reader([self.names[role]])
        ends = consumer.end_offsets(list(consumer.assignment()))
        found: list[Any] = []
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            found += [record for polled in consumer.poll(timeout_ms=200).values() for record in polled]
        consumer.close()
        return found

    def places(self, role: str = "queries") -> set[Position]:
        """Every place that the topic holds."""
        consumer = kafka.KafkaConsumer(bootstrap_servers=self.broker.bootstrap)
        partitions = [kafka.TopicPartition(self.names[role], number) for number in range(PARTITIONS)]
        ends = consumer.end_offsets(partitions)
        consumer.close()
        return {(tp.topic, tp.partition, offset) for tp, end in ends.items() for offset in range(end)}

    def _reader(self, topics: Sequence[str]) -> Any:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.broker.bootstrap,
            group_id=None,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        )
        consumer.assign([kafka.TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)])
        return consumer

    def _terminal(self, record: Any) -> OutputRecord:
        headers = dict(record.headers)
        if record.topic == self.names["dead_letters"]:
            place = (
                headers[names.TOPIC].decode(),
                int(headers[names.PARTITION]),
                int(headers[names.OFFSET]),
            )
            return OutputRecord(place, {"raw": record.value}, headers, headers[names.CLASS].decode())
        value = json.loads(record.value)
        result = value.get("data", value)
        kind = REFUSAL if result["status"] == "invalid" else "result"
        return OutputRecord(self.origins.place(result), value, headers, kind, topic=record.topic)


def _joined(found: Sequence[OutputRecord]) -> list[OutputRecord]:
    """The same, with each refusal in the dead letter that it belongs to."""
    letters = {each.place: each for each in found if each.kind not in ("result", REFUSAL)}
    alone = []
    for each in found:
        if each.kind == REFUSAL:
            letter = letters.get(each.place)
            if letter is None or letter.refusal is not None:
                alone.append(each)
            else:
                letter.refusal = each.value
    return [each for each in found if each.kind != REFUSAL] + alone


def assert_each_once(deployment: Deployment, output_records: Sequence[OutputRecord]) -> None:
    """The law: every place of the queries topic has exactly one terminal record, and every legible caller hears."""
    seen = Counter(output_record.place for output_record in output_records)
    places = deployment.places()
    lost = places - seen.keys()
    twice = {place for place, times in seen.items() if times > 1}
    assert not lost, f"{len(lost)} of {len(places)} lost, such as {sorted(lost)[:8]}"
    assert not twice, f"{len(twice)} of {len(places)} answered twice, such as {sorted(twice)[:8]}"
    assert seen.keys() == places
    assert not [each for each in output_records if each.kind == REFUSAL], "a refusal without its dead letter"
    for each in output_records:
        if each.kind != "result" and is_plain(list(each.headers)):
            heard = each.refusal["query_id"] if each.refusal is not None else None
            assert heard == legible(each.value["raw"]), each
