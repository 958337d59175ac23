"""A backlog in simulated time: requests arrive, one server after the other's time answers calls, deadlines pass."""

import heapq
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from operators.runtime.batching.backlog import Backlog, PendingRequest, Slice
from schemas.errors import BackendTimeout

LATE = BackendTimeout("late")


@dataclass(frozen=True)
class Arrival:
    """A request that comes at a time, and has so many seconds."""

    at: float
    units: int
    tenant: str
    timeout: float


@dataclass(eq=False)
class Call:
    """A call under way, and when it began."""

    slices: list[Slice[str, str]]
    began: float
    ended: bool = False

    @property
    def units(self) -> int:
        """The number of its units."""
        return sum(each.stop - each.start for each in self.slices)


@dataclass
class Simulation:
    """Runs arrivals through a backlog whose calls of n units take `takes(n)` seconds; `calls` are their units.

    `least`: how few units are an outcome; None: all of them alone.
    """

    backlog: Backlog[str, str]
    takes: Callable[[int], float]
    least: int | None = 2
    calls: list[int] = field(default_factory=list)
    _live: dict[PendingRequest[str, str], Arrival] = field(default_factory=dict)
    _under_way: list[Call] = field(default_factory=list)
    _depths: dict[Arrival, int] = field(default_factory=dict)
    _events: list[tuple[float, int, Callable[[float], None]]] = field(default_factory=list)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def run(self, arrivals: Iterable[Arrival]) -> dict[Arrival, int]:
        """The number of units of each that were answered in time, from the first on."""
        for each in arrivals:
            self._at(each.at, partial(self._come, each))
        while self._events:
            now, _, happens = heapq.heappop(self._events)
            happens(now)
            self._fill(now)
        return self._depths

    def _at(self, when: float, happens: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), happens))

    def _come(self, each: Arrival, now: float) -> None:
        request: PendingRequest[str, str] = PendingRequest(
            each.tenant * each.units, now + each.timeout, each.units, each.tenant
        )
        self._live[request] = each
        self.backlog.put(request)
        self._at(request.deadline, lambda now: self._cut(request, request.answered, now))

    def _cut(self, request: PendingRequest[str, str], units: int, now: float) -> None:
        if request in self._live:
            self.backlog.truncate(request, units if self.least is not None and units >= self.least else 0, LATE)
            if request.complete:
                self._leave(request, now)

    def _leave(self, request: PendingRequest[str, str], now: float) -> None:
        self._depths[self._live.pop(request)] = request.answered
        for call in self._under_way:
            if not call.ended and not any(each.request in self._live for each in call.slices):
                call.ended = True
                self.backlog.on_call_end(call.units, now - call.began, answered=False)

    def _fill(self, now: float) -> None:
        while True:
            for request in self.backlog.expired(now):
                self._cut(request, request.taken, now)
            slices = self.backlog.take(now)
            if not slices:
                return
            call = Call(slices, now)
            self.calls.append(call.units)
            self._under_way.append(call)
            self._at(now + self.takes(call.units), partial(self._end, call))

    def _end(self, call: Call, now: float) -> None:
        if call.ended:
            return
        call.ended = True
        self._under_way.remove(call)
        self.backlog.on_call_end(call.units, now - call.began)
        for each in call.slices:
            request = each.request
            if request in self._live and each.start < request.units:
                request.answer(each, request.query[each.start : each.stop])
                if request.complete:
                    self._leave(request, now)
