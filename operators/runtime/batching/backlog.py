"""The backlog of one backend: requests in, calls out. A request is divided into slices, and has an outcome of each.

Rules:
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

Whatever the policy, tenants share a backend that can't serve all in time, by max-min fairness: one that needs less than
an equal part of the units gets all it needs, and the others share the rest equally. So no tenant's load reduces the
share that another needs. The tenant that was served least goes first.

Sources: start-time fair queueing (Goyal et al. 1997); max-min fairness as in Bertsekas and Gallager, *Data Networks*,
1992; the parts are the slopes of the greatest convex minorant of served over demanded units (Barlow et al. 1972), the
lowest first.

Pure: time is an argument, in seconds on any steady clock; the calls are made elsewhere.
"""

import heapq
import math
import sys
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from operator import attrgetter
from typing import Final, Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from operators.runtime.batching.call_times import CallTimes
from operators.runtime.batching.policy import BatchingPolicy, Outcome, Request, Waiting
from schemas.errors import BackendError

PLANNED: Final = 0.8
"""The part of the time left that is planned with; the rest is for calls that take longer than expected."""

_DEADLINE: Final = attrgetter("deadline")
_UNITS: Final = attrgetter("units")


@dataclass(slots=True, eq=False)
class PendingRequest(Generic[Request, Outcome]):
    """One request of `units`; `taken` of them are in calls, or have an outcome already.

    `tenant` is the tenant that it is made for. A truncated request has fewer units than it was made with; `lost` says
    why, None if it is time that was too short.
    """

    query: Request
    deadline: float
    units: int
    tenant: object = None
    taken: int = 0
    lost: BackendError | None = None
    whole: bool = True
    parts: "dict[int, tuple[int, Outcome]]" = field(default_factory=dict)

    def answer(self, slice_: "Slice[Request, Outcome]", outcome: Outcome) -> None:
        """Note the outcome of a slice of its units."""
        self.parts[slice_.start] = slice_.stop, outcome

    def truncate(self, units: int, lost: BackendError | None = None) -> None:
        """Truncate to the first `units` units; discard later outcomes."""
        if units < self.units:
            self.units = units
            self.whole = False
            self.lost = lost
            self.taken = min(self.taken, units)
            self.parts = {start: part for start, part in self.parts.items() if start < units}

    @property
    def answered(self) -> int:
        """The number of units that have an outcome, from the first on without a gap."""
        end = 0
        while (part := self.parts.get(end)) is not None:
            end = part[0]
        return end

    @property
    def complete(self) -> bool:
        """True if all its units have an outcome."""
        return self.answered >= self.units

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcomes of its slices, in the order of their units."""
        return [self.parts[start][1] for start in sorted(self.parts)]


@dataclass(frozen=True, slots=True, eq=False)
class Slice(Generic[Request, Outcome]):
    """The units of a request, from `start` to before `stop`, that are in one call; `entire`: all that it came with."""

    request: PendingRequest[Request, Outcome]
    start: int
    stop: int
    entire: bool = False


Offer = tuple[PendingRequest[Request, Outcome], int]
"""A request, and the unit before which its calls must stop."""


class Demands(NamedTuple):
    """Demands in the order of their times: the units of each, and the seconds `left` for it, both above 0."""

    units: NDArray[np.float64]
    left: NDArray[np.float64]


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
        self.waiting += request.units
        # Most come in the order of their deadlines.
        if self._waiting and request.deadline < self._waiting[-1].deadline:
            insort(self._waiting, request, key=_DEADLINE)
        else:
            self._waiting.append(request)

    def truncate(self, request: PendingRequest[Request, Outcome], units: int, lost: BackendError) -> None:
        """Truncate a request to its first `units` units, the later ones are lost; its slices in calls stay there."""
        if waiting := request.units - request.taken:
            self._waiting.remove(request)
            self.waiting -= waiting
        request.truncate(units, lost)

    def expired(self, now: float) -> list[PendingRequest[Request, Outcome]]:
        """The requests whose waiting units can't be answered in time."""
        soonest = now
        if self.in_flight:
            least = self._batching.least
            quickest = self._times.quickest
            soonest += quickest if least is None else min(quickest, self._times.takes(least))
        return self._waiting[: bisect_right(self._waiting, soonest, key=_DEADLINE)]

    def take(self, now: float) -> list[Slice[Request, Outcome]]:
        """The slices of the next call, under way until `on_call_end`; none if no request waits or no call may start."""
        if not self._waiting or self.in_flight >= self._most:
            return []
        offered: list[Offer[Request, Outcome]] = []
        batching = self._batching
        counts = batching.select(_queue(self._order(now), offered))
        if batching.least is not None:
            counts = self._in_time(offered, counts, batching.least, now)
        slices = []
        for (request, stop), count in zip(offered, counts, strict=False):
            if count:
                entire = request.whole and count == request.units
                slices.append(Slice(request, request.taken, request.taken + count, entire))
                self.waiting -= request.units - request.taken
                request.taken += count
                last = stop if batching.divides else request.taken
                if last < request.units:
                    request.truncate(last)
                if left := request.units - request.taken:
                    self.waiting += left
                else:
                    self._waiting.remove(request)
                if self._served:
                    self._served[request.tenant] += count
        self.in_flight += 1
        return slices

    def on_call_end(self, units: int, took: float | None, *, answered: bool = True) -> None:
        """Called when a call of `units` units ends; `took` is its duration in seconds, None if it is not typical."""
        self.in_flight -= 1
        if took is not None:
            self._times.note(units, took, answered=answered)

    def _order(self, now: float) -> Iterable[Offer[Request, Outcome]]:
        """The waiting requests in the order in which they are served, and how many units each may have in all."""
        rate = self._most * self._times.rate
        alone = self._batching.least is None and len(self._tenants) < 2
        # Looked at one by one only where the first would be late if all were served before it: many may wait.
        if not alone and not math.isinf(rate) and self.waiting > rate * PLANNED * (self._waiting[0].deadline - now):
            demands = _demands(self._waiting, now, rate)
            if not fits(demands, rate):
                return self._share(demands, rate)
        self._served.clear()
        return zip(self._waiting, map(_UNITS, self._waiting), strict=True)

    def _share(self, every: Demands, rate: float) -> Iterator[Offer[Request, Outcome]]:
        """The same where not all can be served in time."""
        tenants: dict[object, list[int]] = {}
        for place, request in enumerate(self._waiting):
            tenants.setdefault(request.tenant, []).append(place)
        demands = [Demands(every.units[places], every.left[places]) for places in tenants.values()]
        needs = [needed_rate(each) for each in demands]
        rates = max_min(needs, rate)
        # A tenant that comes, or comes again, has no claim to what it did not ask for before.
        earliest = min((self._served[tenant] for tenant in tenants if tenant in self._served), default=0.0)
        queues: list[tuple[float, float, int, Iterator[Offer[Request, Outcome]]]] = []
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
    ) -> Iterator[Offer[Request, Outcome]]:
        """A tenant's requests, each with its share of units; if these are too few for all, some of them alone."""
        least = self._batching.least
        if least is None:
            yield from ((request, request.units) for request in asked)
            return
        credit = 0.0
        for place, (request, units, share) in enumerate(zip(asked, demanded, shares, strict=False)):
            left = request.units - request.taken
            credit += share * units
            fewest = min(least, left)
            # What was begun is finished: it has had its share.
            part = left if request.taken else min(left, max(int(credit), fewest if not place else 0))
            if part >= fewest:
                credit -= part
                yield request, request.taken + part

    def _in_time(
        self, offered: Sequence[Offer[Request, Outcome]], counts: Sequence[int], least: int, now: float
    ) -> list[int]:
        """The units of each that the call takes, to be answered before the deadline of each request in it."""
        left, total, taken = math.inf, 0, []
        for (request, _), count in zip(offered, counts, strict=False):
            sooner = min(left, PLANNED * (request.deadline - now))
            fitting = min(count, self._times.within(sooner) - total)
            fewest = min(least, count) if self._batching.divides or not total else count
            # The first request goes in any case.
            units = int(max(fitting, fewest if not total else 0))
            if not count or units < fewest:
                units = 0
            else:
                left, total = sooner, total + units
            taken.append(units)
        return taken


