"""Fetch: what Qdrant keeps of the first candidates, many queries' in one request.

`Fetching` reads texts and payloads, unless they are cached, `Comparing` the dense vectors, for recipes that compare
candidates with each other, `Neighbouring` the neighbours of the results.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic, time
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from operators.access.firewall import GUARDED, find_forbidden
from operators.caching.bounded import Making, PayloadCache, Seen
from operators.clients.qdrant.client import Fields, QdrantClient, all_but
from operators.query.in_flight import InFlight
from operators.query.result import documents_of, page
from operators.query.returned import split_neighbours
from operators.ranking.candidate import Candidate
from operators.ranking.pipeline import Vectors
from operators.runtime.dispatcher import Bounds
from operators.stages.backend_stage import PointStage
from schemas.document import COLUMNS, CONTENT, EXPIRES, GROUP, NEIGHBOURS, ORDER, TEXT, index_keys
from schemas.query import QueryShape

Payloads = Mapping[str, Mapping[str, Any]]

_OF_NEIGHBOURS: Final = frozenset({"id", TEXT, GROUP, ORDER, EXPIRES})


@dataclass(frozen=True)
class Fetching(PointStage[Mapping[str, Any]]):
    """Fetches the payloads of each query's first `depth` candidates that it does not have yet.

    `fields` leaves out what the index has of the searched fields.
    """

    name: ClassVar = "fetch"
    counts: ClassVar = True

    qdrant: QdrantClient
    depth: Callable[[InFlight], int]
    bounds: Bounds
    cache: PayloadCache | None = None
    fields: Fields = field(default_factory=lambda: all_but(index_keys(COLUMNS)))

    def missing(self, query: InFlight) -> list[str]:
        missing, payloads = self._missing(query), query.outcome.payloads
        if missing and self.cache is not None:
            known = self.cache.known(_making(query), _seen(query, missing), monotonic())
            # What the query may not see is fetched: it is then removed by what it is now.
            for id_ in find_forbidden(query.asked.access_filter, known, known.values()) | _expired(query, known):
                del known[id_]
            payloads |= known
            query.trace.looked_up("payload", len(known), len(missing) - len(known))
            if len(known) == len(missing):
                query.passed(self.step, len(query.outcome.candidates))
        return [candidate.id for candidate in missing if candidate.id not in payloads]

    async def read(self, target: str, ids: Sequence[str], timeout: float) -> Payloads:
        return await self.qdrant.retrieve(target, ids, self.fields, timeout=timeout)

    def on_answer(self, query: InFlight, answer: Payloads) -> None:
        """Take over the payloads; a document deleted or expired since the legs saw it is no candidate any more.

        What the query may not see is not cached, either.
        """
        expired = _expired(query, answer)
        payloads = query.check_fetched({id_: each for id_, each in answer.items() if id_ not in expired})
        outcome, missing = query.outcome, self._missing(query)
        if self.cache is not None:
            self.cache.add(_making(query), _seen(query, missing), payloads, monotonic())
        outcome.payloads |= payloads
        if gone := {each.id for each in missing} - payloads.keys():
            outcome.results = replace(outcome.results, gone=outcome.results.gone | gone)

    def _missing(self, query: InFlight) -> list[Candidate]:
        """The first candidates whose payload isn't there; none if an earlier fetch was lost."""
        outcome = query.outcome
        if self.name in dict(outcome.degraded):
            return []
        first, fetched = outcome.results.first(self.depth(query)), outcome.payloads
        return [each for each in first if each.id not in fetched] if fetched else first


@dataclass(frozen=True)
class Comparing(PointStage[NDArray[np.float16]]):
    """Reads the vectors `dense` of each query's first candidates if its recipe compares candidates, and there are two.

    They become unit vectors of 16 bits, which pools record.
    """

    name: ClassVar = "similarity"

    qdrant: QdrantClient
    dense: str
    bounds: Bounds

    async def read(self, target: str, ids: Sequence[str], timeout: float) -> Vectors:
        found = await self.qdrant.vectors(target, ids, self.dense, timeout=timeout)
        return {id_: _unit(vector) for id_, vector in found.items()}

    def on_answer(self, query: InFlight, answer: Vectors) -> None:
        query.outcome.vectors = answer

    def missing(self, query: InFlight) -> list[str]:
        asked, compared = query.asked, query.asked.plan.recipe.compared
        if not compared or asked.shape is not QueryShape.SEARCH or asked.event.reflections_only:
            return []
        first = query.outcome.candidates[:compared]
        return [candidate.id for candidate in first] if len(first) > 1 else []


