"""The client of Qdrant, server or embedded: raw requests over the HTTP seam, validated answers.

Searches travel in batches, because a request costs more than the search in it, and their failures come back as values
among the answers of the others. Everything else raises BackendError. Filters have one form, Qdrant's JSON.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import orjson

from operators.clients.failures import bisect
from operators.clients.http.backend import Backend
from operators.clients.http.transport import MIB
from operators.clients.qdrant.answers import (
    CollectionInfo,
    Facet,
    Payload,
    PayloadTest,
    read_aliases,
    read_batch,
    read_count,
    read_done,
    read_exists,
    read_facet,
    read_info,
    read_page,
    read_payloads,
    read_update,
    read_updates,
    read_vectors,
)
from operators.clients.qdrant.requests import UNLIMITED, Change, Limits, chunks, encode
from operators.query.backend_answers import Hits, Record, RecordPage, point_id
from operators.query.field_map import SAME, FieldMap
from schemas.errors import AnswerTooLong, BackendBadResponse, BackendError, BackendTimeout, Reason

if TYPE_CHECKING:
    # The models take 1.5 s to import; only the code that makes a collection pays for that.
    from qdrant_client.http import models

Result = TypeVar("Result")
Filter = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AllBut:
    """All fields of a payload except these."""

    fields: Sequence[str]


@dataclass(frozen=True, slots=True)
class QdrantClient:
    """One Qdrant; `timeout` is in seconds, for the whole call, however many requests it takes.

    `max_upsert` bounds the body of an upsert in bytes: a server takes 32 MB unless it is configured otherwise. `limits`
    are those of collections, as far as they are known: requests are made to fit. `fields` maps our names to those in
    collections of other tools, for everything that is read; `maps` has what is known of the indexes of each. `packs`:
    it is the engine in this process, which reads vectors as bytes. `successor` finds the collection to ask in place of
    one that isn't there, within so many seconds; for clients that only read.
    """

    backend: Backend
    max_upsert: int = 24 * MIB
    limits: dict[str, Limits] = field(default_factory=dict)
    fields: FieldMap = SAME
    maps: dict[str, FieldMap] = field(default_factory=dict)
    packs: bool = False
    successor: Callable[[str, float], Awaitable[str | None]] | None = None

    async def query_batch(
        self, collection: str, searches: Sequence[Mapping[str, Any]], *, timeout: float
    ) -> list[Hits | BackendError]:
        """Answer every search with its hits, best first, or with the error that it met; raises nothing.

        `searches` are bodies of `/points/query`. One that Qdrant refuses fails alone; a missing collection, a time-out,
        an outage and an answer that breaks the protocol fail all the searches that were asked together.
        """
        deadline = _now() + timeout
        path = "/points/query/batch"

        fields, limits = self.map_of(collection), self.limits_of(collection)
        searches = [limits.search(fields.search(body)) for body in searches]

        async def search(batch: Sequence[Mapping[str, Any]]) -> list[Hits]:
            read = partial(read_batch, expected=len(batch))
            body: object = {"searches": batch}
            if self.packs:
                body = orjson.Fragment(self._encode(body))
            return await self._ask(collection, path, body, read, deadline)

        # Qdrant refuses a batch whole when one search in it is wrong: bisection finds that one.
        size = limits.searches or max(len(searches), 1)
        batches = [searches[start : start + size] for start in range(0, len(searches), size)]
        if len(batches) == 1:
            answers = await bisect(searches, search, thorough=True)
        else:
            answered = await asyncio.gather(*(bisect(batch, search, thorough=True) for batch in batches))
            answers = [answer for batch in answered for answer in batch]
        return [self._rename(answer) for answer in answers]

    async def retrieve(
        self, collection: str, ids: Sequence[str], fields: Sequence[str] | AllBut | bool, *, timeout: float
    ) -> dict[str, Payload]:
        """The payloads of those points that exist, by id: named `fields`, all (True), all except some, or none (False).

        Raises BackendError.
        """
        wanted = self.fields.fields(_fields(fields))
        body = {"with_payload": wanted, "with_vector": False}
        found = await self._read_points(collection, ids, body, read_payloads, _now() + timeout)
        return {id_: self.fields.payload(id_, payload) for id_, payload in found.items()}

    async def vectors(
        self, collection: str, ids: Sequence[str], name: str, *, only: PayloadTest | None = None, timeout: float
    ) -> dict[str, Any]:
        """The vector of this name of the points that have it, by id, and only of those that pass the test `only`."""
        wanted = self.fields.fields(list(only.fields) if only is not None else False)
        body = {"with_payload": wanted, "with_vector": [name]}
        read = partial(read_vectors, name=name, only=only, named=self.fields.payload)
        return await self._read_points(collection, ids, body, read, _now() + timeout)

    async def scroll(
        self,
        collection: str,
        where: Filter | None = None,
        *,
        limit: int,
        fields: Sequence[str] | bool = True,
        order_by: Mapping[str, Any] | None = None,
        offset: str | None = None,
        timeout: float,
    ) -> RecordPage:
        """At most `limit` records by id from `offset` on, or in the order of an indexed field; raises BackendError.

        There are fewer where the collection's limits allow no more. An ordered scroll leaves out the points without
        that field and is continued by `start_from` in `order_by`.
        """
        deadline = _now() + timeout
        limits = await self._learn_limits(collection, deadline)
        body = _body(
            filter=self._where(collection, where),
            limit=limits.page(limit),
            with_payload=self.fields.fields(_fields(fields)),
            with_vector=False,
            order_by=None if order_by is None else self.fields.order(order_by),
            offset=None if offset is None else point_id(offset),
        )
        page = await self._ask(collection, "/points/scroll", body, read_page, deadline)
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
        deadline = _now() + timeout
        limits = await self._learn_limits(collection, deadline)
        body = _body(filter=self._where(collection, where), exact=limits.exact)
        return await self._ask(collection, "/points/count", body, read_count, deadline)

    async def facet(
        self, collection: str, key: str, where: Filter | None = None, *, limit: int, timeout: float
    ) -> Facet:
        """The number of points with each of the `limit` commonest values of an indexed field; raises BackendError.

        There are fewer values, or approximate numbers, where the collection's limits allow no more.
        """
        deadline = _now() + timeout
        limits = await self._learn_limits(collection, deadline)
        most = limits.page(limit)
        read = partial(read_facet, limit=most, exact=limits.exact)
        body = _body(key=self.fields.path(key), filter=self._where(collection, where), limit=most, exact=limits.exact)
        return await self._ask(collection, "/facet", body, read, deadline)

    async def upsert(
        self,
        collection: str,
        points: Sequence[Mapping[str, Any]],
        condition: Filter | None = None,
        *,
        timeout: float,
    ) -> None:
        """Write `points` ({id, vector, payload}, arrays allowed) in order; every search after this returns sees them.

        Where a point exists already and `condition` doesn't match it, it stays as it is. Requests are split by their
        size; raises BackendError at the first that fails, and those before it stay applied.
        """
        deadline = _now() + timeout
        limits = self.limits_of(collection)
        body = _body(points=[], update_filter=None if condition is None else limits.filter(condition))
        encoded = map(self._encode, points)
        most = limits.points or len(points)
        for chunk in chunks(encoded, self.max_upsert - len(self._encode(body)), most):
            request = {**body, "points": chunk}
            await self._ask(collection, "/points", request, read_update, deadline, method="PUT", wait=True)

    async def change(self, collection: str, changes: Sequence[Change], *, timeout: float) -> None:
        """Change points, in order; other fields stay. Every search after this returns sees it.

        Raises BackendError at the first that fails, status 404 where a point isn't there; those before it stay applied.
        """
        deadline = _now() + timeout
        encoded = (b",".join(map(self._encode, change.operations())) for change in changes)
        for chunk in chunks(encoded, self.max_upsert, self.limits_of(collection).points or len(changes)):
            await self._ask(collection, "/points/batch", {"operations": chunk}, read_updates, deadline, wait=True)

    async def delete(self, collection: str, where: Filter, *, timeout: float) -> None:
        """Delete the points that the filter matches, for every search after this returns; raises BackendError."""
        body = {"filter": self.limits_of(collection).filter(where)}
        await self._ask(collection, "/points/delete", body, read_update, _now() + timeout, wait=True)

    async def exists(self, collection: str, *, timeout: float) -> bool:
        """True if a collection or an alias has this name; raises BackendError."""
        return await self._ask(collection, "/exists", None, read_exists, _now() + timeout, method="GET")

    async def collection_info(self, collection: str, *, timeout: float) -> CollectionInfo:
        """The description of a collection; raises BackendError (status 404 when it isn't there).

        From then on, requests to it fit the limits that it describes.
        """
        info = await self._ask(collection, "", None, read_info, _now() + timeout, method="GET")
        self.limits[collection] = Limits.of(info.strict)
        if not self.fields.same:
            kinds = {path: described.get("data_type", "") for path, described in info.indexes.items()}
            self.maps[collection] = replace(self.fields, kinds=kinds)
        return info

    async def aliases(self, *, timeout: float) -> dict[str, str]:
        """The collection of each alias that the key may see; raises BackendError."""
        return await self._ask(None, "/aliases", None, read_aliases, _now() + timeout, method="GET")

    async def version(self, *, timeout: float) -> str:
        """The server's version, as it writes it; raises BackendError."""

        def read(answer: Any) -> str:
            match answer:
                case {"version": str(version)}:
                    return version
            raise BackendBadResponse(f"{self.backend.name}: no version in it")

        return await self.backend.ask("/", None, read, timeout=timeout, method="GET", repeatable=True)

    async def change_aliases(self, targets: Mapping[str, str | None], *, timeout: float) -> None:
        """Give each alias to its collection, or take it away (None), all in one step; raises BackendError."""
        actions: list[dict[str, Any]] = []
        for alias, collection in targets.items():
            actions.append({"delete_alias": {"alias_name": alias}})
            if collection is not None:
                actions.append({"create_alias": {"alias_name": alias, "collection_name": collection}})
        path = "/collections/aliases"
        await self._ask(None, path, {"actions": actions}, read_done, _now() + timeout, repeatable=False)

    async def drop_collection(self, collection: str, *, timeout: float) -> None:
        """Delete a collection with its documents; raises BackendError."""
        await self._ask(collection, "", None, read_done, _now() + timeout, method="DELETE")

    async def create_collection(self, collection: str, config: "models.CreateCollection", *, timeout: float) -> None:
        """Create a collection; raises BackendError (status 409 when it is there already)."""
        body = config.model_dump(mode="json", exclude_none=True)
        await self._ask(collection, "", body, read_done, _now() + timeout, method="PUT")

    async def create_index(self, collection: str, field: str, schema: Payload, *, timeout: float) -> None:
        """Index a payload field by this schema, returning when the index is built; raises BackendError."""
        body = {"field_name": field, "field_schema": schema}
        await self._ask(collection, "/index", body, read_update, _now() + timeout, method="PUT", wait=True)

    async def _read_points(
        self,
        collection: str,
        ids: Sequence[str],
        body: Mapping[str, Any],
        read: Callable[[object], dict[str, Result]],
        deadline: float,
    ) -> dict[str, Result]:
        """Read the points that exist, by id. Splits the ids in two when the answer is too large."""
        try:
            request = {"ids": [point_id(each) for each in ids], **body}
            return await self._ask(collection, "/points", request, read, deadline)
        except AnswerTooLong:
            if len(ids) == 1:
                raise
        middle = len(ids) // 2
        halves = (self._read_points(collection, half, body, read, deadline) for half in (ids[:middle], ids[middle:]))
        first, second = await asyncio.gather(*halves)
        return first | second

    async def _ask(
        self,
        collection: str | None,
        path: str,
        body: object,
        read: Callable[[object], Result],
        deadline: float,
        *,
        method: str = "POST",
        wait: bool = False,
        repeatable: bool = True,
    ) -> Result:
        left = deadline - _now()
        if left <= 0:
            raise BackendTimeout(f"{self.backend.name}: no time left to ask")
        # The server counts whole seconds, from one on: it stops work whose result nobody waits for.
        limits = UNLIMITED if collection is None else self.limits_of(collection)
        bounds = f"?timeout={limits.seconds(math.ceil(left))}" + ("&wait=true" if wait else "")
        target = "" if collection is None else f"/collections/{quote(collection, safe='')}"
        whole = f"{target}{path}{bounds}"

        def read_result(answer: Any) -> Result:
            try:
                return read(answer["result"])
            except (KeyError, TypeError, ValueError) as error:
                reason = str(error) if type(error) is ValueError else "no result in it"
            raise BackendBadResponse(f"{self.backend.name}: {reason}")

        # Requests that wait are writes; so are creations and deletions.
        reads = repeatable and not wait and method not in {"PUT", "DELETE"}
        try:
            return await self.backend.ask(whole, body, read_result, timeout=left, method=method, repeatable=reads)
        except BackendBadResponse as error:
            if error.reason is not Reason.NO_COLLECTION or collection is None or self.successor is None:
                raise
            missing = error
        found = await self.successor(collection, deadline - _now())
        if found is None:
            raise missing
        # One that isn't there, either, has no successor in turn.
        last = replace(self, successor=None)
        return await last._ask(found, path, body, read, deadline, method=method, wait=wait, repeatable=repeatable)

    async def _learn_limits(self, collection: str, deadline: float) -> Limits:
        """The limits of a collection, of which nothing else may have read the description."""
        if collection not in self.limits:
            await self.collection_info(collection, timeout=deadline - _now())
        return self.limits_of(collection)

    def limits_of(self, collection: str) -> Limits:
        """The limits of one request to a collection, as far as they are known."""
        return self.limits.get(collection, UNLIMITED)

    def map_of(self, collection: str) -> FieldMap:
        """The map of a collection's fields, with its indexes as far as they are known."""
        return self.maps.get(collection, self.fields)

    def take_over(self, collection: str, alias: str) -> None:
        """Make requests to a collection as its description by an alias of it has them."""
        self.limits[collection], self.maps[collection] = self.limits_of(alias), self.map_of(alias)

    def _where(self, collection: str, where: Filter | None) -> Filter | None:
        if where is None:
            return None
        named = where if self.fields.same else self.map_of(collection).filter(where)
        return self.limits_of(collection).filter(named)

    def _rename(self, answer: Hits | BackendError) -> Hits | BackendError:
        if self.fields.same or isinstance(answer, BackendError):
            return answer
        return answer._replace(payloads=list(map(self.fields.payload, answer.ids, answer.payloads)))

    def _encode(self, value: object) -> bytes:
        try:
            return encode(value, packs=self.packs)
        except orjson.JSONEncodeError:
            pass
        # Raised out here, so that no part of the value is chained to it.
        raise BackendBadResponse(f"{self.backend.name}: the request can't be written as JSON")


def _body(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _fields(fields: Sequence[str] | AllBut | bool) -> list[str] | dict[str, list[str]] | bool:
    if isinstance(fields, AllBut):
        return {"exclude": list(fields.fields)}
    return fields if isinstance(fields, bool) else list(fields)


def _now() -> float:
    return time.monotonic()
