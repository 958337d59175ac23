"""Replay: dead letters back to the topics that they came from, as new queries and documents.

Rules
-----
- It ends, and doesn't replay what it causes.
- Each record is acknowledged by all in-sync replicas before the next is sent: what was sent is known at any moment.
- A record that its topic refuses is counted and the rest goes on; any other failure ends the replay.
- Of a letter's payload nothing is printed but its size.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from flows.cli.dead_letters import Moved, dead_letters
from flows.cli.originals import Original, originals
from operators.delivery.client import KafkaClient, PlainRecord, RecordRefused
from operators.delivery.replay import Filter, Letter, Position, Skip, Throttle, replayed
from schemas.printable import printable
from schemas.settings import Topics
from schemas.timestamp import unix_seconds

RATE: Final = 100.0
"""Records a second, unless told otherwise."""

_PATIENCE: Final = 2.0
_MESSAGE_CHARS: Final = 80
_NAME_WIDTH: Final = 16
_MESSAGE_WIDTH: Final = 18

_SKIPPED: Final = {
    Skip.NO_PAYLOAD: "without payload and without an original",
    Skip.OTHER_TOPIC: "from a topic that isn't configured",
}


@dataclass(slots=True)
class Tally:
    """What became of the dead letters: each one that matched was sent, skipped or refused."""

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


def sendable(
    letters: Iterable[Letter | None], topics: Topics, wanted: Filter, tally: Tally, original: Original
) -> Iterator[tuple[Letter, PlainRecord]]:
    """The wanted letters that can be replayed, with what they become; the others are tallied."""
    for letter in letters:
        if letter is None:
            tally.foreign += 1
            continue
        if not wanted.matches(letter):
            continue
        tally.matched += 1
        letter = original(letter)
        record = replayed(letter, topics.queries, topics.documents)
        if isinstance(record, Skip):
            tally.skipped[record] += 1
        else:
            yield letter, record


def replay(
    client: KafkaClient, topics: Topics, wanted: Filter, limit: int | None, rate: float, console: Console, tally: Tally
) -> None:
    """Send the wanted letters, at most `rate` a second, and tally them, also if it fails. Raises DeliveryError."""
    throttle = Throttle(rate)
    with (
        _reading(client, topics, console) as letters,
        originals(client, topics) as original,
        closing(client.plain_producer()) as producer,
    ):
        for letter, record in islice(sendable(letters, topics, wanted, tally, original), limit):
            time.sleep(throttle.wait(time.monotonic()))
            try:
                producer.send([record])
            except RecordRefused as error:
                tally.refused[letter.place] = error.refusal.why
            else:
                tally.sent += 1


def rehearse(
    client: KafkaClient, topics: Topics, wanted: Filter, limit: int | None, console: Console, tally: Tally
) -> Iterator[dict[str, Any]]:
    """A row for each letter that `replay` would send, and the tally of it; sends nothing. Raises DeliveryError."""
    now = time.time()
    with _reading(client, topics, console) as letters, originals(client, topics) as original:
        for letter, record in islice(sendable(letters, topics, wanted, tally, original), limit):
            tally.sent += 1
            yield {
                "class": letter.kind,
                "stage": letter.stage,
                "place": str(letter.place),
                "timestamp": letter.timestamp,
                "age_s": round(now - letter.timestamp, 3),
                "bytes": len(record.value),
                "message": letter.message[:_MESSAGE_CHARS],
            }


def table(rows: Iterable[Mapping[str, Any]]) -> Table:
    """The rows of a rehearsal for a terminal of 80 columns or more."""
    shown = Table(expand=True)
    shown.add_column("rejected", overflow="fold", max_width=_NAME_WIDTH)
    shown.add_column("place", overflow="fold", max_width=_NAME_WIDTH)
    shown.add_column("age", justify="right", no_wrap=True)
    shown.add_column("bytes", justify="right", no_wrap=True)
    shown.add_column("message", overflow="ellipsis", no_wrap=True, ratio=1, min_width=_MESSAGE_WIDTH)
    for row in rows:
        # What came with a message may be anything.
        kind, stage, place, message = (printable(row[name]) for name in ("class", "stage", "place", "message"))
        shown.add_row(f"{kind}\n{stage}", place, _age(row["age_s"]), str(row["bytes"]), message)
    return shown


def _age(seconds: float) -> str:
    """In the largest unit of which there are two."""
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds // unit:.0f} {name}"
    return f"{max(seconds, 0.0):.0f} s"


@contextmanager
def _reading(client: KafkaClient, topics: Topics, console: Console) -> Iterator[Iterator[Letter | None]]:
    """The dead letters that there are now, with a progress bar."""
    with _bar(console) as moved, closing(client.bounded_reader(topics.dead_letters)) as reader:
        yield dead_letters(reader, moved)


@contextmanager
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
