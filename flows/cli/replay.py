"""`rankstream replay`: dead letters back to the topics that they came from, as new queries and documents.

Rules:
- It ends, and doesn't replay the dead letters that it causes: the topic is read once, from its beginning to the end
  that it has at the start, and in no group.
- A message that its dead letter doesn't hold is read where it came from, for as long as it is there.
- Each record is acknowledged by all in-sync replicas before the next is sent: so the sent records are known at any
  moment.
- A record that its topic refuses is counted and the rest goes on; any other failure ends the replay.
- Without a filter it sends nothing, unless all is asked for: it says what that would be.
- A dead letter that came back for the same reason isn't sent again, unless told. The topic is read once more to know.
- Of a dead letter's payload nothing is printed but its size.
"""

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from flows.assembly.delivery import connect
from flows.cli.config import begin
from flows.cli.ingestion import Moved, read_to_ends
from flows.cli.output import Config, Json, emit, out, progress, say, stderr
from operators.delivery.client import ConsumerRecord, KafkaClient, ProducerRecord, RecordRefused, TopicReader
from operators.delivery.replay import DeadLetter, DeadLetterFilter, Position, Skip, Throttle, find_futile, to_record
from operators.delivery.way_out import short_key
from schemas.errors import DeadLetterClass
from schemas.fields import unix_seconds
from schemas.settings import Topics
from schemas.texts import printable


def dead_letters(reader: TopicReader, report: Moved) -> Iterator[DeadLetter | None]:
    """Each dead letter that `reader`, at the topic's beginning, finds there now; None for a record that is none."""
    for each in read_to_ends(reader, moved=report):
        yield DeadLetter.of_record(each.key, each.value, each.headers or (), round(each.timestamp * 1000))


Original = Callable[[DeadLetter], DeadLetter]
"""The dead letter with its message, as far as that is to be had."""

_ORIGINAL_TIMEOUT: Final = 10.0
"""Seconds for one message."""

_POLL_ORIGINAL: Final = 0.1
_AHEAD: Final = 60.0
"""Seconds that the clock of a producer may be ahead."""


@contextmanager
def originals(client: KafkaClient, topics: Topics) -> Iterator[Original]:
    """A function that reads the message of a dead letter without payload, if needed; it raises DeliveryError."""
    with ExitStack() as stack:
        readers: dict[str, TopicReader] = {}

        def original(dead_letter: DeadLetter) -> DeadLetter:
            topic = dead_letter.position.topic
            if dead_letter.is_whole(topics.documents) or topic not in {topics.queries, topics.documents}:
                return dead_letter
            if topic not in readers:
                readers[topic] = stack.enter_context(closing(client.bounded_reader(topic, from_end=True)))
            record = _at(readers[topic], dead_letter.position.partition, dead_letter.position.offset)
            if record is None or not _is_of(dead_letter, record):
                return dead_letter
            whole = replace(dead_letter, key=record.key, value=record.value, headers=record.headers or ())
            return replace(whole, timestamp_ms=round(record.timestamp * 1000))

        yield original


def _is_of(dead_letter: DeadLetter, record: ConsumerRecord) -> bool:
    """True if the dead letter is about this message: in a topic that was made again, another one is at its offset."""
    return short_key(record.key) == dead_letter.key and record.timestamp <= dead_letter.timestamp + _AHEAD


def _at(reader: TopicReader, partition: int, offset: int) -> ConsumerRecord | None:
    """The committed record at this place; None if there is none, or it doesn't come in time."""
    if not offset < reader.ends().get(partition, 0):
        return None
    reader.seek(partition, offset)
    limit = time.monotonic() + _ORIGINAL_TIMEOUT
    while time.monotonic() < limit:
        for record in reader.poll(_POLL_ORIGINAL):
            if record.partition.partition == partition and record.offset >= offset:
                return record if record.offset == offset else None
        if reader.positions()[partition] > offset:
            return None
    return None


RATE: Final = 100.0
"""Records a second, unless told otherwise."""

_PATIENCE: Final = 2.0
_MESSAGE_CHARS: Final = 80
_NAME_WIDTH: Final = 16
_MESSAGE_WIDTH: Final = 18

