"""The backlog of one backend: requests in, calls out.

Rules
-----
- Earliest deadline first; of equal deadlines the first come.
- Natural batching: while a call may be made, `take` gives the next one with what is there; while none may, requests
  gather. Nothing lingers.
- At most `max_concurrency` calls are under way; 0 or less is no bound.
- A request is divided if its gathering divides it. It has its outcome when all its units have one, or with the first
  of them that failed: then the rest of it isn't sent any more.
- What can't make it isn't sent: a request is hopeless once its deadline has passed, and, while the backend is busy,
  when less is left to it than the quickest of the latest calls took. An idle backend is asked in any case, for it may
  have become quicker.

Pure: time is an argument, in seconds on any steady clock; calls are made elsewhere.
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
"""How many calls back the quickest one is looked for."""


@dataclass(slots=True, eq=False)
class Request(Generic[Q, R]):
    """One request: `taken` of its `units` are in calls or answered."""

    query: Q
    deadline: float
    units: int
    taken: int = 0
    answered: int = 0
    parts: dict[int, R] = field(default_factory=dict)

    def answer(self, slice_: "Slice[Q, R]", outcome: R) -> None:
        """Take in the outcome of some of its units."""
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
    """What waits for one backend, and how many calls to it are under way."""

    def __init__(self, batching: BatchingPolicy[Q, R], max_concurrency: int) -> None:
        self._batching = batching
        self._most = max_concurrency if max_concurrency > 0 else sys.maxsize
        self._waiting: list[Request[Q, R]] = []
        self._took: deque[float] = deque(maxlen=LATEST_CALLS)
        self.in_flight = 0

    def put(self, request: Request[Q, R]) -> None:
        """Let a request wait for its turn."""
        insort(self._waiting, request, key=_deadline)

    def withdraw(self, request: Request[Q, R]) -> None:
        """Let a request wait no more; what is in calls already stays there."""
        if request.taken < request.units:
            self._waiting.remove(request)
            request.taken = request.units

    def hopeless(self, now: float) -> list[Request[Q, R]]:
        """Withdraw and return the requests that can't be answered in time."""
        soonest = now
        if self.in_flight and self._took:
            soonest += min(self._took)
        late = [request for request in self._waiting if request.deadline <= soonest]
        for request in late:
            self.withdraw(request)
        return late

    def take(self) -> list[Slice[Q, R]]:
        """The next call, which is under way until `freed`; empty if nothing waits or no call may be made."""
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
        """A call has ended; `took` are its seconds, if it brought answers."""
        self.in_flight -= 1
        if took is not None:
            self._took.append(took)

    def _queue(self) -> Iterator[Waiting[Q]]:
        return (Waiting(request.query, request.taken) for request in self._waiting)


def _deadline(request: Request[Q, R]) -> float:
    return request.deadline
