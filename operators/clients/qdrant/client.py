"""The client of Qdrant: a server over HTTP (`server`), or the engine in this process (`operators.clients.qdrant_edge`).

Searches travel in batches, because a request costs more than the search in it, and their failures come back as values
among the answers of the others. All else raises BackendError when it fails. Filters have one form, Qdrant's JSON.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, Final

from operators.clients.failures import attempt, bisect, in_batches
from operators.clients.qdrant.answers import CollectionInfo, Payload, PayloadTest, Points, ValueCounts
from operators.clients.qdrant.requests import UNLIMITED, Change, Limits
from operators.query.backend_answers import Hits, Record, RecordPage, parse_point_id
from operators.query.field_map import SAME, FieldMap
from operators.query.search import Count, Found, Program, QueryBatch, Request, Scroll, ScrollVectors, Search, Words
from operators.runtime.dispatcher import defect_of_call
from operators.runtime.turns import Turns
from schemas.errors import BackendError

Answer = Hits | BackendError
Outcome = Found | BackendError
Step = Request | Outcome
"""A program's next request, or its outcome."""

Filter = Mapping[str, Any]
Body = Mapping[str, Any]
"""A request, or a part of one, in Qdrant's JSON."""

Fields = bool | list[str] | Mapping[str, list[str]]
"""The selected fields of a payload, in Qdrant's form."""


def all_but(fields: Iterable[str]) -> Fields:
    """All fields of a payload except these."""
    return {"exclude": list(fields)}


