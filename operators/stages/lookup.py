"""Lookup: how far the index is, and whether the query is answered already, or by one that is under way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final, Protocol

from bytewax.dataflow import Stream, operator

from operators.query.in_flight import InFlight
from operators.runtime.dispatcher import BatchKey, Bounds, Finished
from operators.runtime.event_loop import EventLoopThread
from operators.stages.answers import Answers, Watermark
from operators.stages.backend_stage import Queries, query_io
from schemas.errors import BackendError

_BATCH_KEY: Final = "watermarks"
_NONE: Final[Watermark] = ()
_MOST: Final = 4096
_CALLS: Final = 2
"""One call that hangs, and one that notices that it does."""

Namespace = tuple[str, str]
"""A Qdrant collection and a namespace of it."""

Marked = tuple[Watermark, int]
"""A namespace's watermark, and the generation of the watermarks."""


class Watermarks(Protocol):
    """What follows the watermarks topic."""

    async def caught_up(self, timeout: float) -> None:
        """Return once everything is read that the topic held when this was called. Raises BackendError."""
        ...

    def read_since(self, moment: float) -> bool:
        """Whether everything is read that the topic held at this moment of the monotonic clock."""
        ...

    @property
    def behind(self) -> bool:
        """Whether the topic couldn't be read when that was tried last: what is known may be of any age."""
        ...

    def of(self, collection: str, namespace: str) -> Watermark:
        """How far the namespace is indexed; empty if nothing says so."""
        ...

    @property
    def generation(self) -> int:
        """How often a watermark went back: from there it may become once more what it was for other documents."""
        ...


@dataclass(frozen=True)
class Lookup:
    """Asks how far each query's namespace is indexed, and looks its answer up.

    `timeout` is how long, in seconds, a query waits for the watermark; then the caches are passed by.
    """

    answers: Answers
    watermarks: Watermarks
    timeout: float

    @property
    def bounds(self) -> Bounds:
        """The watermarks end a wait by themselves, and know then that they are behind."""
        return Bounds(2 * self.timeout, _MOST, _CALLS)

    def wanted(self, query: InFlight) -> bool:
        """Whether the query must wait for the watermarks to be read as far as they were when it came: mostly they are,
        for the consumer loop has them read. Where the namespace has none, nothing is cached that they would tell of.
        """
        watermarks = self.watermarks
        if watermarks.read_since(query.message.clock):
            return False
        return watermarks.behind or bool(watermarks.of(*_namespace(query)))

    def requests(self, query: InFlight) -> Mapping[BatchKey, Namespace]:
        """Ask how far the query's namespace is indexed."""
        return {_BATCH_KEY: _namespace(query)}

    async def call(self, _: BatchKey, namespaces: Sequence[Namespace], timeout: float) -> list[Marked | BackendError]:
        """The watermarks of all these namespaces, read at one moment."""
        await self.watermarks.caught_up(timeout)
        return self._marked(namespaces)

    def take(self, finished: Finished[InFlight, Marked]) -> InFlight | None:
        """Look the answer up; None if the query waits for another's. Raises InputError `cursor_expired`."""
        query = finished.item
        if finished.outcomes:
            [outcome] = finished.outcomes.values()
        else:
            query.started = monotonic()
            outcome = self._known(query)
        mark, generation = (None, 0) if isinstance(outcome, BackendError) else outcome
        query = self.answers.look_up(query, mark, generation)
        return query if query.cache.leads else None

    def _known(self, query: InFlight) -> Marked | BackendError:
        if self.watermarks.read_since(query.message.clock):
            return self._marked([_namespace(query)])[0]
        # One that came meanwhile may be older than the query.
        return _NONE, self.watermarks.generation

    def _marked(self, namespaces: Sequence[Namespace]) -> list[Marked | BackendError]:
        while True:
            generation = self.watermarks.generation
            marks = [self.watermarks.of(*namespace) for namespace in namespaces]
            # A watermark that was read after a generation ended is not one of that generation.
            if self.watermarks.generation == generation:
                return [(mark, generation) for mark in marks]


def _namespace(query: InFlight) -> Namespace:
    return query.retrieval.capabilities.name, query.asked.canonical.namespace


@operator
def lookup(step_id: str, up: Stream[Queries], looking: Lookup, calls: EventLoopThread) -> Stream[Queries]:
    """Queries in and on, unless they wait for another's answer; rejected with a cursor that has expired."""
    return query_io(
        "watermarks",
        up,
        "lookup",
        looking.requests,
        looking.call,
        looking.take,
        calls,
        looking.bounds,
        looking.wanted,
    )
