"""Fetch: the texts and payloads of the first candidates, many queries' in one request."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from bytewax.dataflow import Stream, operator

from operators.clients.qdrant.client import AllBut, QdrantClient
from operators.query.in_flight import InFlight
from operators.query.trace import Attributes
from operators.runtime.dispatcher import BatchKey, Bounds
from operators.runtime.event_loop import EventLoopThread
from operators.stages.backend_stage import BackendStage, Queries, ask
from schemas.document import TERMS, TOKEN_IDS, WORDS

Payloads = Mapping[str, Mapping[str, Any]]

_FETCHED: Final = AllBut((TERMS, TOKEN_IDS, *WORDS.values()))
"""Qdrant counts and matches a document's tokens and words; nothing here reads them."""


@dataclass(frozen=True)
class Fetching(BackendStage[list[str], Payloads]):
    """Fetches the payloads of each query's first `depth` candidates that it does not have yet."""

    name: ClassVar = "fetch"
    counts: ClassVar = True

    qdrant: QdrantClient
    depth: Callable[[InFlight], int]
    bounds: Bounds

    def wanted(self, query: InFlight) -> bool:
        """Whether a payload is missing."""
        return bool(self.requests(query))

    def requests(self, query: InFlight) -> Mapping[BatchKey, list[str]]:
        """Ask for the first candidates, if any is missing and no earlier fetch was lost."""
        outcome = query.outcome
        if self.name in dict(outcome.degraded):
            return {}
        first = outcome.candidates[: self.depth(query)]
        ids = [candidate.id for candidate in first if candidate.id not in outcome.payloads]
        return {(self.name, query.asked.collection): ids} if ids else {}

    async def call(self, batch_key: BatchKey, requests: Sequence[list[str]], timeout: float) -> list[Payloads]:
        """One request for the candidates of many queries in one collection."""
        assert isinstance(batch_key, tuple)
        ids = list(dict.fromkeys(id_ for wanted in requests for id_ in wanted))
        payloads = await self.qdrant.retrieve(batch_key[1], ids, _FETCHED, timeout=timeout)
        return [{id_: payloads[id_] for id_ in wanted if id_ in payloads} for wanted in requests]

    def take(self, query: InFlight, outcome: Payloads) -> None:
        """Take over the payloads; a document deleted since the legs saw it is no candidate any more."""
        first, candidates = self.depth(query), query.outcome.candidates
        query.outcome.payloads |= query.check_fetched(outcome)
        there = [candidate for candidate in candidates[:first] if candidate.id in query.outcome.payloads]
        query.outcome.candidates = there + candidates[first:]

    def span(self, query: InFlight) -> tuple[str, Attributes]:
        """By the conventions for databases."""
        collection = query.asked.collection
        return f"retrieve {collection}", {
            "db.system.name": "qdrant",
            "db.operation.name": "retrieve",
            "db.collection.name": collection,
        }


@operator
def fetch(step_id: str, up: Stream[Queries], fetching: Fetching | None, calls: EventLoopThread) -> Stream[Queries]:
    """Queries in and on, with the payloads of their first candidates."""
    return ask("payloads", up, fetching, calls)
