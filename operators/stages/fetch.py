"""Fetch: the texts and payloads of the first candidates, many queries' in one request, unless they are cached."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, ClassVar, Final

from bytewax.dataflow import Stream, operator

from operators.access.firewall import find_forbidden
from operators.caching.payload_cache import Making, PayloadCache, Seen
from operators.clients.qdrant.client import AllBut, QdrantClient
from operators.query.in_flight import InFlight
from operators.ranking.candidate import Candidate
from operators.runtime.dispatcher import BatchKey, Bounds
from operators.runtime.event_loop import EventLoopThread
from operators.stages.backend_stage import Queries, ask
from operators.stages.point_stage import PointStage
from schemas.document import CONTENT, TERMS, TOKEN_IDS, WORDS

Payloads = Mapping[str, Mapping[str, Any]]

_FETCHED: Final = AllBut((TERMS, TOKEN_IDS, *WORDS.values()))
"""Qdrant counts and matches a document's tokens and words; nothing here reads them."""


@dataclass(frozen=True)
class Fetching(PointStage[Mapping[str, Any]]):
    """Fetches the payloads of each query's first `depth` candidates that it does not have yet."""

    name: ClassVar = "fetch"
    counts: ClassVar = True

    qdrant: QdrantClient
    depth: Callable[[InFlight], int]
    bounds: Bounds
    cache: PayloadCache | None = None

    def wanted(self, query: InFlight) -> bool:
        """Whether a payload is missing that isn't cached."""
        missing = self._missing(query)
        if not missing or self.cache is None:
            return bool(missing)
        query.started = monotonic()
        known = self.cache.known(_making(query), _seen(query, missing), monotonic())
        # What the query may not see is fetched: it is then removed by what it is now.
        for id_ in find_forbidden(query.asked.access_filter, known, known.values()):
            del known[id_]
        query.outcome.payloads |= known
        query.trace.looked_up("payload", len(known), len(missing) - len(known))
        if len(known) < len(missing):
            return True
        query.passed(self.step, len(query.outcome.candidates))
        return False

    def requests(self, query: InFlight) -> Mapping[BatchKey, list[str]]:
        """Ask for what is missing."""
        missing = [candidate.id for candidate in self._missing(query)]
        return {(self.name, query.asked.collection): missing} if missing else {}

    async def read(self, collection: str, ids: Sequence[str], timeout: float) -> Payloads:
        """The payloads of these points."""
        return await self.qdrant.retrieve(collection, ids, _FETCHED, timeout=timeout)

    def take(self, query: InFlight, outcome: Payloads) -> None:
        """Take over the payloads; a document deleted since the legs saw it is no candidate any more.

        What the query may not see is not cached, either.
        """
        payloads = query.check_fetched(outcome)
        if self.cache is not None:
            self.cache.add(_making(query), _seen(query, self._missing(query)), payloads, monotonic())
        first, candidates = self.depth(query), query.outcome.candidates
        query.outcome.payloads |= payloads
        there = [candidate for candidate in candidates[:first] if candidate.id in query.outcome.payloads]
        query.outcome.candidates = there + candidates[first:]

    def _missing(self, query: InFlight) -> list[Candidate]:
        """The first candidates whose payload isn't there; none if an earlier fetch was lost."""
        outcome = query.outcome
        if any(stage == self.name for stage, _ in outcome.degraded):
            return []
        return [each for each in outcome.candidates[: self.depth(query)] if each.id not in outcome.payloads]


def _making(query: InFlight) -> Making:
    capabilities = query.retrieval.capabilities
    return capabilities.name, capabilities.making


def _seen(query: InFlight, candidates: Sequence[Candidate]) -> Iterable[Seen]:
    """What the legs saw of these points; where one saw a later version than another, that one."""
    latest: dict[str, int] = {}
    for leg in query.outcome.legs.values():
        versions = dict(zip(leg.ids, leg.versions, strict=False))
        both = {**latest, **versions}
        # Nearly always: no write came between the two searches.
        agreed = not latest or both == {**versions, **latest}
        latest = both if agreed else {id_: max(latest.get(id_, version), version) for id_, version in both.items()}
    ids = [candidate.id for candidate in candidates]
    return zip(ids, map(latest.get, ids), [candidate.payload.get(CONTENT) for candidate in candidates], strict=True)


@operator
def fetch(step_id: str, up: Stream[Queries], fetching: Fetching | None, calls: EventLoopThread) -> Stream[Queries]:
    """Queries in and on, with the payloads of their first candidates."""
    return ask("payloads", up, fetching, calls)
