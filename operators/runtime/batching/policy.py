"""Batching policies: which of the waiting requests one call carries.

A request consists of units, say the documents of a query. A policy may divide requests: one call then takes a slice of
a request's units, and another call the rest, so that calls are full whatever the size of the requests. It may shorten
them, too: where time is short, a request is then answered for its first units alone.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeVar

from schemas.errors import BackendError

T = TypeVar("T")
Q = TypeVar("Q")
R = TypeVar("R")


class Waiting(NamedTuple, Generic[T]):
    """A request that waits, how many of its units other calls have taken, and before which unit the call must stop."""

    query: T
    taken: int
    stop: int


class BatchingPolicy(Protocol[Q, R]):
    """Decides which of the waiting requests go into the next call, and merges the outcomes of divided ones."""

    @property
    def divides(self) -> bool:
        """Whether a request's units may be in several calls."""
        ...

    @property
    def least(self) -> int | None:
        """The fewest units that are worth a call where time is short; None if requests are never shortened."""
        ...

    def tenant(self, query: Q) -> Hashable:
        """Whom the request is made for: tenants share a backend that can't serve all."""
        ...

    def units(self, query: Q) -> int:
        """How many units the request has; a request of 0 units gets its outcome without a call."""
        ...

    def select(self, waiting: Iterable[Waiting[Q]]) -> Sequence[int]:
        """How many more units of each waiting request the next call takes, at least one in all.

        `waiting` begins with the most urgent request. The answer may be shorter: the requests beyond its end wait on.
        """
        ...

    def part(self, query: Q, start: int, stop: int) -> Q:
        """The request for its units from `start` to before `stop` alone."""
        ...

    def merged(self, query: Q, outcomes: Sequence[R]) -> R:
        """The request's outcome from those of its parts, in the order of their units."""
        ...

    def partial(self, query: Q, units: int, outcomes: Sequence[R], lost: BackendError) -> R | None:
        """The outcome of a request of which only the first `units` units have one, and why the others were lost.

        None: these are too few for an outcome.
        """
        ...


@dataclass(frozen=True, slots=True)
class Whole(Generic[Q, R]):
    """Requests of one unit: at most `max_batch` a call."""

    max_batch: int

    divides: ClassVar = False
    least: ClassVar = None

    def tenant(self, query: Q) -> Hashable:  # noqa: ARG002  the protocol's
        """Nobody in particular."""
        return None

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

    def partial(self, query: Q, units: int, outcomes: Sequence[R], lost: BackendError) -> R | None:  # noqa: ARG002
        """There is none of a request of one unit."""
        return None
