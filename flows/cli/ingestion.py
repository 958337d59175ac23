"""Ingestion: document events to the documents topic, and the wait until the indexing flow has dealt with each."""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from flows.cli.dead_letters import dead_letters
from operators.delivery.client import KafkaClient, PlainRecord, RecordRefused
from schemas.errors import DeadLetterClass, FatalDelivery, InputError
from schemas.settings import Topics

MAX_UNREAD_BYTES: Final = 8 * 1024 * 1024
"""Document bytes produced and not yet applied, over all partitions."""

_POLL: Final = 0.2

_SETTLES: Final = 0.5
"""Seconds. A transaction's end is written to one partition after the other: its offsets may be there before its dead
letters are."""

_HEADER: Final = "rankstream.ingestion"
"""Says in a record, and so in its dead letter, which ingestion sent it, and the document's number."""

Progress = Callable[[int, int], None]
"""Told (done, produced) documents from time to time."""

Numbered = tuple[int, Mapping[str, Any]]
"""A document and its number, such as its line in a file."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A document that the indexing flow rejected: its number, its id, and the dead letter's class and reason."""

    line: int
    id: str
    kind: str
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}, document {self.id or 'without id'}: {self.kind}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Ingested:
    """How many documents were sent, and which of them were rejected."""

    sent: int
    rejected: Sequence[Rejection]

    @property
    def applied(self) -> int:
        """How many are in the index now, or replaced by a later version."""
        return self.sent - len(self.rejected)


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
                raise InputError(DeadLetterClass.NOT_JSON, f"{path}:{number}: not JSON: {error.msg}") from error
            if not isinstance(event, dict):
                raise InputError(DeadLetterClass.INVALID, f"{path}:{number}: not an object")
            yield number, event


def ingest(
    client: KafkaClient, topics: Topics, documents: Iterable[Numbered], progress: Progress, timeout: float
) -> Ingested:
    """Produce the documents, keyed by id, and return what became of them, once the client's group has committed all.

    Never more than MAX_UNREAD_BYTES are on their way. Raises FatalDelivery if nothing moved for `timeout` seconds, for
    a document that is too large for the topic; RetriableDelivery without a topic, or an answer of the broker.
    """
    own = uuid.uuid4().hex
    with closing(client.bounded_reader(topics.dead_letters, from_end=True)) as letters:
        sent = _sent(client, topics.documents, documents, own, progress, timeout)
        time.sleep(_SETTLES)
        rejected = [
            Rejection(int(number), (letter.key or b"").decode("utf-8", "replace"), letter.kind, letter.message)
            for letter in dead_letters(letters, lambda *_: None)
            if letter is not None
            for name, value in letter.headers
            if name == _HEADER
            for ingestion, _, number in [value.decode("ascii", "replace").partition(":")]
            if ingestion == own
        ]
    return Ingested(sent, sorted(rejected, key=lambda each: each.line))


def _sent(
    client: KafkaClient, topic: str, documents: Iterable[Numbered], own: str, progress: Progress, timeout: float
) -> int:
    with closing(client.bounded_reader(topic)) as reader, closing(client.plain_producer()) as producer:
        produced = sent_bytes = 0
        waited = _Waiting(timeout)
        size_of: list[int] = []
        rest = iter(documents)
        following = next(rest, None)
        while True:
            records = []
            while following is not None and sent_bytes < MAX_UNREAD_BYTES:
                number, document = following
                value = orjson.dumps(document)
                headers = ((_HEADER, f"{own}:{number}".encode()),)
                records.append(PlainRecord(topic, str(document.get("id", "")).encode(), value, headers))
                size_of.append(len(value))
                sent_bytes += len(value)
                produced += 1
                following = next(rest, None)
            try:
                producer.send(records)
            except RecordRefused as error:
                raise FatalDelivery(f"{topic}: a document {error.refusal.why}") from error
            behind = sum(reader.ends().values()) - sum(reader.committed().values())
            done = max(0, produced - behind)
            sent_bytes = sum(size_of[done:])
            progress(done, produced)
            if following is None and behind <= 0:
                return produced
            waited.moved(done)
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
