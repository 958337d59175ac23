"""Lookup: how far the index is, and whether the query is answered already, or by one that is under way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from bytewax import operators as op
from bytewax.dataflow import Stream, operator

from operators.query.in_flight import InFlight
from operators.runtime.dispatcher import BatchKey, Bounds, Finished
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.stage import Stage, stage
from operators.stages.answers import Answers, Watermark
from operators.stages.backend_stage import Batch, query_io
from schemas.errors import BackendError

_BATCH_KEY: Final = "watermarks"
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

    def requests(self, query: InFlight) -> Mapping[BatchKey, Namespace]:
        """Ask how far the query's namespace is indexed."""
        return {_BATCH_KEY: (query.retrieval.capabilities.name, query.asked.canonical.namespace)}

    async def call(self, _: BatchKey, namespaces: Sequence[Namespace], timeout: float) -> list[Marked | BackendError]:
        """The watermarks of all these namespaces, read at one moment."""
        await self.watermarks.caught_up(timeout)
        while True:
            generation = self.watermarks.generation
            marks = [self.watermarks.of(*namespace) for namespace in namespaces]
            # A watermark that was read after a generation ended is not one of that generation.
            if self.watermarks.generation == generation:
                return [(mark, generation) for mark in marks]

    def take(self, finished: Finished[InFlight, Marked]) -> InFlight:
        """Look the answer up. Raises InputError `cursor_expired`."""
        outcome = finished.outcomes[_BATCH_KEY]
        mark, generation = (None, 0) if isinstance(outcome, BackendError) else outcome
        return self.answers.look_up(finished.item, mark, generation)


@operator
def lookup(step_id: str, up: Stream[Batch], looking: Lookup, calls: EventLoopThread) -> Stage[InFlight]:
    """Queries in; on unless they are answered, wait for another's answer, or bring a cursor that has expired."""
    done = query_io("watermarks", up, looking.requests, looking.call, calls, looking.bounds)
    parted = stage("lookup", done, lambda done: done.item, looking.take)
    leading = op.filter_map("leading", parted.on, lambda batch: [query for query in batch if query.cache.leads] or None)
    return replace(parted, on=leading)
