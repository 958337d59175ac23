"""Gathering: how much of what waits one call carries.

A request consists of units, say the documents of a query. A gathering that divides requests lets a call take some
units of a request, and another call the rest: the calls are then full, however large the requests are.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, NamedTuple, Protocol, TypeVar

T = TypeVar("T")
Q = TypeVar("Q")
R = TypeVar("R")


class Waiting(NamedTuple, Generic[T]):
    """A request that waits, and how many of its units other calls have taken."""

    query: T
    taken: int


class BatchingPolicy(Protocol[Q, R]):
    """What decides which of the waiting requests go into the next call, and puts their outcomes together."""

    def units(self, query: Q) -> int:
        """How many units the request has; one of none has its outcome without a call."""
        ...

    def select(self, waiting: Iterable[Waiting[Q]]) -> Sequence[int]:
        """How many more units of each waiting request the next call takes, the most urgent first; at least one in all.

        Requests beyond the answer's end take no part.
        """
        ...

    def part(self, query: Q, start: int, stop: int) -> Q:
        """The request for its units from `start` to before `stop` alone."""
        ...

    def merged(self, query: Q, outcomes: Sequence[R]) -> R:
        """The request's outcome from those of its parts, in the order of their units."""
        ...


@dataclass(frozen=True, slots=True)
class Whole(Generic[Q, R]):
    """Requests of one unit: at most `max_batch` a call."""

    max_batch: int

    def units(self, query: Q) -> int:  # noqa: ARG002  the protocol's
        """One."""
        return 1

    def select(self, waiting: Iterable[Waiting[Q]]) -> Sequence[int]:
        """The first `max_batch`."""
        return [1 for _ in islice(waiting, self.max_batch)]

    def part(self, query: Q, start: int, stop: int) -> Q:  # noqa: ARG002
        """The request itself."""
        return query

    def merged(self, query: Q, outcomes: Sequence[R]) -> R:  # noqa: ARG002
        """Its one outcome."""
        return outcomes[0]
