"""Legs: the searches of many queries, one batch request a leg and collection. Each leg is a branch of the flow.

Only ids, scores and the payload fields that ranking reads are asked for; `fetch` gets the rest for the survivors. A leg
that fails leaves the others.

- The searches of a query are written once, before the branches part. That also decides which items pass all legs by.
- Each leg gives one item for every query with searches, whether it was asked, not wanted, failed or late.
  All branches share the query. A leg notes only what it found, so nothing depends on the order in which legs come; the
  stage `fuse` does the rest when all are there.

A search that must have something counted first, for a phrase that ends in a prefix or for the rarity of its terms, goes
apart: no other search waits for it, and namespaces share these calls and the counts in them.

A search for groups whose first candidates are of too few groups is asked again for candidates of others, a bounded
number of times.
"""

import asyncio
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, ClassVar, Final

from bytewax import operators as op
from bytewax.dataflow import operator
from opentelemetry.trace import SpanKind, get_current_span
from typing_extensions import override

from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant.collections.term_idf import TermIdf
from operators.clients.qdrant.ordered import look_up
from operators.clients.qdrant.phrase_endings import phrase_endings
from operators.query.backend_answers import Hits
from operators.query.in_flight import Found, InFlight
from operators.query.search_bodies import Groups, Search, Searches, Unfinished
from operators.query.trace import Attributes
from operators.runtime.batching.policy import BatchingPolicy, Waiting, Whole
from operators.runtime.dispatcher import BatchKey, Bounds, defect_of_call
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.stage import KEY, Batch, Batches, async_stage
from operators.runtime.turns import Turns
from operators.stages.backend_stage import QueryStage
from schemas.errors import BackendError
from schemas.result import FUZZY, LEGS, STRUCTURED, WEIGHED_LEGS

_APART: Final = "apart"
_ROUNDS: Final = 4
"""Further requests of a search for groups at most; each is asked for four times as many candidates as the last."""

_FACETS: Final = 16
"""Counts of words under way at once."""

_CUT: Final = "a phrase that ends in a prefix has more endings than are looked for: only the commonest are"


@dataclass(frozen=True, slots=True)
class SearchWriter:
    """Writes what each leg of those that are built is asked for a query."""

    searches: Searches
    built: frozenset[str] = frozenset((*LEGS, *WEIGHED_LEGS))

    def __call__(self, query: InFlight) -> InFlight:
        """The query with its searches."""
        retrieval = query.retrieval
        retrieval.searches = {key: each for key, each in self.searches(query).items() if self._asks(key)}
        # The leg fuzzy is asked behind the others.
        retrieval.legs_left = len(retrieval.searches.keys() - {(FUZZY, query.collection)})
        return query

    def _asks(self, key: Hashable) -> bool:
        return isinstance(key, tuple) and key[0] in self.built


def is_searched(item: Any) -> bool:
    """True if the item is a query whose searches are written, and so one that every leg passes on."""
    return isinstance(item, InFlight) and item.retrieval.searches is not None


def leg(step_id: str, up: Batches, stage: "Leg | None", calls: EventLoopThread) -> Batches | None:
    """The branch of a leg; None if it is not configured."""
    return async_stage(step_id, up, stage, calls) if stage is not None else None


@operator
def pass_by(step_id: str, up: Batches) -> Batches:
    """The branch of the items that no leg has anything to do for. It passes on empty batches, which wake `fuse`."""

    def process_batch(batches: list[tuple[str, Batch]]) -> list[tuple[str, Batch]]:
        return [(KEY, [item for _, items in batches for item in items if not is_searched(item)])]

    return op.flat_map_batch("step", up, process_batch)


@dataclass(frozen=True, slots=True)
class Apart:
    """A search that must have something counted first, for a namespace."""

    search: Search | Unfinished
    namespace: str


class Apartness(Whole[Search | Apart, Found]):
    """As many searches a call as go together; of those that go apart one, the namespaces by their shares."""

    def tenant(self, query: Search | Apart) -> Hashable:
        """The namespace of a search that goes apart."""
        return query.namespace if isinstance(query, Apart) else None

    def select(self, waiting: Iterable[Waiting[Search | Apart]]) -> Sequence[int]:
        """The first one, or the first `max_batch`."""
        counts = []
        for each in waiting:
            counts.append(1)
            if len(counts) == self.max_batch or isinstance(each.query, Apart):
                break
        return counts


