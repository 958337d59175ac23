"""The backlog of one backend: requests in, calls out.

Rules
-----
- The request with the earliest deadline goes first; of equal deadlines, the one that came first.
- Natural batching: while a backend is busy, requests queue and are sent as one batch; an idle backend gets the request
  immediately. No request waits for others to come.
- At most `max_concurrency` calls are under way; 0 or less is no limit.
- A request is divided into slices if its batching policy divides it. It has its outcome when all its units have one, or
  when the first of them fails: its other units are then not sent any more.
- A request that can't be answered in time isn't sent. It is hopeless once its deadline has passed; while the backend is
  busy, also when it has less time left than the quickest of the latest calls took. An idle backend gets the request in
  any case, for it may have become quicker.

Pure: time is an argument, in seconds on any steady clock; the calls are made elsewhere.
"""

import sys
from bisect import insort
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from operators.runtime.batching.policy import BatchingPolicy, Waiting

Q = TypeVar("Q")
R = TypeVar("R")

LATEST_CALLS: Final = 8
"""Among how many of the latest calls the quickest is looked for."""


@dataclass(slots=True, eq=False)
class Request(Generic[Q, R]):
    """One request; `taken` of its `units` are in calls, or have an outcome already."""

    query: Q
    deadline: float
    units: int
    taken: int = 0
    answered: int = 0
    parts: dict[int, R] = field(default_factory=dict)

    def answer(self, slice_: "Slice[Q, R]", outcome: R) -> None:
        """Note the outcome of a slice of its units."""
        self.parts[slice_.start] = outcome
        self.answered += slice_.stop - slice_.start

    @property
    def complete(self) -> bool:
        """Whether all its units have an outcome."""
        return self.answered == self.units


@dataclass(frozen=True, slots=True, eq=False)
class Slice(Generic[Q, R]):
    """The units of a request, from `start` to before `stop`, that are in one call."""

    request: Request[Q, R]
    start: int
    stop: int


class Backlog(Generic[Q, R]):
    """The waiting requests of one batch key, and how many of its calls are under way."""

    def __init__(self, batching: BatchingPolicy[Q, R], max_concurrency: int) -> None:
        self._batching = batching
        self._most = max_concurrency if max_concurrency > 0 else sys.maxsize
        self._waiting: list[Request[Q, R]] = []
        self._took: deque[float] = deque(maxlen=LATEST_CALLS)
        self.in_flight = 0

    def put(self, request: Request[Q, R]) -> None:
        """Add a request."""
        insort(self._waiting, request, key=_deadline)

    def withdraw(self, request: Request[Q, R]) -> None:
        """Remove a request; its slices in calls stay there."""
        if request.taken < request.units:
            self._waiting.remove(request)
            request.taken = request.units

    def hopeless(self, now: float) -> list[Request[Q, R]]:
        """Remove and return the requests that can't be answered in time."""
        soonest = now
        if self.in_flight and self._took:
            soonest += min(self._took)
        late = [request for request in self._waiting if request.deadline <= soonest]
        for request in late:
            self.withdraw(request)
        return late

    def take(self) -> list[Slice[Q, R]]:
        """The slices of the next call, under way until `freed`; none if no request waits or no call may start."""
        if not self._waiting or self.in_flight >= self._most:
            return []
        slices = []
        for request, count in zip(self._waiting, self._batching.select(self._queue()), strict=False):
            if count:
                slices.append(Slice(request, request.taken, request.taken + count))
                request.taken += count
        self._waiting = [request for request in self._waiting if request.taken < request.units]
        self.in_flight += 1
        return slices

    def freed(self, took: float | None) -> None:
        """A call has ended; `took` is its duration in seconds, None if it brought no answers."""
        self.in_flight -= 1
        if took is not None:
            self._took.append(took)

    def _queue(self) -> Iterator[Waiting[Q]]:
        return (Waiting(request.query, request.taken) for request in self._waiting)


def _deadline(request: Request[Q, R]) -> float:
    return request.deadline
