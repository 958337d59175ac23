"""The law, checked on what the topics hold: each message that was asked ends once, and rightly.

Pure. What is right: a query gets a result with its id. Poison gets a dead letter of its class, and if its caller is
legible a result that refuses it, too. A dead letter holds the message's own key and value. What a scenario makes the
flow answer otherwise, it must name.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from schemas.errors import DeadLetterClass
from schemas.result import Status


class Place(NamedTuple):
    """The position of a message."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A message of the queries topic, and what must become of it: `query_id` a result, `poison` a dead letter.

    With neither, either will do. `caller` hears of a refusal; None if that isn't known. `timestamp` in seconds.
    """

    place: Place
    key: bytes | None
    value: bytes | None
    timestamp: float
    query_id: str | None = None
    poison: str | None = None
    caller: str | None = None


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """A record that ended a message: a result of that status, or a dead letter of that class. A `refusal` is a result
    `invalid`, which a dead letter goes with.

    `arrival` in Unix seconds; `called`: a leg was asked for it.
    """

    place: Place
    kind: str
    dead: bool
    key: bytes | None
    arrival: float
    query_id: str | None = None
    value: bytes | None = None
    degraded: tuple[tuple[str, str], ...] = ()
    called: bool = False

    @property
    def refusal(self) -> bool:
        """True if it tells a caller of a dead letter."""
        return not self.dead and self.kind == Status.INVALID


@dataclass(frozen=True, slots=True)
class Account:
    """The account of all messages that were sent."""

    asked: int
    results: int
    dead_letters: int
    lost: list[Place]
    twice: list[Place]
    unheard: list[Place]
    strangers: list[Place]
    wrong: list[str]
    kinds: Counter[str] = field(default_factory=Counter)

    def breaches(self) -> list[str]:
        """The breaches of the law, in words; empty if there is none."""
        found = [
            f"{len(places)} {what}, such as {_short(places)}"
            for what, places in (
                ("lost", self.lost),
                ("twice", self.twice),
                ("unheard", self.unheard),
                ("never asked", self.strangers),
            )
            if places
        ]
        if self.wrong:
            found.append(f"{len(self.wrong)} wrong, such as: {self.wrong[0]}")
        if not self.asked:
            found.append("nothing was asked")
        return found


def by_place(messages: Iterable[Asked]) -> dict[Place, Asked]:
    """The messages by their places; the first of a place counts, as for any reader.

    A broker whose disk is full may write a record, fail at the index, and put another at the same offset.
    """
    found: dict[Place, Asked] = {}
    for message in messages:
        found.setdefault(message.place, message)
    return found


def account(
    asked: Mapping[Place, Asked], output_records: Sequence[OutputRecord], refused: Collection[str] = frozenset()
) -> Account:
    """Hold what was asked against what was answered; queries may be dead letters of the classes `refused`."""
    seen = Counter(output_record.place for output_record in output_records if not output_record.refusal)
    told = Counter(output_record.place for output_record in output_records if output_record.refusal)
    dead = {output_record.place for output_record in output_records if output_record.dead}
    wrong = [
        f"{output_record.place.partition}/{output_record.place.offset}: {fault}"
        for output_record in output_records
        if output_record.place in asked
        for fault in _faults(asked[output_record.place], output_record, refused)
    ]
    return Account(
        asked=len(asked),
        results=sum(1 for output_record in output_records if not output_record.dead),
        dead_letters=sum(1 for output_record in output_records if output_record.dead),
        lost=sorted(asked.keys() - seen.keys()),
        twice=sorted({place for place, times in (seen | told).items() if times > 1} | told.keys() & seen.keys() - dead),
        unheard=sorted(place for place in dead & asked.keys() - told.keys() if asked[place].caller is not None),
        strangers=sorted((seen.keys() | told.keys()) - asked.keys()),
        wrong=wrong,
        kinds=Counter(f"letter {each.kind}" if each.dead else each.kind for each in output_records),
    )


def _faults(asked: Asked, output_record: OutputRecord, refused: Collection[str]) -> list[str]:
    faults = []
    if output_record.refusal:
        if asked.query_id is not None and not refused:
            faults.append("a refusal for a query")
        if output_record.query_id != (asked.caller or output_record.query_id):
            faults.append(f"the refusal of {output_record.query_id} for {asked.caller}")
        if asked.poison is not None and asked.caller is None:
            faults.append("a refusal for nobody")
        return (
            faults if (output_record.key or b"") == (asked.key or b"") else [*faults, "another key than the message's"]
        )
    if asked.poison is not None and (not output_record.dead or output_record.kind != asked.poison):
        faults.append(f"{output_record.kind} for poison of class {asked.poison}")
    if asked.query_id is not None:
        if output_record.dead and output_record.kind not in refused:
            faults.append(f"a dead letter of class {output_record.kind} for a query")
        if not output_record.dead and output_record.query_id != asked.query_id:
            faults.append(f"the result of {output_record.query_id} for {asked.query_id}")
    # What its topic refuses for its size is replaced by a letter without payload.
    stripped = output_record.value is None and output_record.kind == DeadLetterClass.TOO_LARGE
    if output_record.dead and not stripped and output_record.value != asked.value:
        faults.append("a dead letter with another value than the message's")
    if not stripped and (output_record.key or b"") != (asked.key or b""):
        faults.append("another key than the message's")
    return faults


def _short(places: Sequence[Place]) -> str:
    return ", ".join(f"{place.partition}/{place.offset}" for place in places[:6])