@dataclass(frozen=True)
class Leg(QueryStage[Search | Apart, Found]):
    """Carries many queries' searches of the leg `name` to Qdrant."""

    branch: ClassVar = True

    name: str
    qdrant: QdrantClient
    bounds: Bounds
    idf: TermIdf
    facets: Turns = field(default_factory=lambda: Turns(_FACETS))

    @property
    @override
    def step(self) -> str:
        return f"leg {self.name}"

    @property
    @override
    def batching(self) -> BatchingPolicy[Search | Apart, Found]:
        return Apartness(self.bounds.max_batch)

    @override
    def takes(self, item: Any) -> bool:
        # Not by `answered`: a query may be answered before all branches have seen it.
        return is_searched(item)

    @override
    def wants(self, item: InFlight) -> bool:
        searches = item.retrieval.searches
        return searches is not None and (self.name, item.collection) in searches

    @override
    def ask(self, query: InFlight) -> tuple[BatchKey, Search | Apart]:
        assert query.retrieval.searches is not None
        collection = query.collection
        return self.request_of(collection, query.retrieval.searches[self.name, collection])

    @override
    def wakes(self, item: InFlight) -> bool:
        # Until the last leg of a query is there, nothing can be done for it. All legs end on one thread.
        item.retrieval.legs_left -= 1
        return not item.retrieval.legs_left

    def request_of(self, collection: str, search: Search | Unfinished) -> tuple[BatchKey, Search | Apart]:
        """The batch key and the request of a search in a collection."""
        if isinstance(search, Unfinished) or search.every:
            return (self.name, collection, _APART), Apart(search, search.namespace)
        if search.corpus is None or self.idf.knows(collection, search):
            return (self.name, collection), search
        return (self.name, collection, _APART), Apart(search, search.corpus.namespace)

    @override
    def on_result(self, item: InFlight, outcome: Found | BackendError) -> InFlight:
        item.retrieval.found[self.name] = outcome
        return item

    @override
    async def call(
        self, batch_key: BatchKey, requests: Sequence[Search | Apart], timeout: float
    ) -> Sequence[Found | BackendError]:
        assert isinstance(batch_key, tuple)
        _, collection, *_ = batch_key
        started = monotonic()
        outcomes = await self._answer(collection, requests, timeout)
        link = get_current_span().get_span_context()
        for each, outcome in zip(requests, outcomes, strict=True):
            query_trace = (each.search if isinstance(each, Apart) else each).trace
            if query_trace.recording:
                error = outcome.reason if isinstance(outcome, BackendError) else None
                name, attributes = self._span(collection)
                query_trace.child(name, started, attributes, link=link, error=error, kind=SpanKind.CLIENT)
        return outcomes

    @override
    def call_span(self, query: InFlight) -> tuple[str, Attributes]:
        return self._span(query.collection)

    def _span(self, collection: str) -> tuple[str, Attributes]:
        return f"query {collection}", {
            "db.system.name": "qdrant",
            "db.operation.name": "scroll" if self.name == STRUCTURED else "query",
            "db.collection.name": collection,
            "rankstream.leg": self.name,
        }

    async def _answer(
        self, collection: str, searches: Sequence[Search | Apart], timeout: float
    ) -> Sequence[Found | BackendError]:
        ready = [each for each in searches if isinstance(each, Search)]
        if self.name == STRUCTURED:
            # Qdrant has no batch of ordered lookups.
            lookups = (self._look_up(collection, each, timeout) for each in ready)
            found = await asyncio.gather(*lookups, return_exceptions=True)
            # One that meets a defect leaves the others.
            return [each if isinstance(each, Found | BackendError) else defect_of_call(each) for each in found]
        if len(ready) < len(searches):
            apart = [each.search for each in searches if isinstance(each, Apart)]
            return [await self._finish(collection, each, timeout) for each in apart]
        if all(each.corpus is None for each in ready):
            # Nearly always so: no tasks for it.
            return await self._answers(collection, ready, timeout)
        return await self._search(collection, ready, timeout)

    async def _search(
        self, collection: str, searches: Sequence[Search], timeout: float
    ) -> Sequence[Found | BackendError]:
        deadline = monotonic() + timeout
        # Half of the time: what is late here leaves the search none.
        counting = (self.idf.weigh(collection, search, timeout / 2) for search in searches)
        weighed = await asyncio.gather(*counting)
        ready = [search for search in weighed if isinstance(search, Search)]
        found = iter(await self._answers(collection, ready, deadline - monotonic()) if ready else ())
        return [next(found) if isinstance(search, Search) else search for search in weighed]

    async def _answers(
        self, collection: str, searches: Sequence[Search], timeout: float
    ) -> Sequence[Found | BackendError]:
        deadline = monotonic() + timeout
        asked = [body for search in searches for body in (search.body, search.rest) if body is not None]
        answers = iter(await self.qdrant.query_batch(collection, asked, timeout=timeout))
        found = [_join(search, answers) for search in searches]
        if all(search.groups is None for search in searches):
            return found
        pairs = zip(searches, found, strict=True)
        return await asyncio.gather(*(self._reach(collection, search, each, deadline) for search, each in pairs))

    async def _look_up(self, collection: str, search: Search, timeout: float) -> Found | BackendError:
        deadline = monotonic() + timeout
        found = await look_up(self.qdrant, collection, search, timeout)
        return await self._reach(collection, search, found, deadline)

    async def _reach(
        self, collection: str, search: Search, found: Found | BackendError, deadline: float
    ) -> Found | BackendError:
        """The hits of a search, and of further ones until they are of enough groups, or all groups are found."""
        groups, body = search.groups, search.body if search.body is not None else search.rest
        if groups is None or body is None or isinstance(found, BackendError):
            return found
        hits, limit, count = found.hits, body["limit"], len(found.hits.ids)
        last = count
        for _ in range(_ROUNDS):
            if last < limit or len(groups.first(hits)) >= groups.wanted:
                break
            limit = min(4 * limit, groups.most)
            further = search.beyond(hits, limit)
            try:
                [more] = await self._answer(collection, [further], max(0.0, deadline - monotonic()))
            except BackendError as error:
                more = error
            if isinstance(more, BackendError):
                return found._replace(hits=hits, more=True, lost=more.reason)
            last = len(more.hits.ids)
            count += last
            hits = _extend(hits, more.hits, groups)
        return found._replace(hits=hits, more=last >= limit or len(hits.ids) < count)

    async def _search_all(self, collection: str, search: Search, timeout: float) -> Found | BackendError:
        """All that the search's filter matches, best first, as far as the collection gives it to one search."""
        assert search.body is not None
        deadline = monotonic() + timeout
        able = self.qdrant.limits_of(collection).hits
        try:
            count = await self.qdrant.count(collection, search.body["filter"], timeout=timeout)
        except BackendError as error:
            return error
        limit = max(1, count if able is None else min(count, able))
        body = {**search.body, "limit": limit}
        [found] = await self._answers(collection, [replace(search, body=body)], deadline - monotonic())
        return found._replace(whole=limit >= count) if isinstance(found, Found) else found

    async def _finish(self, collection: str, search: Search | Unfinished, timeout: float) -> Found | BackendError:
        """Count the terms of unknown rarity, or what there is, then search."""
        if isinstance(search, Search):
            if search.every:
                return await self._search_all(collection, search, timeout)
            [found] = await self._search(collection, [search], timeout)
            return found
        deadline = monotonic() + timeout
        try:
            endings, cut = await phrase_endings(
                self.qdrant,
                collection,
                search.endings,
                most=search.most,
                turns=self.facets,
                namespace=search.namespace,
                timeout=timeout,
            )
        except BackendError as error:
            return error
        [found] = await self._search(collection, [search.finish(endings)], deadline - monotonic())
        return found._replace(warnings=(*found.warnings, _CUT)) if cut and isinstance(found, Found) else found


