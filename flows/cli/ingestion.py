"""Ingestion: document events to the documents topic, and the wait until the indexing flow has dealt with each.

An embedded index that holds the corpus already is left as it is.
"""

import hashlib
import math
import time
import uuid
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
from rich.console import Console

from flows.assembly.delivery import ENDS_TIMEOUT, connect
from flows.cli.output import progress, say
from flows.process.embedded import Embedded
from operators.delivery.client import ConsumerRecord, KafkaClient, ProducerRecord, RecordRefused, TopicReader
from operators.delivery.replay import DeadLetter
from operators.mapping.rows import id_of, read_row
from schemas.document import DELETE_WHERE
from schemas.errors import DeadLetterClass, FatalDelivery, InputError
from schemas.event import json_object
from schemas.settings import DocumentSettings, KafkaSettings

OWN_FORM: Final = DocumentSettings()
"""Settings of documents that need none."""

MAX_UNREAD_BYTES: Final = 8 * 1024 * 1024
"""Document bytes produced and not yet applied, over all partitions."""

_POLL: Final = 0.2
_SETTLES: Final = 0.5
"""Seconds. A transaction's end is written to one partition after the other: its offsets may be there before its dead
letters are."""

_HEADER: Final = "rankstream.ingestion"
"""Says in a record, and so in its dead letter, which ingestion sent it, and the document's number and place there."""

OnProgress = Callable[[int, int], None]
"""Told (done, produced) documents from time to time."""

Placed = tuple[object, Mapping[str, Any]]
"""A document and its place in its source, such as `line 3`."""


@dataclass(frozen=True, slots=True)
class RejectedDocument:
    """A document that the indexing flow rejected: its place, its id, and the dead letter's class and reason."""

    where: str
    id: str
    kind: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}, document {self.id or 'without id'}: {self.kind}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Ingested:
    """The number of sent documents, and the rejected ones among them."""

    sent: int
    rejected: Sequence[RejectedDocument]

    @property
    def applied(self) -> int:
        """The number of documents that are in the index now, or replaced by a later version."""
        return self.sent - len(self.rejected)


def file_version(path: Path) -> str:
    """A digest of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON Lines file. Raises InputError naming the line that isn't one."""
    return (event for _, event in numbered_jsonl(path))


def numbered_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The same with their lines' numbers, from 1."""
    for number, line in numbered_lines(path):
        with naming(f"{path}:{number}"):
            event = json_object(line, len(line))
        yield number, event


@contextmanager
def naming(where: object) -> Iterator[None]:
    """Have the InputError of the block name this place."""
    try:
        yield
    except InputError as error:
        raise InputError(error.kind, f"{where}: {error}") from error


Moved = Callable[[int, int], None]
"""Told (read, all) offsets from time to time."""


def read_topic(client: KafkaClient, topic: str, timeout: float, most: float = math.inf) -> Iterator[ConsumerRecord]:
    """Yield the records of a topic up to its present ends, as `read_to_ends` does."""
    with closing(client.bounded_reader(topic)) as reader:
        yield from read_to_ends(reader, timeout, most)


def read_to_ends(
    reader: TopicReader, timeout: float | None = None, most: float = math.inf, moved: Moved = lambda *_: None
) -> Iterator[ConsumerRecord]:
    """Yield the records from where a reader is up to the present ends; at most `most` with a value, as many of each
    partition.

    Raises RetriableDelivery, and FatalDelivery if no record comes for `timeout` seconds.
    """
    ends, begins, heard = reader.ends(timeout), reader.positions(), time.monotonic()
    left, positions = dict.fromkeys(ends, most / len(ends)), begins
    while any(left[number] > 0 and positions[number] < end for number, end in ends.items()):
        for record in reader.poll(_POLL):
            number = record.partition.partition
            if record.offset < ends.get(number, 0) and left[number] > 0:
                left[number] -= record.value is not None
                yield record
            heard = time.monotonic()
        if timeout is not None and time.monotonic() - heard > timeout:
            raise FatalDelivery(f"{reader.topic}: no record was read although the topic has more")
        # A transaction's end is an offset without a record: only the position says that it is behind.
        positions = reader.positions()
        read = sum(min(positions[number], end) - begins[number] for number, end in ends.items())
        moved(read, sum(ends.values()) - sum(begins.values()))


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, with their numbers from 1; a byte order mark is skipped."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            line = line.removeprefix(BOM_UTF8) if number == 1 else line
            if line.strip():
                yield number, line


def ingest(
    settings: KafkaSettings,
    documents: Iterable[Placed],
    progress: OnProgress,
    timeout: float,
    form: DocumentSettings = OWN_FORM,
) -> Ingested:
    """Produce the documents, keyed by their ids in this form, and return their outcome once all are committed.

    Never more than MAX_UNREAD_BYTES are on their way. Raises FatalDelivery if nothing moved for `timeout` seconds, for
    a document that is too large for the topic, and without a broker; RetriableDelivery without a topic, or an answer.
    """
    client, own, topic = connect(settings), uuid.uuid4().hex, settings.topics.documents
    records = (
        ProducerRecord(topic, _key(each, form), orjson.dumps(each), ((_HEADER, f"{own}:{number}:{place}".encode()),))
        for number, (place, each) in enumerate(documents)
    )
    with closing(client.bounded_reader(settings.topics.dead_letters, from_end=True)) as letters:
        sent = _send(client, topic, records, progress, timeout)
        time.sleep(_SETTLES)
        rejected = {
            int(number): RejectedDocument(
                place, (letter.key or b"").decode("utf-8", "replace"), letter.kind, letter.message
            )
            for record in read_to_ends(letters)
            if (letter := DeadLetter.of_record(record.key, record.value, record.headers or (), 0)) is not None
            for name, value in letter.headers
            if name == _HEADER
            for ingestion, number, place in [value.decode("utf-8", "replace").split(":", 2)]
            if ingestion == own
        }
    return Ingested(sent, [rejected[number] for number in sorted(rejected)])