def _queue(
    order: Iterable[Offer[Request, Outcome]], offered: list[Offer[Request, Outcome]]
) -> Iterator[Waiting[Request]]:
    for request, stop in order:
        offered.append((request, stop))
        yield Waiting(request.query, request.taken, stop)


def _demands(waiting: Sequence[PendingRequest[Request, Outcome]], now: float, rate: float) -> Demands:
    deadlines = np.array([request.deadline for request in waiting])
    # A request whose time is over is expired, and gone, before calls are made.
    left = np.maximum(PLANNED * (deadlines - now), sys.float_info.epsilon)
    # What could not be served even alone is no demand: others' time must not depend on it.
    return Demands(np.minimum([request.units - request.taken for request in waiting], rate * left), left)


def fits(demands: Demands, rate: float) -> bool:
    """True if a backend of that rate serves all demands in time."""
    return bool(np.all(np.cumsum(demands.units) <= rate * demands.left))


def needed_rate(demands: Demands) -> float:
    """The smallest rate at which all demands are served in time."""
    return float(np.max(np.cumsum(demands.units) / demands.left))


def max_min(needs: Sequence[float], rate: float) -> list[float]:
    """Each tenant's share of the rate, by the tenants' needs."""
    shares = [0.0] * len(needs)
    left = rate
    for served, index in enumerate(sorted(range(len(needs)), key=needs.__getitem__)):
        shares[index] = min(needs[index], left / (len(needs) - served))
        left -= shares[index]
    return shares


def shares_in_time(demands: Demands, rate: float) -> Iterator[float]:
    """Which part of each demand, from 0 to 1, a backend of that rate serves in time.

    The parts never fall from one demand to the next. Each is worked out when it is taken: a call needs only the first.
    """
    units, served = np.cumsum(demands.units), rate * demands.left
    begin, before, served_before = 0, 0.0, 0.0
    while begin < len(units):
        slopes = (served[begin:] - served_before) / (units[begin:] - before)
        lowest = int(np.argmin(slopes))
        part, count = float(slopes[lowest]), lowest + 1
        if part >= 1:
            part, count = 1.0, len(slopes)
        yield from repeat(part, count)
        begin += count
        before, served_before = units[begin - 1], served[begin - 1]
