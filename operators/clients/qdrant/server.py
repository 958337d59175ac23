"""A Qdrant server: raw requests over the HTTP seam, validated answers.

The official client's models and its own transport would take ten times as long as the request of a query, and their
errors would say neither whose fault a failure is nor which try it was: requests of every kind go by one backend.
"""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self, TypeVar
from urllib.parse import quote

from typing_extensions import override

from operators.clients.failures import bisect
from operators.clients.http.backend import Backend
from operators.clients.http.transport import MIB
from operators.clients.qdrant.answers import (
    CollectionInfo,
    Point,
    read_aliases,
    read_batch,
    read_count,
    read_done,
    read_exists,
    read_facet,
    read_indexed,
    read_info,
    read_page,
    read_points,
    read_update,
    read_updates,
)
from operators.clients.qdrant.client import Body, Fields, Filter, QdrantClient, now
from operators.clients.qdrant.requests import UNLIMITED, Change, chunks
from operators.query.backend_answers import Hits, RecordPage, parse_point_id
from schemas.errors import AnswerTooLong, BackendBadResponse, BackendError, BackendTimeout, Reason

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ServerClient(QdrantClient):
    """One server; `max_upsert` bounds the body of an upsert in bytes: 32 MB unless the server is configured otherwise.

    Upserts and changes are split by their size and by the limits of their collection.
    """

    backend: Backend
    max_upsert: int = 24 * MIB

    @override
    async def upsert(
        self, collection: str, points: Sequence[Mapping[str, Any]], condition: Filter | None = None, *, timeout: float
    ) -> None:
        deadline = now() + timeout
        limits = self.limits_of(collection)
        body: dict[str, Any] = {"points": []}
        if condition is not None:
            body["update_filter"] = limits.filter(condition)
        encode = self.backend.endpoint.encode
        most = limits.points or len(points)
        for chunk in chunks(map(encode, points), self.max_upsert - len(encode(body)), most):
            request = {**body, "points": chunk}
            await self._ask(collection, "/points", request, read_update, deadline, method="PUT", wait=True)

    @override
    async def change(self, collection: str, changes: Sequence[Change], *, timeout: float) -> None:
        deadline = now() + timeout
        encode = self.backend.endpoint.encode
        encoded = (b",".join(map(encode, change.operations())) for change in changes)
        for chunk in chunks(encoded, self.max_upsert, self.limits_of(collection).points or len(changes)):
            await self._ask(collection, "/points/batch", {"operations": chunk}, read_updates, deadline, wait=True)

    @override
    async def delete(self, collection: str, where: Filter, *, timeout: float) -> None:
        body = {"filter": self.limits_of(collection).filter(where)}
        await self._ask(collection, "/points/delete", body, read_update, now() + timeout, wait=True)

    @override
    async def exists(self, collection: str, *, timeout: float) -> bool:
        return await self._ask(collection, "/exists", None, read_exists, now() + timeout, method="GET")

    @override
    async def aliases(self, *, timeout: float) -> dict[str, str]:
        return await self._ask(None, "/aliases", None, read_aliases, now() + timeout, method="GET")

    @override
    async def version(self, *, timeout: float) -> str:
        def read(answer: Any) -> str:
            match answer:
                case {"version": str(version)}:
                    return version
            raise BackendBadResponse(f"{self.backend.name}: no version in it")

        return await self.backend.ask("/", None, read, timeout=timeout, method="GET", repeatable=True)

    @override
    async def change_aliases(self, targets: Mapping[str, str | None], *, timeout: float) -> None:
        actions: list[dict[str, Any]] = []
        for alias, collection in targets.items():
            actions.append({"delete_alias": {"alias_name": alias}})
            if collection is not None:
                actions.append({"create_alias": {"alias_name": alias, "collection_name": collection}})
        path = "/collections/aliases"
        await self._ask(None, path, {"actions": actions}, read_done, now() + timeout, repeatable=False)

    @override
    async def drop_collection(self, collection: str, *, timeout: float) -> None:
        await self._ask(collection, "", None, read_done, now() + timeout, method="DELETE")

    @override
    async def create_collection(self, collection: str, config: Body, *, timeout: float) -> None:
        await self._ask(collection, "", config, read_done, now() + timeout, method="PUT")

    @override
    async def create_index(self, collection: str, field: str, schema: Body, *, timeout: float) -> None:
        body = {"field_name": field, "field_schema": schema}
        await self._ask(collection, "/index", body, read_indexed, now() + timeout, method="PUT", wait=True)

    @override
    def without_retries(self) -> Self:
        return replace(self, backend=self.backend.endpoint)

    @override
    async def aclose(self) -> None:
        await self.backend.aclose()

    @override
    async def _search(self, collection: str, searches: Sequence[Body], deadline: float) -> list[Hits | BackendError]:
        limits = self.limits_of(collection)
        searches = list(map(limits.search, searches))

        async def search(batch: Sequence[Body]) -> list[Hits]:
            read = partial(read_batch, expected=len(batch))
            return await self._ask(collection, "/points/query/batch", {"searches": batch}, read, deadline)

        # Qdrant refuses a batch whole when one search in it is wrong: bisection finds that one.
        size = limits.searches or max(len(searches), 1)
        if len(searches) <= size:
            # Nearly always so: no tasks for it.
            return await bisect(searches, search, thorough=True)
        batches = [searches[start : start + size] for start in range(0, len(searches), size)]
        answered = await asyncio.gather(*(bisect(batch, search, thorough=True) for batch in batches))
        return [answer for batch in answered for answer in batch]

    @override
    async def _points(
        self, collection: str, ids: Sequence[str], fields: Fields, vector: str | None, deadline: float
    ) -> dict[str, Point]:
        body = {
            "ids": [parse_point_id(each) for each in ids],
            "with_payload": fields,
            "with_vector": False if vector is None else [vector],
        }
        try:
            return await self._ask(collection, "/points", body, partial(read_points, vector=vector), deadline)
        except AnswerTooLong:
            if len(ids) == 1:
                raise
        middle = len(ids) // 2
        halves = (self._points(collection, half, fields, vector, deadline) for half in (ids[:middle], ids[middle:]))
        first, second = await asyncio.gather(*halves)
        return first | second

    @override
    async def _scroll(self, collection: str, body: Body, deadline: float) -> RecordPage:
        return await self._ask(collection, "/points/scroll", body, read_page, deadline)

    @override
    async def _count(self, collection: str, body: Body, deadline: float) -> int:
        return await self._ask(collection, "/points/count", body, read_count, deadline)

    @override
    async def _facet(self, collection: str, body: Body, deadline: float) -> dict[str | int, int]:
        return await self._ask(collection, "/facet", body, read_facet, deadline)

    @override
    async def _describe(self, collection: str, deadline: float) -> CollectionInfo:
        return await self._ask(collection, "", None, read_info, deadline, method="GET")

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
        left = deadline - now()
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
        found = await self.successor(collection, deadline - now())
        if found is None:
            raise missing
        # One that isn't there, either, has no successor in turn.
        last = replace(self, successor=None)
        return await last._ask(found, path, body, read, deadline, method=method, wait=wait, repeatable=repeatable)
