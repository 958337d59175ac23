"""The backlog of one backend: requests in, calls out.

Rules
-----
- The request with the earliest deadline goes first; of equal deadlines, the one that came first.
- Natural batching: while a backend is busy, requests queue and are sent as one batch; an idle backend gets the request
  immediately. No request waits for others to come.
- At most `max_concurrency` calls are under way; 0 or less is no limit.
- A request is divided into slices if its batching policy divides it. It has its outcome when all its units have one.
- A request that can't be answered in time isn't sent. It is expired once its deadline has passed; while the backend is
  busy, also when it has less time left than the quickest of the latest calls took, and than a call of the fewest units
  would take that its policy shortens it to. An idle backend gets the request in any case, for it may have become
  quicker. A request is expired for its waiting units alone: those that were sent may still be answered.

Where a policy shortens requests, time decides how much of them is sent, by the times that the latest calls took:
- A call carries no more than can be answered before the deadline of any request in it.
- If not all that waits can be served in time, each request is served in part, in equal parts as far as their times
  allow, and nothing is lost as long as that is possible.

Whatever the policy, tenants share a backend that can't serve all in time: each has an equal share of the units, or what
it needs if that is less, and the tenant that was served least goes first (start-time fair queueing, Goyal et al. 1997).

Pure: time is an argument, in seconds on any steady clock; the calls are made elsewhere.
"""

import heapq
import math
import sys
from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat, takewhile
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from operators.runtime.batching.call_times import CallTimes
from operators.runtime.batching.fair_shares import Demands, fits, max_min, needed_rate, shares_in_time
from operators.runtime.batching.policy import BatchingPolicy, Waiting
from operators.runtime.batching.request import PendingRequest, Slice
from schemas.errors import BackendError

Request = TypeVar("Request")
Outcome = TypeVar("Outcome")

PLANNED: Final = 0.8
"""The part of the time left that is planned with; the rest is for calls that take longer than expected."""


