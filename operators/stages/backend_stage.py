"""A stage that asks one backend for each query: what such stages have in common.

The stage asks for what the query needs, takes over the outcome, notes a loss in the query, and records the step for
results with `debug` and the span for the trace. A stage whose backend is not configured is not built.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import monotonic
from typing import ClassVar, Generic, TypeVar

from bytewax.dataflow import Stream, operator
from opentelemetry.trace import SpanKind

from operators.query.in_flight import InFlight
from operators.query.message import Rejected
from operators.query.trace import Attributes
from operators.runtime.async_io import async_io
from operators.runtime.batching.policy import BatchingPolicy
from operators.runtime.dispatcher import BatchKey, Bounds, Finished
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.load import Load
from operators.runtime.stage import Batch, applied, stage
from schemas.errors import BackendError

Q = TypeVar("Q")
R = TypeVar("R")

Queries = Batch[InFlight]
"""A batch of queries."""


class BackendStage(ABC, Generic[Q, R]):
    """What a stage asks its backend for a query, and what it makes of the outcome.

    `name` is what the stage's losses are called in results, `step` what it is called among the steps of the query.
    `counts`: the number of candidates after the step is of interest.
    """

    name: ClassVar[str]
    counts: ClassVar[bool] = False
    bounds: Bounds

    @property
    def step(self) -> str:
        """The step's name, for results with `debug`."""
        return self.name

    @property
    def batching(self) -> BatchingPolicy[Q, R] | None:
        """What decides how requests become calls; None: so many requests a call as the bounds say."""
        return None

    @property
    def load(self) -> Load | None:
        """What is told of the stage's calls."""
        return None

    def wanted(self, query: InFlight) -> bool:  # noqa: ARG002  for stages that can tell
        """Whether the query may need the backend; if not, it goes on at once. On the worker's thread."""
        return True

    @abstractmethod
    def requests(self, query: InFlight) -> Mapping[BatchKey, Q]:
        """The query's request, if it needs one. On the event loop's thread."""

    @abstractmethod
    async def call(self, batch_key: BatchKey, requests: Sequence[Q], timeout: float) -> Sequence[R | BackendError]:
        """One call for many requests, within `timeout` seconds; an outcome each. On the event loop's thread."""

    @abstractmethod
    def take(self, query: InFlight, outcome: R) -> None:
        """Take over what the backend answered. On the worker's thread."""

    @abstractmethod
    def span(self, query: InFlight) -> tuple[str, Attributes]:
        """The name and the attributes of the query's span."""

    def unasked(self, query: InFlight) -> None:
        """The backend was not asked for this query."""

    def lost(self, query: InFlight) -> None:
        """The backend was asked for this query, and gave no answer; the loss itself is noted already."""

    def finish(self, finished: Finished[InFlight, R]) -> InFlight:
        """Take over a query's outcome."""
        query = finished.item
        if not finished.outcomes:
            self.unasked(query)
            return query
        [outcome] = finished.outcomes.values()
        error = None
        if isinstance(outcome, BackendError):
            error = outcome.reason
            query.lose(self.name, error)
            self.lost(query)
        else:
            self.take(query, outcome)
        query.passed(self.step, len(query.outcome.candidates) if self.counts else None)
        if query.trace.recording:
            name, attributes = self.span(query)
            query.trace.child(name, query.started, attributes, error=error, kind=SpanKind.CLIENT)
        return query


@operator
def query_io(
    step_id: str,
    up: Stream[Queries],
    name: str,
    requests: Callable[[InFlight], Mapping[BatchKey, Q]],
    call: Callable[[BatchKey, Sequence[Q], float], Awaitable[Sequence[R | BackendError]]],
    take: Callable[[Finished[InFlight, R]], InFlight | None],
    calls: EventLoopThread,
    bounds: Bounds,
    wanted: Callable[[InFlight], bool] = lambda _: True,
    batching: BatchingPolicy[Q, R] | None = None,
    load: Load | None = None,
) -> Stream[Queries]:
    """Asynchronous calls for queries: each has until its deadline, and its clock starts with the stage.

    `name` is the stage's in dead letters. `load` is told of its calls.
    """

    def begun(query: InFlight) -> Mapping[BatchKey, Q]:
        query.started = monotonic()
        return requests(query)

    def taken(finished: Sequence[Finished[InFlight, R]]) -> list[InFlight | Rejected]:
        return applied(name, finished, take, _item)

    return async_io("calls", up, calls, begun, call, _deadline, bounds, taken, wanted, batching, load)


@operator
def ask(
    step_id: str,
    up: Stream[Queries],
    part: BackendStage[Q, R] | None,
    calls: EventLoopThread,
) -> Stream[Queries]:
    """Queries in and on, with what the backend answered; without a `part` nothing is built."""
    if part is None:
        return up
    return query_io(
        "backend",
        up,
        part.step,
        part.requests,
        part.call,
        part.finish,
        calls,
        part.bounds,
        part.wanted,
        part.batching,
        part.load,
    )


@operator
def pure(step_id: str, up: Stream[Queries], name: str, step: Callable[[InFlight], InFlight | None]) -> Stream[Queries]:
    """Queries in and on, after a step that calls no backend; `name` is the stage's in dead letters."""
    return stage("stage", up, name, step, lambda query: query)


def _deadline(query: InFlight) -> float:
    return query.deadline


def _item(finished: Finished[InFlight, R]) -> InFlight:
    return finished.item