@dataclass(frozen=True)
class Neighbouring(PointStage[Mapping[str, Any]]):
    """Reads the neighbours of the page's documents for queries that ask for them: those with which each was indexed.

    What the query may not see, or is expired or in another group by now, is no neighbour. Queries are read for
    together if their policies hide documents by the same fields.
    """

    name: ClassVar = "neighbours"

    qdrant: QdrantClient
    bounds: Bounds

    @override
    def target(self, query: InFlight) -> tuple[str, frozenset[str]]:
        guard = query.asked.access_filter
        return query.collection, GUARDED if guard is None else GUARDED | guard.reads

    async def read(self, target: tuple[str, frozenset[str]], ids: Sequence[str], timeout: float) -> Payloads:
        collection, guarded = target
        return await self.qdrant.retrieve(collection, ids, sorted(_OF_NEIGHBOURS | guarded), timeout=timeout)

    def on_answer(self, query: InFlight, answer: Payloads) -> None:
        forbidden = find_forbidden(query.asked.access_filter, answer, answer.values()) | _expired(query, answer)
        seen = {id_: payload for id_, payload in answer.items() if id_ not in forbidden}
        most = _neighbours_of(query)
        for own, payload in self._results(query):
            around = [(id_, seen[id_]) for id_ in payload[NEIGHBOURS] if id_ in seen and id_ != own]
            query.outcome.neighbours[own] = split_neighbours((own, payload), around, most)

    def missing(self, query: InFlight) -> list[str]:
        if not _neighbours_of(query):
            return []
        return [id_ for own, payload in self._results(query) for id_ in payload[NEIGHBOURS] if id_ != own]

    def _results(self, query: InFlight) -> list[tuple[str, Mapping[str, Any]]]:
        """The documents of the page that have a place in an order, with what the index keeps of them."""
        outcome = query.outcome
        documents = documents_of(page(query.asked, outcome), outcome)
        known = ((each.id, outcome.payloads.get(each.id, {})) for each in documents)
        return [(id_, payload) for id_, payload in known if isinstance(payload.get(NEIGHBOURS), list)]


def _neighbours_of(query: InFlight) -> int:
    returned = query.asked.plan.returned
    return returned.neighbours or 0 if returned is not None else 0


def _expired(query: InFlight, payloads: Payloads) -> set[str]:
    """The ids of the documents that have expired by now, in a collection whose documents do."""
    if not query.retrieval.capabilities.expires:
        return set()
    now = time() * 1000
    return {id_ for id_, payload in payloads.items() if payload.get(EXPIRES, now + 1) <= now}


def _making(query: InFlight) -> Making:
    capabilities = query.retrieval.capabilities
    return capabilities.name, capabilities.making


def _seen(query: InFlight, candidates: Sequence[Candidate]) -> list[Seen]:
    """The legs' view of these points; where one saw a later version than another, that one.

    A search by a filter alone gives every point the version 0, which says nothing.
    """
    latest: dict[str, int] = {}
    for leg in query.outcome.legs.values():
        found = dict(zip(leg.ids, leg.versions, strict=False))
        both = {**latest, **found}
        # Nearly always: no write came between the two searches.
        agreed = not latest or both == {**found, **latest}
        latest = both if agreed else {id_: max(latest.get(id_, version), version) for id_, version in both.items()}
    return [(each.id, latest.get(each.id) or None, each.payload.get(CONTENT)) for each in candidates]


def _unit(vector: Sequence[float]) -> NDArray[np.float16]:
    # 16 bits hold no number above 65,504, and those of some models are not of length 1.
    components = np.asarray(vector, np.float64)
    return (components / (np.linalg.norm(components) or 1.0)).astype(np.float16)
