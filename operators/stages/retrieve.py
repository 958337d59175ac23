"""Retrieve: the legs of many queries, one batch request a leg and collection.

Only ids, scores and what ranking needs of the payload are asked for; `fetch` gets the rest for the survivors. A leg
that fails leaves the others; all that were asked lost: the query is answered as failed.

A search that must have something counted first, for a phrase that ends in a prefix or for the rarity of its terms, goes
apart: no other search waits for it, and namespaces share these calls and the counts in them.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from bytewax.dataflow import Stream, operator
from opentelemetry.trace import SpanKind, Tracer

from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant.collections.term_idf import TermIdf
from operators.clients.qdrant.ordered import look_up
from operators.clients.qdrant.phrase_endings import COUNTED, phrase_endings
from operators.query.backend_answers import Hits
from operators.query.canonical import Shape
from operators.query.in_flight import Found, InFlight
from operators.query.paging import find_page
from operators.query.search_bodies import Search, Searches, Unfinished, depth, legs, vector_of, wanted_depth
from operators.ranking.candidate import Leg
from operators.runtime.defect import defect_of_call
from operators.runtime.dispatcher import BatchKey, Bounds, Finished
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.turns import Turns
from operators.stages.apart import Apart, Apartness
from operators.stages.backend_stage import Queries, query_io
from operators.telemetry.traces import batch_span
from schemas.errors import BackendError, BackendTimeout, Reason
from schemas.result import CONTEXT_LEGS, KEYWORD, KEYWORD_CONTEXT, LEGS, STRUCTURED, VECTOR, VECTOR_CONTEXT, LegStatus

_UNASKED: Final = f"{Reason.NO_TERMS}: the query has nothing that a leg of its recipe and profile could search by"
_TOLD: Final = (Reason.NO_TERMS, Reason.NO_SPARSE_VECTOR)
_NO_CONTEXT: Final = (
    f"{Reason.NO_CONTEXT}: the recipe searches documents together with their neighbours, and the collection has no"
    " vectors of them: see qdrant.context"
)
_APART: Final = "apart"
_FACETS: Final = 16
"""Counts of words under way at once."""

_CUT: Final = "a phrase that ends in a prefix has more endings than are looked for: only the commonest are"


def retrieved(finished: Finished[InFlight, Found]) -> InFlight:
    """Take over what each leg answered; a query all of whose legs are lost is answered as failed."""
    query = finished.item
    asked = query.asked.canonical
    wanted = legs(query)
    for name in (*LEGS, *(leg for leg in CONTEXT_LEGS if leg in wanted)):
        place = name, query.asked.collection
        outcome = finished.outcomes.get(place, finished.outcomes.get((*place, _APART)))
        if outcome is None and name == VECTOR and _against(query):
            query.outcome.legs[name] = Leg(name, LegStatus.FAILED, reason=Reason.REFUSED)
            query.lose(name, Reason.REFUSED)
        elif isinstance(outcome, BackendError):
            late = isinstance(outcome, BackendTimeout)
            query.outcome.legs[name] = Leg(name, LegStatus.TIMEOUT if late else LegStatus.FAILED, reason=outcome.reason)
            query.lose(name, outcome.reason)
        elif outcome is not None:
            query.outcome.legs[name] = _found(query, name, outcome)
            query.outcome.warnings += outcome.warnings
        elif name != STRUCTURED and asked.shape is Shape.SEARCH:
            query.outcome.legs[name] = Leg(name, LegStatus.SKIPPED, reason=_why_skipped(query, name))
    if any(leg.reason is Reason.NO_CONTEXT for leg in query.outcome.legs.values()):
        query.outcome.warnings.append(_NO_CONTEXT)
    query.check_found()
    for name, leg in query.outcome.legs.items():
        if leg.status is not LegStatus.SKIPPED:
            query.passed(name, len(leg.ids))
    answered = any(leg.status is LegStatus.OK for leg in query.outcome.legs.values())
    if not answered and {"embed", *LEGS, *CONTEXT_LEGS} & dict(query.outcome.degraded).keys():
        query.outcome.failed = query.answered = True
    elif not answered and not any(said.startswith(_TOLD) for said in query.outcome.warnings):
        query.outcome.warnings.append(_UNASKED)
    if asked.shape is Shape.SEARCH:
        _tell_limits(query)
    return query


def _against(query: InFlight) -> bool:
    """Whether the vector leg would rank the wrong way round, and was not asked for that."""
    return not query.retrieval.capabilities.similar and VECTOR in legs(query) and vector_of(query) is not None


def _tell_limits(query: InFlight) -> None:
    most, wanted = depth(query), wanted_depth(query)
    if not any(len(leg.ids) >= most for leg in query.outcome.legs.values()):
        return
    if query.asked.canonical.reflections_only:
        query.outcome.warnings.append(f"there may be more reflections than the {most} that were ranked")
    elif most < wanted:
        query.outcome.warnings.append(
            f"the collection gives {most} candidates to a search (max_query_limit), and the query asked for {wanted}"
        )


def _found(query: InFlight, name: str, found: Found) -> Leg:
    asked = query.asked.canonical
    if asked.shape is Shape.SEARCH:
        return Leg(name, LegStatus.OK, *found.hits, more=len(found.hits.ids) >= depth(query))
    page = find_page(found.values, asked.after, asked.limit)
    leg = Leg(name, LegStatus.OK, *found.hits).at(range(page.first, page.last))
    query.retrieval.ends, query.outcome.more = dict(zip(leg.ids, page.ends, strict=True)), page.more
    query.retrieval.end = page.ends[-1] if page.ends else None
    return leg


def _why_skipped(query: InFlight, leg: str) -> Reason:
    recipe = query.asked.plan.recipe.fusion.legs
    if leg not in (legs(query) if query.asked.canonical.reflections_only else recipe):
        return Reason.RECIPE
    able = query.retrieval.capabilities
    if (leg == VECTOR_CONTEXT and not able.dense_context) or (leg == KEYWORD_CONTEXT and not able.sparse_context):
        return Reason.NO_CONTEXT
    if leg == KEYWORD_CONTEXT:
        return Reason.NO_TERMS
    if leg == KEYWORD:
        return Reason.NO_TERMS if query.retrieval.capabilities.keywords else Reason.NO_SPARSE_VECTOR
    if not query.asked.plan.profile.semantic and query.asked.canonical.vector is None:
        return Reason.PROFILE
    lost = dict(query.outcome.degraded)
    return lost.get("embed", Reason.NO_VECTOR)


@dataclass(frozen=True)
class Retriever:
    """Carries many queries' searches of one leg to Qdrant."""

    qdrant: QdrantClient
    searches: Searches
    tracer: Tracer
    bounds: Bounds
    idf: TermIdf
    facets: Turns = field(default_factory=lambda: Turns(_FACETS))

    def requests(self, query: InFlight) -> Mapping[BatchKey, Search | Apart]:
        """The query's searches by leg and collection; those that go apart by that, too."""
        return dict(self.placed(*each) for each in self.searches(query).items())

    def placed(self, batch_key: BatchKey, search: Search | Unfinished) -> tuple[BatchKey, Search | Apart]:
        """The batch key and the request of a search that is for a leg and a collection."""
        assert isinstance(batch_key, tuple)
        if isinstance(search, Unfinished):
            return (*batch_key, _APART), Apart(search, search.namespace)
        if search.corpus is None or self.idf.knows(batch_key[1], search):
            return batch_key, search
        return (*batch_key, _APART), Apart(search, search.corpus.namespace)

    async def __call__(
        self, batch_key: BatchKey, searches: Sequence[Search | Apart], timeout: float
    ) -> Sequence[Found | BackendError]:
        """One outcome a search, within `timeout` seconds."""
        assert isinstance(batch_key, tuple)
        leg, collection, *_ = batch_key
        started = monotonic()
        name = f"query {collection}"
        attributes = {
            "db.system.name": "qdrant",
            "db.operation.name": "scroll" if leg == STRUCTURED else "query",
            "db.collection.name": collection,
            "rankstream.leg": leg,
        }
        traces = [(each.search if isinstance(each, Apart) else each).trace for each in searches]
        link = None
        if any(trace.recording for trace in traces):
            size = {"db.operation.batch.size": len(searches)}
            with batch_span(self.tracer, name, attributes | size) as span:
                outcomes = await self._ask(leg, collection, searches, timeout)
                link = span.get_span_context()
        else:
            outcomes = await self._ask(leg, collection, searches, timeout)
        for trace, outcome in zip(traces, outcomes, strict=True):
            error = outcome.reason if isinstance(outcome, BackendError) else None
            trace.child(name, started, attributes, link=link, error=error, kind=SpanKind.CLIENT)
        return outcomes

    async def _ask(
        self, leg: str, collection: str, searches: Sequence[Search | Apart], timeout: float
    ) -> Sequence[Found | BackendError]:
        ready = [each for each in searches if isinstance(each, Search)]
        if leg == STRUCTURED:
            # Qdrant has no batch of ordered lookups.
            lookups = (look_up(self.qdrant, collection, each, timeout) for each in ready)
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
        asked = [body for search in searches for body in (search.body, search.rest) if body is not None]
        answers = iter(await self.qdrant.query_batch(collection, asked, timeout=timeout))
        return [_joined(search, answers) for search in searches]

    async def _finish(self, collection: str, search: Search | Unfinished, timeout: float) -> Found | BackendError:
        """Have what is not known counted, then search."""
        if isinstance(search, Search):
            [found] = await self._search(collection, [search], timeout)
            return found
        deadline = monotonic() + timeout
        try:
            able = search.capabilities
            endings, cut = await phrase_endings(
                self.qdrant,
                collection,
                search.endings,
                most=search.most,
                counted=min(COUNTED, able.values or COUNTED),
                exact=able.exact,
                turns=self.facets,
                namespace=search.namespace,
                timeout=timeout,
            )
        except BackendError as error:
            return error
        [found] = await self._search(collection, [search.finished(endings)], deadline - monotonic())
        return found._replace(warnings=(*found.warnings, _CUT)) if cut and isinstance(found, Found) else found


def _joined(search: Search, answers: Iterator[Hits | BackendError]) -> Found | BackendError:
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
    others = [place for place, id_ in enumerate(rest.ids) if id_ not in known]
    ids, payloads = [rest.ids[place] for place in others], [rest.payloads[place] for place in others]
    room = search.rest["limit"]
    scores = scored.scores + [0.0] * len(ids)
    versions = [*scored.versions, *(rest.versions[place] for place in others)] if rest.versions else []
    hits = Hits((scored.ids + ids)[:room], scores[:room], (scored.payloads + payloads)[:room], versions[:room])
    return Found(hits, warnings=search.warnings)


@operator
def retrieve(
    step_id: str,
    up: Stream[Queries],
    retriever: Retriever,
    calls: EventLoopThread,
) -> Stream[Queries]:
    """Queries in; on with what their legs found, answered if every leg is lost."""
    together = Apartness(retriever.bounds.max_batch)
    return query_io(
        "legs", up, "retrieve", retriever.requests, retriever, retrieved, calls, retriever.bounds, batching=together
    )