_SKIPPED: Final = {
    Skip.NO_PAYLOAD: "without payload and without an original",
    Skip.OTHER_TOPIC: "from a topic that isn't configured",
    Skip.RETURNED: "came back for the same reason (--again sends them)",
}


@dataclass(slots=True)
class Tally:
    """Counts of dead letters: each one that matched was sent, skipped or refused."""

    matched: int = 0
    sent: int = 0
    skipped: Counter[Skip] = field(default_factory=Counter)
    refused: dict[Position, str] = field(default_factory=dict)
    foreign: int = 0

    def report(self) -> dict[str, Any]:
        """The counts; `foreign` are records of the topic that are no dead letters."""
        return {
            "matched": self.matched,
            "sent": self.sent,
            "skipped": {reason.value: self.skipped[reason] for reason in Skip},
            "failed": [str(place) for place in self.refused],
            "foreign": self.foreign,
        }

    def lines(self, sent: str) -> Iterator[str]:
        """The counts in words, where those that were not skipped have been `sent`."""
        skipped = [f"{count} skipped, {_SKIPPED[reason]}" for reason, count in sorted(self.skipped.items())]
        yield "; ".join([f"{self.matched} matched", f"{self.sent} {sent}", *skipped])
        if self.foreign:
            yield f"no dead letters: {self.foreign}"
        for place, why in self.refused.items():
            yield printable(f"failed: {place} {why}")


def moment(text: str) -> float:
    """Read Unix seconds, or an RFC 3339 time with an offset. Raises ValueError."""
    with suppress(ValueError):
        return unix_seconds(float(text))
    return unix_seconds(text)


@dataclass(frozen=True)
class Replay:
    """The replay of wanted letters, at most `limit`, which `tally` counts; `again`: also of those that came back.

    Each method raises DeliveryError; what was done until then is tallied.
    """

    client: KafkaClient
    topics: Topics
    wanted: DeadLetterFilter
    limit: int | None
    again: bool
    tally: Tally = field(default_factory=Tally)

    def send(self, rate: float) -> None:
        """Send the letters, at most `rate` a second."""
        throttle = Throttle(rate)
        with closing(self._sendable()) as found, closing(self.client.plain_producer()) as producer:
            for dead_letter, record in found:
                time.sleep(throttle.wait(time.monotonic()))
                try:
                    producer.send([record])
                except RecordRefused as error:
                    self.tally.refused[dead_letter.position] = error.refusal.why
                else:
                    self.tally.sent += 1

    def rehearse(self) -> Iterator[dict[str, Any]]:
        """A row for each letter that would be sent; sends nothing."""
        now = time.time()
        with closing(self._sendable()) as found:
            for dead_letter, record in found:
                self.tally.sent += 1
                yield {
                    "class": dead_letter.kind,
                    "stage": dead_letter.stage,
                    "place": str(dead_letter.position),
                    "timestamp": dead_letter.timestamp,
                    "age_s": round(now - dead_letter.timestamp, 3),
                    "bytes": len(record.value or b""),
                    "message": dead_letter.message[:_MESSAGE_CHARS],
                }

    def _sendable(self) -> Generator[tuple[DeadLetter, ProducerRecord]]:
        """The letters to send, each with its record; the others are tallied."""
        returned: frozenset[str] = frozenset()
        if not self.again:
            with self._open() as (letters, original):
                returned = find_futile(original(each) for each in letters if each is not None and each.replayed)
        with self._open() as (letters, original):
            yield from islice(self._select(letters, original, returned), self.limit)

    def _select(
        self, letters: Iterable[DeadLetter | None], original: Original, returned: frozenset[str]
    ) -> Iterator[tuple[DeadLetter, ProducerRecord]]:
        for dead_letter in letters:
            if dead_letter is None:
                self.tally.foreign += 1
                continue
            if not self.wanted.matches(dead_letter):
                continue
            self.tally.matched += 1
            dead_letter = original(dead_letter)
            record = to_record(dead_letter, self.topics.queries, self.topics.documents)
            if dead_letter.attempt in returned and not isinstance(record, Skip):
                record = Skip.RETURNED
            if isinstance(record, Skip):
                self.tally.skipped[record] += 1
            else:
                yield dead_letter, record

    @contextmanager
    def _open(self) -> Iterator[tuple[Iterator[DeadLetter | None], Original]]:
        """The dead letters that there are now, with a progress bar, and what reads their messages."""
        with (
            progress("reading dead letters", stderr, _PATIENCE) as report,
            closing(self.client.bounded_reader(self.topics.dead_letters)) as reader,
            originals(self.client, self.topics) as original,
        ):
            yield dead_letters(reader, report), original