def _extend(hits: Hits, further: Hits, groups: Groups) -> Hits:
    """The hits, best first, with those further ones that it takes to reach the wanted number of groups."""
    if not further.ids:
        return hits
    # Not every value of a key is left out: a keyword index does not hold 2.0 where the key is 2.
    known = set(hits.ids)
    new = further.at([place for place, id_ in enumerate(further.ids) if id_ not in known])
    versions = [*hits.versions, *new.versions] if hits.versions and further.versions else ()
    both = Hits(hits.ids + new.ids, hits.scores + new.scores, hits.payloads + new.payloads, versions)
    first = groups.first(both)
    room = first[groups.wanted - 1] + 1 if len(first) >= groups.wanted else len(both.ids)
    # An approximate search may find later what is better.
    return both.at(sorted(range(room), key=both.scores.__getitem__, reverse=True))


def _join(search: Search, answers: Iterator[Hits | BackendError]) -> Found | BackendError:
    """The search's own hits, and behind them, with a score of 0, what else matches."""
    scored = next(answers) if search.body is not None else Hits([], [], [])
    rest = next(answers) if search.rest is not None else Hits([], [], [])
    if isinstance(scored, BackendError):
        return scored
    if isinstance(rest, BackendError):
        return rest
    if search.rest is None:
        return Found(scored, warnings=search.warnings)
    known = set(scored.ids)
    others = [index for index, id_ in enumerate(rest.ids) if id_ not in known]
    ids, payloads = [rest.ids[index] for index in others], [rest.payloads[index] for index in others]
    room = search.rest["limit"]
    scores = scored.scores + [0.0] * len(ids)
    versions = [*scored.versions, *(rest.versions[index] for index in others)] if rest.versions else []
    hits = Hits((scored.ids + ids)[:room], scores[:room], (scored.payloads + payloads)[:room], versions[:room])
    return Found(hits, warnings=search.warnings)
