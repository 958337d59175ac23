"""The metrics of one flow: each instrument bound to the flow's label.

An instrument's child is looked up by its labels once, and by C code from then on: a query is counted some twenty times.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from prometheus_client import Counter, Gauge

from operators.telemetry.instruments import Histogram, Instruments

M = TypeVar("M", Counter, Gauge, Histogram)

OK: Final = "ok"


class Children(dict[tuple[str, ...], M], Generic[M]):
    """An instrument's children by their labels, in the instrument's order without `flow`."""

    def __init__(self, instrument: M, flow: str) -> None:
        super().__init__()
        self.instrument: M = instrument
        self._flow = flow

    def __missing__(self, labels: tuple[str, ...]) -> M:
        child: M = self.instrument.labels(self._flow, *labels)
        self[labels] = child
        return child

    def remove(self, *labels: str) -> None:
        """Stop exporting the metric with these labels."""
        if self.pop(labels, None) is not None:
            self.instrument.remove(self._flow, *labels)


class FlowMetrics:
    """The metrics of one flow."""

    def __init__(self, instruments: Instruments, flow: str) -> None:
        i, self._flow = instruments, flow
        self._instruments = instruments
        self.received = i.received.labels(flow)
        self.answered = Children(i.answered, flow)
        self.latency = Children(i.latency, flow)
        self.applied = i.applied.labels(flow)
        self.unreadable = i.unreadable.labels(flow)
        self.dead_letters = Children(i.dead_letters, flow)
        self.degraded = Children(i.degraded, flow)
        self.legs = Children(i.legs, flow)
        self.stages = Children(i.stages, flow)
        self.lookups = Children(i.lookups, flow)
        self.removed = i.removed.labels(flow)
        self.policies_refused = i.policies_refused.labels(flow)
        self.decayed = i.decayed.labels(flow)
        self.lag = Children(i.lag, flow)
        self.unstable = Children(i.unstable, flow)
        self.rebalances = Children(i.rebalances, flow)
        self.transactions = Children(i.transactions, flow)
        self.transaction_duration = i.transaction_duration.labels(flow)
        self.replacements = i.replacements.labels(flow)
        self.abandoned = i.abandoned.labels(flow)
        self.drains = Children(i.drains, flow)

    def watch(
        self, in_flight: Callable[[], int], credit: Callable[[], int], idle: Callable[[], float], idle_limit: float
    ) -> None:
        """Call these whenever the metrics are collected; `idle` and its limit in seconds."""
        self._instruments.in_flight.labels(self._flow).set_function(in_flight)
        self._instruments.credit.labels(self._flow).set_function(credit)
        self._instruments.idle.labels(self._flow).set_function(idle)
        self._instruments.idle_limit.labels(self._flow).set(idle_limit)

    def table(self, name: str, size: Callable[[], int]) -> None:
        """Call this for the number of a table's entries, whenever the metrics are collected."""
        self._instruments.table_entries.labels(self._flow, name).set_function(size)

    def load(self, stage: str, limit: int) -> "StageLoad":
        """The metrics of a stage's calls, of which `limit` may be under way; 0 or less is no limit."""
        i, flow = self._instruments, self._flow
        i.calls_limit.labels(flow, stage).set(max(limit, 0))
        return StageLoad(i.calls.labels(flow, stage), i.batch.labels(flow, stage), i.queue_wait.labels(flow, stage))

    def backend(self, name: str) -> "BackendMetrics":
        """The metrics of the requests to a backend."""
        i, flow = self._instruments, self._flow
        return BackendMetrics(name, Children(i.requests, flow), i.request_duration.labels(flow, name), i.breaker, flow)


class StageLoad:
    """The calls of one stage: their number under way, their sizes, and the waits of their requests."""

    def __init__(self, calls: Gauge, batch: Histogram, queue_wait: Histogram) -> None:
        self._calls = calls
        self._batch = batch
        self._queue_wait = queue_wait

    def began(self, units: int, waited: float) -> None:
        """A call begins with this number of units, of which one waited longest, `waited` seconds."""
        self._batch.observe(units)
        self._queue_wait.observe(waited)

    def under_way(self, calls: int) -> None:
        """This number of calls is under way now."""
        self._calls.set(calls)


class BackendMetrics:
    """The requests to one backend."""

    def __init__(self, name: str, requests: Children[Counter], duration: Histogram, breaker: Gauge, flow: str) -> None:
        self._name = name
        self._requests = requests
        self._duration = duration
        self._breaker = breaker.labels(flow, name)

    def answered(self, seconds: float) -> None:
        """A request was answered."""
        self._requests[self._name, OK].inc()
        self._duration.observe(seconds)

    def failed(self, reason: str) -> None:
        """A request failed, for this reason."""
        self._requests[self._name, reason].inc()

    def watch_breaker(self, is_open: Callable[[], bool]) -> None:
        """Call this whenever the metrics are collected."""
        self._breaker.set_function(is_open)
