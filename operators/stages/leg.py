"""Legs: the searches of many queries, one batch request a leg and collection. Each leg is a branch of the flow.

Only ids, scores and the payload fields that ranking reads are asked for; `fetch` gets the rest for the survivors. A leg
that fails leaves the others.

- The searches of a query are written once, before the branches part. That also decides which items pass all legs by.
- Each leg gives one item for every query that asks it, whether it answered, failed or was late. All branches share the
  query. A leg notes only what it found, so nothing depends on the order in which legs come; the stage `fuse` does the
  rest when all are there.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, ClassVar, Final

from bytewax import operators as op
from bytewax.dataflow import operator
from opentelemetry.trace import SpanKind, get_current_span
from typing_extensions import override

from operators.clients.qdrant.client import QdrantClient
from operators.query.in_flight import InFlight
from operators.query.search import Found, Search
from operators.runtime.batching.policy import BatchingPolicy, Waiting, Whole
from operators.runtime.dispatcher import BatchKey, Bounds
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.stage import KEY, Batch, Batches, async_stage
from operators.stages.backend_stage import QueryStage, qdrant_attributes
from operators.wire.message import Attributes
from schemas.errors import BackendError
from schemas.result import FUZZY, STRUCTURED

_ALONE: Final = "alone"


def count_branches(item: Any) -> int:
    """The number of branches that take an item: those of the legs that it asks, 0 if it is no query with searches."""
    searches = item.retrieval.searches if isinstance(item, InFlight) else None
    return len(searches) - (FUZZY in searches) if searches else 0


def branches(up: Batches, legs: Iterable["SearchLeg"], calls: EventLoopThread) -> list[Batches]:
    """One branch of the flow for each leg, with the leg's name in its step id."""
    return [async_stage(f"leg_{leg.name}", up, leg, calls) for leg in legs]


@operator
def pass_by(step_id: str, up: Batches) -> Batches:
    """The branch of the items that no leg is asked for. It passes on empty batches, which wake `fuse`."""

    def process_batch(batches: list[tuple[str, Batch]]) -> list[tuple[str, Batch]]:
        return [(KEY, [item for _, items in batches for item in items if not count_branches(item)])]

    return op.flat_map_batch("step", up, process_batch)


class Together(Whole[Search, Found]):
    """Puts all searches of a leg into one call; a search that goes alone gets its own, namespaces by turns."""

    def tenant(self, query: Search) -> Hashable:
        return query.alone

    def select(self, waiting: Iterable[Waiting[Search]]) -> Sequence[int]:
        counts = []
        for each in waiting:
            counts.append(1)
            if len(counts) == self.max_batch or each.query.alone is not None:
                break
        return counts


@dataclass(frozen=True)
class SearchLeg(QueryStage[Search, Found]):
    """Carries many queries' searches of the leg `name` to Qdrant."""

    branch: ClassVar = True

    name: str
    qdrant: QdrantClient
    bounds: Bounds

    @property
    def step(self) -> str:
        return f"leg {self.name}"

    @property
    @override
    def batching(self) -> BatchingPolicy[Search, Found]:
        return Together(self.bounds.max_batch)

    # Not by `answered`: a query may be answered before all branches have seen it.
    @override
    def takes(self, item: Any) -> bool:
        return isinstance(item, InFlight) and self.name in (item.retrieval.searches or ())

    def ask(self, query: InFlight) -> tuple[BatchKey, Search] | None:
        search = (query.retrieval.searches or {}).get(self.name)
        if search is None:
            return None
        own = (self.name, query.collection)
        return own if search.alone is None else (*own, _ALONE), search

    @override
    def wakes(self, item: InFlight) -> bool:
        # Until the last leg of a query is there, nothing can be done for it. All legs end on one thread.
        item.retrieval.legs_left -= 1
        return not item.retrieval.legs_left

    def on_result(self, item: InFlight, outcome: Found | BackendError) -> InFlight | None:
        item.retrieval.found[self.name] = outcome
        return item

    async def call(self, batch_key: BatchKey, requests: Sequence[Search], timeout: float) -> list[Found | BackendError]:
        assert isinstance(batch_key, tuple)
        collection = batch_key[1]
        started = monotonic()
        outcomes = await self.qdrant.run(collection, requests, timeout)
        link = get_current_span().get_span_context()
        for search, outcome in zip(requests, outcomes, strict=True):
            if search.trace.recording:
                error = outcome.reason if isinstance(outcome, BackendError) else None
                name, attributes = self._span(collection)
                search.trace.child(name, started, attributes, link=link, error=error, kind=SpanKind.CLIENT)
        return outcomes

    @override
    def call_span(self, query: InFlight) -> tuple[str, Attributes]:
        return self._span(query.collection)

    def _span(self, collection: str) -> tuple[str, Attributes]:
        operation = "scroll" if self.name == STRUCTURED else "query"
        return f"query {collection}", {**qdrant_attributes(operation, collection), "rankstream.leg": self.name}