def _send(client: KafkaClient, topic: str, rest: Iterator[ProducerRecord], progress: OnProgress, timeout: float) -> int:
    with (
        closing(client.bounded_reader(topic)) as reader,
        closing(client.tail(topic)) as tail,
        closing(client.plain_producer()) as producer,
    ):
        sent_bytes = 0
        moved = -1, time.monotonic()
        size_of: list[int] = []
        following = next(rest, None)
        ends: dict[int, int] = {}
        while True:
            records = []
            while following is not None and sent_bytes < MAX_UNREAD_BYTES:
                records.append(following)
                size_of.append(len(following.value or b""))
                sent_bytes += size_of[-1]
                following = next(rest, None)
            try:
                producer.send(records)
            except RecordRefused as error:
                raise FatalDelivery(f"{topic}: a document {error.refusal.why}") from error
            if records or not ends:
                # Documents behind an open transaction of another producer can't be read yet, and are not done.
                ends = tail.ends(ENDS_TIMEOUT)
            committed = reader.committed()
            behind = sum(max(0, end - committed[number]) for number, end in ends.items() if number in committed)
            produced = len(size_of)
            done = max(0, produced - behind)
            sent_bytes = sum(size_of[done:])
            progress(done, produced)
            if following is None and behind <= 0:
                return produced
            if done != moved[0]:
                moved = done, time.monotonic()
            elif time.monotonic() - moved[1] > timeout:
                raise FatalDelivery(f"no document was applied for {timeout:g} s: is the indexing flow running?")
            time.sleep(_POLL)


def _key(document: Mapping[str, Any], form: DocumentSettings) -> bytes:
    """The id; of a deletion of many all that says what is deleted, so that compaction keeps the latest of each."""
    if document.get("op") == DELETE_WHERE:
        return orjson.dumps({name: value for name, value in document.items() if name not in {"op", "updated_at"}})
    found = id_of(document, form.id_column)
    if found is None and form.ids == "content":
        # In one partition with its deletion, which has the digest.
        found = read_row(dict(document), form).get("id")
    return (found or "").encode()


DocumentReader = Callable[[], Iterable[Placed]]

SHOWN: Final = 10
"""The number of rejected documents that are shown."""

_REASONS: Final = 3
"""Reasons that are told for documents that are skipped."""

TIMEOUT: Final = 120.0
_EMBEDDED_TIMEOUT: Final = 900.0
"""Seconds: the model shares a machine that may be small, and busy with other work."""

_QUIET: Final = 10.0


def ingest_with_bar(
    settings: KafkaSettings,
    name: str,
    documents: Iterable[Placed],
    total: int,
    console: Console,
    timeout: float,
    form: DocumentSettings = OWN_FORM,
) -> Ingested:
    """Ingest by the indexing flow's settings, with a progress bar on a terminal, else with a line now and then."""
    with progress(f"indexing {name}", console, quiet=_QUIET) as tell:
        return ingest(settings, documents, lambda done, sent: tell(done, max(total, sent)), timeout, form)


def print_skipped(skipped: Sequence[object], total: int, console: Console) -> None:
    """Say how many documents were not taken, with the first reasons."""
    if skipped:
        say(console, f"skipped {len(skipped)} of {total} documents:", "yellow")
    for reason in skipped[:_REASONS]:
        say(console, f"  {reason}", "yellow")


def index_once(
    running: Embedded,
    name: str,
    documents: DocumentReader,
    version: str,
    directory: Path,
    console: Console,
    *,
    total: int | None = None,
    complete: bool = True,
    wrong: Sequence[object] = (),
) -> Ingested:
    """Index documents into the embedded engine; their outcome, which `directory` keeps with an index of them.

    An index of this `version` under the same configuration is not made again. `total` is their number; None: they are
    counted. `wrong` are records that are none, each with the reason. Raises InputError if one of documents that must be
    `complete` is rejected: figures about the others alone would mislead. If they need not be, what was skipped is said.
    """
    settings = running.settings
    digest = hashlib.sha256(orjson.dumps([settings.index_hash(), version])).hexdigest()
    mark = directory / "indexed"
    ingested = _read_mark(mark, digest)
    if is_new := ingested is None:
        kafka, form = settings.kafka.indexing, settings.documents
        total = total if total is not None else sum(1 for _ in documents())
        with running.indexing():
            ingested = ingest_with_bar(kafka, name, documents(), total, console, _EMBEDDED_TIMEOUT, form)
    if ingested.rejected and complete:
        first, *others = ingested.rejected
        for each in others[: SHOWN - 1]:
            say(console, str(each))
        count = f"{len(ingested.rejected)} of {ingested.sent}"
        cure = "--allow-rejected goes on without them"
        raise InputError(DeadLetterClass.INVALID, f"{name}: {count} documents were rejected ({cure}), first {first}")
    if is_new:
        if not console.is_terminal:
            say(console, f"documents of {name} indexed: {ingested.applied}")
        mark.write_bytes(orjson.dumps([digest, ingested]))
    if not complete:
        print_skipped([*wrong, *ingested.rejected], ingested.sent + len(wrong), console)
    return ingested


def _read_mark(mark: Path, digest: str) -> Ingested | None:
    """The outcome of the documents of an index, if it is that of the documents and the configuration of the digest."""
    with suppress(OSError, ValueError):
        known, ingested = orjson.loads(mark.read_bytes())
        if known == digest:
            return Ingested(ingested["sent"], [RejectedDocument(**each) for each in ingested["rejected"]])
    return None
