"""Ingestion: document events to the documents topic, and the wait until the indexing flow has applied them."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import orjson

from operators.delivery.client import RecordTooLarge
from operators.delivery.kafka_client import KafkaClient
from operators.delivery.standalone import PlainRecord
from schemas.errors import DeadLetterClass, FatalDelivery, InputError

MAX_UNREAD_BYTES: Final = 8 * 1024 * 1024
"""Document bytes produced and not yet applied, over all partitions."""

_POLL: Final = 0.2

Progress = Callable[[int, int], None]
"""Told (applied, produced) documents from time to time."""


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON Lines file. Raises InputError naming the line that isn't one."""
    return (event for _, event in numbered_jsonl(path))


def numbered_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The same with their lines' numbers, from 1."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                event = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise InputError(DeadLetterClass.NOT_JSON, f"{path}:{number}: {error.msg}") from error
            if not isinstance(event, dict):
                raise InputError(DeadLetterClass.INVALID, f"{path}:{number}: not an object")
            yield number, event


def ingest(
    client: KafkaClient, topic: str, documents: Iterable[Mapping[str, Any]], progress: Progress, timeout: float
) -> int:
    """Produce the documents, keyed by id, and return their number once the client's group has committed every one.

    Never more than MAX_UNREAD_BYTES are on their way. Raises FatalDelivery if nothing moved for `timeout` seconds, for
    a document that is too large for the topic; RetriableDelivery without the topic, or an answer of the broker.
    """
    with closing(client.bounded_reader(topic)) as reader, closing(client.plain_producer()) as producer:
        produced = sent_bytes = 0
        waited = _Waiting(timeout)
        size_of: list[int] = []
        rest = iter(documents)
        document = next(rest, None)
        while True:
            records = []
            while document is not None and sent_bytes < MAX_UNREAD_BYTES:
                value = orjson.dumps(document)
                records.append(PlainRecord(topic, str(document.get("id", "")).encode(), value))
                size_of.append(len(value))
                sent_bytes += len(value)
                produced += 1
                document = next(rest, None)
            try:
                producer.send(records)
            except RecordTooLarge as error:
                raise FatalDelivery(f"{topic}: a document is larger than the topic takes") from error
            behind = sum(reader.ends().values()) - sum(reader.committed().values())
            applied = max(0, produced - behind)
            sent_bytes = sum(size_of[applied:])
            progress(applied, produced)
            if document is None and behind <= 0:
                return produced
            waited.moved(applied)
            time.sleep(_POLL)


class _Waiting:
    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._last = -1
        self._since = time.monotonic()

    def moved(self, position: int) -> None:
        if position != self._last:
            self._last, self._since = position, time.monotonic()
        elif time.monotonic() - self._since > self._timeout:
            raise FatalDelivery(f"no document was applied for {self._timeout:g} s: is the indexing flow running?")
