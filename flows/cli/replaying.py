"""Replay: dead letters back to the topics that they came from, as new queries and documents.

Rules
-----
- It ends, and doesn't replay what it causes.
- Each record is acknowledged by all in-sync replicas before the next is sent: what was sent is known at any moment.
- A record that is refused for its size is counted and the rest goes on; any other failure ends the replay.
- Of a letter's payload nothing is printed but its size.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from types import TracebackType
from typing import Any, Final, Self

import kafka
from kafka.errors import MessageSizeTooLargeError
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from flows.cli.dead_letters import DeadLetters, Moved
from operators.delivery.kafka_python import KAFKA, connection, naming
from operators.delivery.replay import Filter, Letter, Position, Replayed, Skip, Throttle, replayed
from schemas.settings import KafkaSettings
from schemas.timestamp import unix_seconds

RATE: Final = 100.0
"""Records a second, unless told otherwise."""

_MAX_REQUEST_SIZE: Final = 64 * 1024 * 1024
_PATIENCE: Final = 2.0
_MESSAGE_CHARS: Final = 80

_SKIPPED: Final = {
    Skip.NO_PAYLOAD: "without payload",
    Skip.OTHER_TOPIC: "from a topic that isn't configured",
}


@dataclass(slots=True)
class Tally:
    """What became of the dead letters: each one that matched was sent, skipped or refused."""

    matched: int = 0
    sent: int = 0
    skipped: Counter[Skip] = field(default_factory=Counter)
    refused: list[Position] = field(default_factory=list)
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
        for place in self.refused:
            yield _printable(f"failed: {place}: too large for its topic")


def moment(text: str) -> float:
    """Read Unix seconds, or an RFC 3339 time with an offset. Raises ValueError."""
    with contextlib.suppress(ValueError):
        return unix_seconds(float(text))
    return unix_seconds(text)


class Sender:
    """Produces one record after the other, each acknowledged. Use as a context manager."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings

    def __enter__(self) -> Self:
        """Connect. Raises FatalDelivery."""
        self._producer = self._made()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._producer.close(timeout=1)

    def send(self, record: Replayed) -> bool:
        """Whether the topic took the record; not, if it is too large for it. Raises FatalDelivery."""
        with naming(record.topic):
            try:
                self._producer.send(
                    record.topic,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    timestamp_ms=record.timestamp_ms,
                ).get()
            except MessageSizeTooLargeError:
                # An idempotent producer is of no use after a refusal: every later send would fail.
                self._producer.close(timeout=1)
                self._producer = self._made()
                return False
        return True

    def _made(self) -> Any:
        with naming(self._settings.bootstrap_servers):
            return kafka.KafkaProducer(
                acks="all",
                enable_idempotence=True,
                compression_type=self._settings.compression,
                linger_ms=0,
                max_request_size=_MAX_REQUEST_SIZE,
                metrics_enabled=False,
                **connection(self._settings, KAFKA),
            )


def sendable(
    letters: DeadLetters, settings: KafkaSettings, wanted: Filter, tally: Tally
) -> Iterator[tuple[Letter, Replayed]]:
    """The wanted letters that can be replayed, with what they become; the others are tallied."""
    for letter in letters:
        if letter is None:
            tally.foreign += 1
            continue
        if not wanted.matches(letter):
            continue
        tally.matched += 1
        record = replayed(letter, settings.topics.queries, settings.topics.documents)
        if isinstance(record, Skip):
            tally.skipped[record] += 1
        else:
            yield letter, record


def replay(
    settings: KafkaSettings, wanted: Filter, limit: int | None, rate: float, console: Console, tally: Tally
) -> None:
    """Send the wanted letters, at most `rate` a second, and tally them, also if it fails. Raises FatalDelivery."""
    throttle = Throttle(rate)
    with _bar(console) as moved, DeadLetters(settings, moved) as letters, Sender(settings) as sender:
        for letter, record in islice(sendable(letters, settings, wanted, tally), limit):
            time.sleep(throttle.wait(time.monotonic()))
            if sender.send(record):
                tally.sent += 1
            else:
                tally.refused.append(letter.place)


def rehearse(
    settings: KafkaSettings, wanted: Filter, limit: int | None, console: Console, tally: Tally
) -> Iterator[dict[str, Any]]:
    """A row for each letter that `replay` would send, and the tally of it; sends nothing. Raises FatalDelivery."""
    now = time.time()
    with _bar(console) as moved, DeadLetters(settings, moved) as letters:
        for letter, record in islice(sendable(letters, settings, wanted, tally), limit):
            tally.sent += 1
            yield {
                "class": _printable(letter.kind),
                "stage": _printable(letter.stage),
                "place": _printable(str(letter.place)),
                "timestamp": letter.timestamp,
                "age_s": round(now - letter.timestamp, 3),
                "bytes": len(record.value),
                "message": _printable(letter.message[:_MESSAGE_CHARS]),
            }


def table(rows: Iterable[Mapping[str, Any]]) -> Table:
    """The rows of a rehearsal for a terminal."""
    shown = Table("class", "stage", "place")
    shown.add_column("age", justify="right", no_wrap=True)
    shown.add_column("bytes", justify="right", no_wrap=True)
    shown.add_column("message", overflow="ellipsis", no_wrap=True)
    for row in rows:
        # Whole seconds: 1 day, 2:03:04.
        age = str(timedelta(seconds=max(round(row["age_s"]), 0)))
        cells = (row["class"], row["stage"], row["place"], age, str(row["bytes"]), row["message"])
        # What came with a message is text, not markup.
        shown.add_row(*map(Text, cells))
    return shown


def _printable(text: str) -> str:
    # A header may hold anything, such as what a terminal would obey.
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


@contextlib.contextmanager
def _bar(console: Console) -> Iterator[Moved]:
    """A progress bar, on a terminal, once it has taken _PATIENCE seconds."""
    columns = (TextColumn("reading dead letters"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    # What is printed meanwhile belongs to standard output, wherever that goes.
    bar = Progress(*columns, console=console, redirect_stdout=False, disable=not console.is_terminal)
    task = bar.add_task("read")
    began = time.monotonic()

    def moved(read: int, every: int) -> None:
        bar.update(task, completed=read, total=every)
        if time.monotonic() - began > _PATIENCE:
            bar.start()

    try:
        yield moved
    finally:
        bar.stop()