@dataclass(frozen=True, slots=True, kw_only=True)
class QdrantClient(ABC):
    """One Qdrant; `timeout` is in seconds, for the whole call, however many requests it takes.

    `limits` are those of collections, as far as they are known: requests are made to fit. `fields` maps our names to
    those in collections of other tools, for everything that is read; `maps` has what is known of the indexes of each.
    `successor` finds the collection to ask in place of one that isn't there, for clients that only read. `facets`:
    counts of words take turns by namespace.
    """

    limits: dict[str, Limits] = field(default_factory=dict)
    fields: FieldMap = SAME
    maps: dict[str, FieldMap] = field(default_factory=dict)
    successor: Callable[[str, float], Awaitable[str | None]] | None = None
    facets: Turns = field(default_factory=lambda: Turns(16))

    async def query_batch(self, collection: str, searches: Sequence[Body], *, timeout: float) -> list[Answer]:
        """Answer every search with its hits, best first, or with the error that it met; raises nothing.

        `searches` are bodies of `/points/query`. One that Qdrant refuses fails alone; a missing collection, a time-out,
        an outage and an answer that breaks the protocol fail all the searches that were asked together.
        """
        fields, limits = self.map_of(collection), self.limits_of(collection)
        bodies = [limits.search(body if fields.same else fields.search(body)) for body in searches]
        search = partial(self._search, collection, deadline=now() + timeout)
        # Qdrant refuses a batch whole when one search in it is wrong: bisection finds that one.
        ask = partial(bisect, call=search, thorough=True)
        batches = await in_batches(bodies, limits.searches or max(len(bodies), 1), ask)
        answers = list(chain.from_iterable(batches))
        if self.fields.same:
            return answers
        rename = self.fields.payload
        return [
            each
            if isinstance(each, BackendError)
            else each._replace(payloads=list(map(rename, each.ids, each.payloads)))
            for each in answers
        ]

    async def retrieve(
        self, collection: str, ids: Sequence[str], fields: Sequence[str] | Fields, *, timeout: float
    ) -> dict[str, Payload]:
        """The payloads of the points that exist, by id: these fields, all (True) or `all_but` some, or none (False)."""
        found = await self._points(collection, ids, self._fields(fields), None, now() + timeout)
        return self._rename(found.payloads)

    async def vectors(
        self, collection: str, ids: Sequence[str], name: str, *, only: PayloadTest | None = None, timeout: float
    ) -> dict[str, Any]:
        """The vector of this name of the points that have it, by id, and only of those that pass the test `only`."""
        wanted = self._fields(only.fields if only is not None else False)
        found = await self._points(collection, ids, wanted, name, now() + timeout)
        payloads = self._rename(found.payloads)
        return {id_: each for id_, each in found.vectors.items() if only is None or only.test(id_, payloads[id_])}

    async def scroll(
        self,
        collection: str,
        where: Filter | None = None,
        *,
        limit: int,
        fields: Sequence[str] | bool = True,
        order_by: Mapping[str, Any] | None = None,
        offset: str | None = None,
        vector: str | None = None,
        timeout: float,
    ) -> RecordPage:
        """At most `limit` records by id from `offset` on, or in the order of an indexed field, with their `vector`.

        The collection's limits may allow fewer. An ordered scroll leaves out the points without that field and is
        continued by `start_from` in `order_by`.
        """
        deadline = now() + timeout
        limits = await self._learn_limits(collection, deadline)
        body = _body(
            filter=self._where(collection, where),
            limit=limits.page(limit),
            with_payload=self._fields(fields),
            with_vector=False if vector is None else [vector],
            order_by=None if order_by is None else self.fields.order(order_by),
            offset=None if offset is None else parse_point_id(offset),
        )
        page = await self._scroll(collection, body, deadline)
        if self.fields.same:
            return page
        records = [replace(each, payload=self.fields.payload(each.id, each.payload)) for each in page.records]
        return RecordPage(records, page.next_offset)

    async def records(
        self, collection: str, where: Filter, *, limit: int, fields: Sequence[str], timeout: float
    ) -> AsyncIterator[Record]:
        """All records that the filter matches, by id, in pages of `limit`, each within `timeout` seconds.

        Raises BackendError.
        """
        offset: str | None = None
        while True:
            page = await self.scroll(collection, where, limit=limit, fields=fields, offset=offset, timeout=timeout)
            for record in page.records:
                yield record
            if (offset := page.next_offset) is None:
                return

    async def count(self, collection: str, where: Filter | None = None, *, timeout: float) -> int:
        """The number of points that the filter matches, exact if the collection allows it; raises BackendError."""
        deadline = now() + timeout
        limits = await self._learn_limits(collection, deadline)
        body = _body(filter=self._where(collection, where), exact=limits.exact)
        return await self._count(collection, body, deadline)

    async def facet(
        self, collection: str, key: str, where: Filter | None = None, *, limit: int, timeout: float
    ) -> ValueCounts:
        """The number of points with each of the `limit` commonest values of an indexed field; raises BackendError.

        There are fewer values, or approximate numbers, where the collection's limits allow no more.
        """
        deadline = now() + timeout
        limits = await self._learn_limits(collection, deadline)
        most = limits.page(limit)
        body = _body(key=self.fields.path(key), filter=self._where(collection, where), limit=most, exact=limits.exact)
        counts = await self._facet(collection, body, deadline)
        return ValueCounts(counts, len(counts) >= most, limits.exact)

    async def collection_info(self, collection: str, *, timeout: float) -> CollectionInfo:
        """The description of a collection; raises BackendError (status 404 when it isn't there).

        From then on, requests to it fit the limits that it describes.
        """
        info = await self._describe(collection, now() + timeout)
        self.limits[collection] = Limits.of(info.strict)
        kinds = {path: described.get("data_type", "") for path, described in info.indexes.items()}
        self.maps[collection] = replace(self.fields, kinds=kinds)
        return info

    async def run(self, collection: str, searches: Sequence[Search], timeout: float) -> list[Outcome]:
        """Run many searches' programs: the outcome of each, within `timeout` seconds; raises nothing.

        Their first searches go in one request; each goes on by itself after that. One whose request fails, or which
        meets a defect, leaves the others.
        """
        deadline = now() + timeout
        programs = [search.start() for search in searches]
        first = [_advance(program, None) for program in programs]
        bodies = [body for step in first if isinstance(step, QueryBatch) for body in step.bodies]
        hits = iter(await self.query_batch(collection, bodies, timeout=timeout) if bodies else ())
        steps = [
            _advance(program, _take(hits, step)) if isinstance(step, QueryBatch) else step
            for program, step in zip(programs, first, strict=True)
        ]
        outcomes = [step for step in steps if isinstance(step, Outcome)]
        if len(outcomes) == len(steps):
            # Nearly always so: no tasks for it.
            return outcomes
        run = zip(searches, programs, steps, strict=True)
        ended = await asyncio.gather(
            *(self._finish(collection, search.alone, program, step, deadline) for search, program, step in run),
            return_exceptions=True,
        )
        return [each if isinstance(each, Outcome) else defect_of_call(each) for each in ended]

    async def _finish(
        self, collection: str, tenant: Hashable, program: Program, step: Step, deadline: float
    ) -> Outcome:
        while not isinstance(step, Outcome):
            step = _advance(program, await attempt(self._request(collection, tenant, step, deadline)))
        return step

    async def _request(self, collection: str, tenant: Hashable, request: Request, deadline: float) -> Any:
        async def count_words(key: str, where: Any, limit: int) -> Any:
            async with self.facets.turn(tenant):
                return await self.facet(collection, key, where, limit=limit, timeout=deadline - now())

        left = max(0.0, deadline - now())
        match request:
            case QueryBatch(bodies):
                return _take(iter(await self.query_batch(collection, bodies, timeout=left)), request)
            case Count(wheres):
                return await asyncio.gather(*(self.count(collection, where, timeout=left) for where in wheres))
            case Words(fields, limit):
                return await asyncio.gather(*(count_words(key, where, limit) for key, where in fields))
            case Scroll(where, limit, fields, order_by, offset):
                return await self.scroll(
                    collection, where, limit=limit, fields=fields, order_by=order_by, offset=offset, timeout=left
                )
            case ScrollVectors(where, limit, fields, name):
                return await self.scroll(collection, where, limit=limit, fields=fields, vector=name, timeout=left)

    @abstractmethod
    async def upsert(
        self, collection: str, points: Sequence[Mapping[str, Any]], condition: Filter | None = None, *, timeout: float
    ) -> None:
        """Write `points` ({id, vector, payload}, arrays allowed) in order; every search after this returns sees them.

        Where a point exists already and `condition` doesn't match it, it stays as it is. When a request or piece fails,
        those before it stay applied.
        """

    @abstractmethod
    async def change(self, collection: str, changes: Sequence[Change], *, timeout: float) -> None:
        """Change points, in order; other fields stay. Every search after this returns sees it.

        Raises BackendError at the first that fails, status 404 where a point isn't there; those before it stay applied.
        """

    @abstractmethod
    async def delete(self, collection: str, where: Filter, *, timeout: float) -> None:
        """Delete the points that the filter matches, for every search after this returns; raises BackendError."""

    @abstractmethod
    async def exists(self, collection: str, *, timeout: float) -> bool:
        """True if a collection or an alias has this name; raises BackendError."""

    @abstractmethod
    async def aliases(self, *, timeout: float) -> dict[str, str]:
        """The collection of each alias that the key may see; raises BackendError."""

    @abstractmethod
    async def version(self, *, timeout: float) -> str | None:
        """The server's version, as it writes it; None of the engine in this process. Raises BackendError."""

    @abstractmethod
    async def change_aliases(self, targets: Mapping[str, str | None], *, timeout: float) -> None:
        """Give each alias to its collection, or take it away (None), all in one step; raises BackendError."""

    @abstractmethod
    async def drop_collection(self, collection: str, *, timeout: float) -> None: ...

    @abstractmethod
    async def create_collection(self, collection: str, config: Body, *, timeout: float) -> None:
        """Create a collection by Qdrant's JSON. BackendError of status 409: it is there already."""

    @abstractmethod
    async def create_index(self, collection: str, field: str, schema: Body, *, timeout: float) -> None:
        """Index a payload field, returning when the index is built; raises BackendError."""

    @abstractmethod
    def without_retries(self) -> "QdrantClient":
        """The same client, whose every request is made once: its error is the first symptom."""

    @abstractmethod
    async def aclose(self) -> None: ...

    @abstractmethod
    async def _search(self, collection: str, searches: Sequence[Body], deadline: float) -> list[Hits]: ...

    @abstractmethod
    async def _points(
        self, collection: str, ids: Sequence[str], fields: Fields, vector: str | None, deadline: float
    ) -> Points: ...

    @abstractmethod
    async def _scroll(self, collection: str, body: Body, deadline: float) -> RecordPage: ...

    @abstractmethod
    async def _count(self, collection: str, body: Body, deadline: float) -> int: ...

    @abstractmethod
    async def _facet(self, collection: str, body: Body, deadline: float) -> dict[str | int, int]: ...

    @abstractmethod
    async def _describe(self, collection: str, deadline: float) -> CollectionInfo: ...

    async def _learn_limits(self, collection: str, deadline: float) -> Limits:
        """The limits of a collection, whose description nothing else may have read."""
        if collection not in self.limits:
            await self.collection_info(collection, timeout=deadline - now())
        return self.limits_of(collection)

    def limits_of(self, collection: str) -> Limits:
        return self.limits.get(collection, UNLIMITED)

    def map_of(self, collection: str) -> FieldMap:
        return self.maps.get(collection, self.fields)

    def take_over(self, collection: str, alias: str) -> None:
        """Make requests to a collection as its description by an alias of it has them."""
        self.limits[collection], self.maps[collection] = self.limits_of(alias), self.map_of(alias)

    def _where(self, collection: str, where: Filter | None) -> Filter | None:
        if where is not None and not self.fields.same:
            where = self.map_of(collection).filter(where)
        return None if where is None else self.limits_of(collection).filter(where)

    def _rename(self, payloads: dict[str, Payload]) -> dict[str, Payload]:
        rename = self.fields.payload
        return payloads if self.fields.same else {id_: rename(id_, each) for id_, each in payloads.items()}

    def _fields(self, fields: Sequence[str] | Fields) -> Fields:
        selected: Fields = self.fields.fields(fields if isinstance(fields, bool | Mapping) else list(fields))
        return selected


def _take(hits: Iterator[Answer], request: QueryBatch) -> Sequence[Answer] | BackendError:
    """The answers to a request, or the first error among them."""
    taken = [next(hits) for _ in request.bodies]
    errors = [each for each in taken if isinstance(each, BackendError)]
    return errors[0] if errors else taken


def _advance(program: Program, answer: Any) -> Step:
    """Give a program the answer to its request, None at its start: its next request, or its outcome."""
    try:
        return program.throw(answer) if isinstance(answer, BackendError) else program.send(answer)
    except StopIteration as end:
        found: Found = end.value
        return found
    except BackendError as error:
        return error


def _body(**members: Any) -> Body:
    return {name: value for name, value in members.items() if value is not None}


now: Final = time.monotonic
"""The clock on which deadlines are."""
