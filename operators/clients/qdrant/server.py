"""A Qdrant server: raw requests over the HTTP seam, validated answers.

The official client's models and its own transport would take ten times as long as the request of a query, and their
errors would say neither whose fault a failure is nor which try it was: requests of every kind go by one backend.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self, TypeVar
from urllib.parse import quote

from operators.clients.http.backend import Backend
from operators.clients.http.transport import MIB, Call
from operators.clients.qdrant import answers
from operators.clients.qdrant.answers import CollectionInfo, Points
from operators.clients.qdrant.client import Body, Fields, Filter, QdrantClient, now
from operators.clients.qdrant.requests import Change, split_points
from operators.query.backend_answers import Hits, RecordPage, parse_point_id
from schemas.errors import AnswerTooLong, BackendBadResponse, BackendTimeout, Reason

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ServerClient(QdrantClient):
    """One server; `max_upsert` bounds the body of an upsert in bytes: 32 MB unless the server is configured otherwise.

    Upserts and changes are split by their size and by the limits of their collection.
    """

    backend: Backend
    max_upsert: int = 24 * MIB

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
        for chunk in split_points(map(encode, points), self.max_upsert - len(encode(body)), most):
            request = {**body, "points": chunk}
            await self._ask(collection, Call("/points", request, answers.read_update, "PUT"), deadline, wait=True)

    async def change(self, collection: str, changes: Sequence[Change], *, timeout: float) -> None:
        deadline = now() + timeout
        encode = self.backend.endpoint.encode
        encoded = (b",".join(map(encode, change.operations())) for change in changes)
        for chunk in split_points(encoded, self.max_upsert, self.limits_of(collection).points or len(changes)):
            call = Call("/points/batch", {"operations": chunk}, answers.read_updates)
            await self._ask(collection, call, deadline, wait=True)

    async def delete(self, collection: str, where: Filter, *, timeout: float) -> None:
        body = {"filter": self.limits_of(collection).filter(where)}
        await self._ask(collection, Call("/points/delete", body, answers.read_update), now() + timeout, wait=True)

    async def exists(self, collection: str, *, timeout: float) -> bool:
        return await self._ask(collection, Call("/exists", None, answers.read_exists, "GET"), now() + timeout)

    async def aliases(self, *, timeout: float) -> dict[str, str]:
        return await self._ask("", Call("/aliases", None, answers.read_aliases, "GET"), now() + timeout)

    async def version(self, *, timeout: float) -> str:
        def read(answer: Any) -> str:
            match answer:
                case {"version": str(version)}:
                    return version
            raise BackendBadResponse(f"{self.backend.name}: no version in it")

        return await self.backend.ask(Call("/", None, read, "GET", repeatable=True), timeout=timeout)

    async def change_aliases(self, targets: Mapping[str, str | None], *, timeout: float) -> None:
        actions: list[dict[str, Any]] = []
        for alias, collection in targets.items():
            actions.append({"delete_alias": {"alias_name": alias}})
            if collection is not None:
                actions.append({"create_alias": {"alias_name": alias, "collection_name": collection}})
        call = Call("/collections/aliases", {"actions": actions}, answers.read_done)
        await self._ask("", call, now() + timeout, repeatable=False)

    async def drop_collection(self, collection: str, *, timeout: float) -> None:
        await self._ask(collection, Call("", None, answers.read_done, "DELETE"), now() + timeout)

    async def create_collection(self, collection: str, config: Body, *, timeout: float) -> None:
        await self._ask(collection, Call("", config, answers.read_done, "PUT"), now() + timeout)

    async def create_index(self, collection: str, field: str, schema: Body, *, timeout: float) -> None:
        call = Call("/index", {"field_name": field, "field_schema": schema}, answers.read_indexed, "PUT")
        await self._ask(collection, call, now() + timeout, wait=True)

    def without_retries(self) -> Self:
        return replace(self, backend=self.backend.endpoint)

    async def aclose(self) -> None:
        await self.backend.aclose()

    async def _search(self, collection: str, searches: Sequence[Body], deadline: float) -> list[Hits]:
        read = partial(answers.read_batch, expected=len(searches))
        return await self._ask(collection, Call("/points/query/batch", {"searches": searches}, read), deadline)

    async def _points(
        self, collection: str, ids: Sequence[str], fields: Fields, vector: str | None, deadline: float
    ) -> Points:
        body = {
            "ids": list(map(parse_point_id, ids)) if any(map(str.isdecimal, ids)) else list(ids),
            "with_payload": fields,
            "with_vector": False if vector is None else [vector],
        }
        call = Call("/points", body, partial(answers.read_points, vector=vector))
        try:
            return await self._ask(collection, call, deadline)
        except AnswerTooLong:
            if len(ids) == 1:
                raise
        middle = len(ids) // 2
        halves = (self._points(collection, half, fields, vector, deadline) for half in (ids[:middle], ids[middle:]))
        first, second = await asyncio.gather(*halves)
        return Points(first.payloads | second.payloads, first.vectors | second.vectors)

    async def _scroll(self, collection: str, body: Body, deadline: float) -> RecordPage:
        [vector] = body["with_vector"] or (None,)
        read = partial(answers.read_page, vector=vector)
        return await self._ask(collection, Call("/points/scroll", body, read), deadline)

    async def _count(self, collection: str, body: Body, deadline: float) -> int:
        return await self._ask(collection, Call("/points/count", body, answers.read_count), deadline)

    async def _facet(self, collection: str, body: Body, deadline: float) -> dict[str | int, int]:
        return await self._ask(collection, Call("/facet", body, answers.read_facet), deadline)

    async def _describe(self, collection: str, deadline: float) -> CollectionInfo:
        return await self._ask(collection, Call("", None, answers.read_info, "GET"), deadline)

    async def _ask(
        self, collection: str, call: Call[Result], deadline: float, *, wait: bool = False, repeatable: bool = True
    ) -> Result:
        """Make a call whose path is below the collection's ("": the server's), and which reads the answer's result."""
        left = deadline - now()
        if left <= 0:
            raise BackendTimeout(f"{self.backend.name}: no time left to ask")
        # The server counts whole seconds, from one on: it stops work whose result nobody waits for.
        seconds = self.limits_of(collection).seconds(math.ceil(left))
        target = f"/collections/{quote(collection, safe='')}" if collection else ""
        path = f"{target}{call.path}?timeout={seconds}{'&wait=true' if wait else ''}"

        def read_result(answer: Any) -> Result:
            try:
                return call.read(answer["result"])
            except (KeyError, TypeError, ValueError) as error:
                reason = str(error) if type(error) is ValueError else "no result in it"
            raise BackendBadResponse(f"{self.backend.name}: {reason}")

        # Requests that wait are writes; so are creations and deletions.
        reads = repeatable and not wait and call.method not in {"PUT", "DELETE"}
        try:
            return await self.backend.ask(Call(path, call.body, read_result, call.method, reads), timeout=left)
        except BackendBadResponse as error:
            if error.reason is not Reason.NO_COLLECTION or not collection or self.successor is None:
                raise
            missing = error
        found = await self.successor(collection, deadline - now())
        if found is None:
            raise missing
        # One that isn't there, either, has no successor in turn.
        last = replace(self, successor=None)
        return await last._ask(found, call, deadline, wait=wait, repeatable=repeatable)
