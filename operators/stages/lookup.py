"""Lookup: how far the index is, and whether the query is answered already, or by one that is under way."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from typing_extensions import override

from operators.delivery.table_reader import WatermarkReader
from operators.query.in_flight import InFlight
from operators.runtime.dispatcher import BatchKey, Bounds
from operators.stages.answers import Answers, Watermark
from operators.stages.backend_stage import QueryStage
from schemas.errors import BackendError

_BATCH_KEY: Final = "watermarks"
_MOST: Final = 4096
_CALLS: Final = 2
"""One call that hangs, and one that notices that it does."""

Namespace = tuple[str, str]
"""A Qdrant collection and a namespace of it."""

Marked = tuple[Watermark | None, int]
"""A namespace's watermark, None if it isn't known, and the generation of the watermarks."""


@dataclass(frozen=True)
class Lookup(QueryStage[Namespace, Marked]):
    """Asks how far each query's namespace is indexed, and looks its answer up.

    `timeout` is how long, in seconds, a query waits for the watermark; then the caches are passed by. A query that
    waits for another's answer leaves the flow. A cursor that has expired is rejected as `cursor_expired`.
    """

    step = "lookup"

    answers: Answers
    watermarks: WatermarkReader
    timeout: float
    bounds: Bounds = field(init=False)

    def __post_init__(self) -> None:
        # The reader of watermarks has its own timeout; this is a safety net.
        object.__setattr__(self, "bounds", Bounds(2 * self.timeout, _MOST, _CALLS))

    def ask(self, query: InFlight) -> tuple[BatchKey, Namespace] | None:
        namespace, watermarks = _namespace(query), self.watermarks
        # Mostly they are read as far as they were when the query came: the consumer loop has them read. Where the
        # namespace has none, nothing is cached that they would tell of.
        known = watermarks.read_since(query.message.clock) or not (watermarks.behind or watermarks.of(*namespace))
        return None if known else (_BATCH_KEY, namespace)

    @override
    async def call(self, batch_key: BatchKey, requests: Sequence[Namespace], timeout: float) -> list[Marked]:
        await self.watermarks.caught_up(timeout)
        return self._read_marks(requests)

    def on_result(self, item: InFlight, outcome: Marked | BackendError) -> InFlight | None:
        mark, generation = (None, 0) if isinstance(outcome, BackendError) else outcome
        query = self.answers.look_up(item, mark, generation)
        return query if query.cache.leads else None

    @override
    def on_unasked(self, item: InFlight) -> InFlight | None:
        if self.watermarks.read_since(item.message.clock):
            return self.on_result(item, self._read_marks([_namespace(item)])[0])
        # A watermark that came meanwhile may be older than the query: it is not known whether the namespace has one.
        return self.on_result(item, (None, self.watermarks.generation))

    def _read_marks(self, namespaces: Sequence[Namespace]) -> list[Marked]:
        while True:
            generation = self.watermarks.generation
            marks = [self.watermarks.of(*namespace) for namespace in namespaces]
            # A watermark that was read after a generation ended is not one of that generation.
            if self.watermarks.generation == generation:
                return [(mark, generation) for mark in marks]


def _namespace(query: InFlight) -> Namespace:
    return query.retrieval.capabilities.name, query.asked.namespace