def rehearsal_table(rows: Iterable[Mapping[str, Any]]) -> Table:
    """The rows of a rehearsal for a terminal of 80 columns or more."""
    table = Table(expand=True)
    table.add_column("rejected", overflow="fold", max_width=_NAME_WIDTH)
    table.add_column("place", overflow="fold", max_width=_NAME_WIDTH)
    table.add_column("age", justify="right", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("message", overflow="ellipsis", no_wrap=True, ratio=1, min_width=_MESSAGE_WIDTH)
    for row in rows:
        # What came with a message may be anything.
        kind, stage, place, message = (printable(row[name]) for name in ("class", "stage", "place", "message"))
        table.add_row(f"{kind}\n{stage}", place, f"{row['age_s'] / 3600:.1f} h", str(row["bytes"]), message)
    return table


def replay(
    config: Config = None,
    kinds: Annotated[
        list[DeadLetterClass] | None, typer.Option("--class", help="Error class of the dead letter; may be repeated.")
    ] = None,
    stage: Annotated[str | None, typer.Option(help="Stage that rejected the message.")] = None,
    topic: Annotated[str | None, typer.Option(help="Topic from which the message came.")] = None,
    positions: Annotated[
        list[Position] | None,
        typer.Option(
            "--offset",
            parser=Position.parse,
            metavar="TOPIC:PARTITION:OFFSET",
            help="Position from which the message came; may be repeated.",
        ),
    ] = None,
    since: Annotated[
        float | None, typer.Option(parser=moment, metavar="TIME", help="Sent at this time or later.")
    ] = None,
    until: Annotated[float | None, typer.Option(parser=moment, metavar="TIME", help="Sent before this time.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Greatest number of messages to send.")] = None,
    rate: Annotated[float, typer.Option(min=0.001, max=100_000, help="Greatest number of messages per second.")] = RATE,
    everything: Annotated[bool, typer.Option("--all", help="Send all: required without a filter.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Also send those that came back for the reason for which they were sent.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be sent, and send nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Send dead letters back to their topics as new queries and documents: those that match every given filter.

    Of a repeated --class or --offset one value must match. TIME, RFC 3339 with an offset or Unix seconds, is that of
    the original. A second replay sends a second query, but not a message that came back for the same reason.
    """
    settings = begin(config)
    wanted = DeadLetterFilter(frozenset(kinds or ()), stage, topic, frozenset(positions or ()), since, until)
    done = Replay(connect(settings.kafka), settings.kafka.topics, wanted, limit, again)
    if wanted == DeadLetterFilter() and not (everything or dry_run):
        kinds_sent = Counter(row["class"] for row in done.rehearse())
        would = ", ".join(f"{count} of class {printable(kind)}" for kind, count in sorted(kinds_sent.items()))
        raise typer.BadParameter(
            f"without a filter, {done.tally.sent} messages would be sent{': ' if would else ''}{would}."
            " Give a filter, or --all to send them; --dry-run lists them"
        )
    try:
        if not dry_run:
            done.send(rate)
        elif as_json:
            for row in done.rehearse():
                emit(row)
        else:
            out.print(rehearsal_table(done.rehearse()))
    finally:
        if as_json and not dry_run:
            emit(done.tally.report())
        else:
            for line in done.tally.lines("would be sent" if dry_run else "sent"):
                say(stderr, line)
    raise typer.Exit(1 if done.tally.refused else 0)
