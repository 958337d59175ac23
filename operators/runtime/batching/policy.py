"""Batching policies: which of the waiting requests one call carries.

A request consists of units, say the documents of a query. A policy may divide requests: one call then takes a slice of
a request's units, and another call the rest, so that calls are full whatever the size of the requests. It may shorten
them, too: where time is short, a request is then answered for its first units alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from schemas.errors import BackendError

Request = TypeVar("Request")
Outcome = TypeVar("Outcome")
Item = TypeVar("Item")
Key = TypeVar("Key")


class Waiting(NamedTuple, Generic[Request]):
    """A request that waits, how many of its units other calls have taken, and before which unit the call must stop."""

    query: Request
    taken: int
    stop: int


class BatchingPolicy(ABC, Generic[Request, Outcome]):
    """Decides which of the waiting requests go into the next call, and combines the outcomes of divided ones.

    Unless a policy says otherwise, a request has one unit, and nobody in particular as its tenant.
    """

    @property
    def divides(self) -> bool:
        """True if a request's units may be in several calls."""
        return False

    @property
    def least(self) -> int | None:
        """The fewest units that are worth a call where time is short; None if requests are never shortened."""
        return None

    def tenant(self, query: Request) -> Hashable:  # noqa: ARG002
        """The request's tenant. Under overload, tenants get equal shares."""
        return None

    def units(self, query: Request) -> int:  # noqa: ARG002
        """The number of the request's units; a request of 0 units gets its outcome without a call."""
        return 1

    @abstractmethod
    def select(self, waiting: Iterable[Waiting[Request]]) -> Sequence[int]:
        """The units of each waiting request that the next call takes, at least one in all.

        `waiting` begins with the most urgent request. The answer may be shorter: the requests beyond its end wait on.
        """

    def part(self, query: Request, start: int, stop: int) -> Request:  # noqa: ARG002
        """The request for its units from `start` to before `stop` alone."""
        return query

    def combine(self, query: Request, outcomes: Sequence[Outcome]) -> Outcome:  # noqa: ARG002
        """The request's outcome from those of its parts, in the order of their units."""
        return outcomes[0]

    def partial(self, query: Request, units: int, outcomes: Sequence[Outcome], lost: BackendError) -> Outcome | None:  # noqa: ARG002
        """The outcome of a request of which only the first `units` units have one, and why the others were lost.

        None: these are too few for an outcome.
        """
        return None


@dataclass(frozen=True)
class Whole(BatchingPolicy[Request, Outcome]):
    """Requests of one unit: at most `max_batch` a call."""

    max_batch: int

    def select(self, waiting: Iterable[Waiting[Request]]) -> Sequence[int]:
        return [1 for _ in islice(waiting, self.max_batch)]


def chunks(items: Sequence[Item], size: int) -> list[Sequence[Item]]:
    """The items in their order, `size` at a time; fewer in the last chunk."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def by_key(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """The items of each key, in their order."""
    found: dict[Key, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def divide(items: Sequence[Item], *, singly: int = 1, most: int | None = None) -> list[Sequence[Item]]:
    """Bisection: the batches that a refused one is sent as, in the items' order; none if it cannot be divided.

    They are its halves; of at most `singly` items they are the items one by one, because halves of a few cost more
    calls. None either if they would be more than `most` batches.
    """
    size = 1 if len(items) <= singly else len(items) - len(items) // 2
    parts = chunks(items, size) if len(items) > 1 else []
    return parts if most is None or len(parts) <= most else []