class Backlog(Generic[Request, Outcome]):
    """The waiting requests of one batch key, how many units they wait with, and how many of its calls are under way."""

    def __init__(self, batching: BatchingPolicy[Request, Outcome], max_concurrency: int) -> None:
        self._batching = batching
        self._most = max_concurrency if max_concurrency > 0 else sys.maxsize
        self._waiting: list[PendingRequest[Request, Outcome]] = []
        self._times = CallTimes()
        self._tenants: set[object] = set()
        self._served: dict[object, float] = {}
        self.waiting = 0
        self.in_flight = 0

    def put(self, request: PendingRequest[Request, Outcome]) -> None:
        """Add a request."""
        if not self._waiting:
            self._tenants.clear()
        self._tenants.add(request.tenant)
        self.waiting += request.waiting
        # Most come in the order of their deadlines.
        if self._waiting and request.deadline < self._waiting[-1].deadline:
            insort(self._waiting, request, key=_deadline)
        else:
            self._waiting.append(request)

    def truncate(self, request: PendingRequest[Request, Outcome], units: int, lost: BackendError) -> None:
        """Truncate a request to its first `units` units, the later ones are lost; its slices in calls stay there."""
        if request.waiting:
            self._waiting.remove(request)
            self.waiting -= request.waiting
        request.truncate(units, lost)

    def expired(self, now: float) -> list[PendingRequest[Request, Outcome]]:
        """The requests whose waiting units can't be answered in time."""
        if not self._waiting:
            return []
        soonest = now
        if self.in_flight:
            least = self._batching.least
            quickest = self._times.quickest
            soonest += quickest if least is None else min(quickest, self._times.takes(least))
        return list(takewhile(lambda request: request.deadline <= soonest, self._waiting))

    def take(self, now: float) -> list[Slice[Request, Outcome]]:
        """The slices of the next call, under way until `on_call_end`; none if no request waits or no call may start."""
        if not self._waiting or self.in_flight >= self._most:
            return []
        offered: list[tuple[PendingRequest[Request, Outcome], int]] = []
        counts = self._batching.select(_queue(self._order(now), offered))
        slices = []
        for (request, stop), count in zip(offered, self._in_time(offered, counts, now), strict=False):
            if count:
                slices.append(Slice(request, request.taken, request.taken + count))
                before = request.waiting
                request.taken += count
                request.truncate(stop if self._batching.divides else request.taken)
                left = request.waiting
                self.waiting += left - before
                if not left:
                    self._waiting.remove(request)
                if self._served:
                    self._served[request.tenant] += count
        self.in_flight += 1
        return slices

    def on_call_end(self, units: int, took: float | None, *, answered: bool = True) -> None:
        """Called when a call of `units` units ends; `took` is its duration in seconds, None if it is not typical."""
        self.in_flight -= 1
        if took is None:
            return
        if answered:
            self._times.answered(units, took)
        else:
            self._times.unanswered(units, took)

    def _order(self, now: float) -> Iterable[tuple[PendingRequest[Request, Outcome], int]]:
        """The waiting requests in the order in which they are served, and how many units each may have in all."""
        rate = self._most * self._times.rate
        alone = self._batching.least is None and len(self._tenants) < 2
        # Looked at one by one only where the first would be late if all were served before it: many may wait.
        if not alone and not math.isinf(rate) and self.waiting > rate * PLANNED * (self._waiting[0].deadline - now):
            demands = _demands(self._waiting, now, rate)
            if not fits(demands, rate):
                return self._share(demands, rate)
        self._served.clear()
        return ((request, request.units) for request in self._waiting)

    def _share(self, every: Demands, rate: float) -> Iterator[tuple[PendingRequest[Request, Outcome], int]]:
        """The same where not all can be served in time."""
        tenants: dict[object, list[int]] = {}
        for place, request in enumerate(self._waiting):
            tenants.setdefault(request.tenant, []).append(place)
        demands = [Demands(every.units[places], every.left[places]) for places in tenants.values()]
        needs = [needed_rate(each) for each in demands]
        rates = max_min(needs, rate)
        # A tenant that comes, or comes again, has no claim to what it did not ask for before.
        earliest = min((self._served[tenant] for tenant in tenants if tenant in self._served), default=0.0)
        queues: list[tuple[float, float, int, Iterator[tuple[PendingRequest[Request, Outcome], int]]]] = []
        for number, (tenant, places) in enumerate(tenants.items()):
            self._served[tenant] = served = max(earliest, self._served.get(tenant, earliest))
            served_whole = rates[number] >= needs[number]
            shares = repeat(1.0) if served_whole else shares_in_time(demands[number], rates[number])
            asked = [self._waiting[place] for place in places]
            queue = self._shorten(asked, demands[number].units, shares)
            queues.append((served, asked[0].deadline, number, queue))
        heapq.heapify(queues)
        while queues:
            served, _, number, queue = heapq.heappop(queues)
            if (following := next(queue, None)) is not None:
                request, stop = following
                yield following
                heapq.heappush(queues, (served + stop - request.taken, request.deadline, number, queue))

    def _shorten(
        self, asked: Sequence[PendingRequest[Request, Outcome]], demanded: NDArray[np.float64], shares: Iterable[float]
    ) -> Iterator[tuple[PendingRequest[Request, Outcome], int]]:
        """A tenant's requests, each with its share of units; if these are too few for all, some of them alone."""
        least = self._batching.least
        if least is None:
            yield from ((request, request.units) for request in asked)
            return
        credit = 0.0
        for place, (request, units, share) in enumerate(zip(asked, demanded, shares, strict=False)):
            left = request.waiting
            credit += share * units
            fewest = min(least, left)
            # What was begun is finished: it has had its share.
            part = left if request.taken else min(left, max(int(credit), fewest if not place else 0))
            if part >= fewest:
                credit -= part
                yield request, request.taken + part

    def _in_time(
        self, offered: Sequence[tuple[PendingRequest[Request, Outcome], int]], counts: Sequence[int], now: float
    ) -> Iterator[int]:
        """The units of each that the call takes, to be answered before the deadline of each request in it."""
        least = self._batching.least
        if least is None:
            yield from counts
            return
        left, total = math.inf, 0
        for (request, _), count in zip(offered, counts, strict=False):
            sooner = min(left, PLANNED * (request.deadline - now))
            fitting = min(count, self._times.within(sooner) - total)
            fewest = min(least, count) if self._batching.divides or not total else count
            # The first request goes in any case.
            units = int(max(fitting, fewest if not total else 0))
            if not count or units < fewest:
                yield 0
                continue
            left, total = sooner, total + units
            yield units


def _queue(
    order: Iterable[tuple[PendingRequest[Request, Outcome], int]],
    offered: list[tuple[PendingRequest[Request, Outcome], int]],
) -> Iterator[Waiting[Request]]:
    for request, stop in order:
        offered.append((request, stop))
        yield Waiting(request.query, request.taken, stop)


def _deadline(request: PendingRequest[Request, Outcome]) -> float:
    return request.deadline


def _demands(waiting: Sequence[PendingRequest[Request, Outcome]], now: float, rate: float) -> Demands:
    deadlines = np.array([request.deadline for request in waiting])
    # A request whose time is over is expired, and gone, before calls are made.
    left = np.maximum(PLANNED * (deadlines - now), sys.float_info.epsilon)
    # What could not be served even alone is no demand: others' time must not depend on it.
    units = np.minimum([request.units - request.taken for request in waiting], rate * left)
    return Demands(units, left)
