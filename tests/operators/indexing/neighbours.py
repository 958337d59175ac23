"""Documents written by indexers that interleave and crash, on the real engine, and what their contexts must be."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import httpx
import numpy as np

from operators.clients.http.transport import Endpoint
from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant.server import ServerClient
from operators.clients.qdrant_edge.shards import Engine
from operators.collections.catalogue import Catalogue
from operators.collections.making import ensure
from operators.indexing.apply import Writer
from operators.indexing.context import ContextWriter
from operators.indexing.document import EventInFlight
from schemas.errors import BackendError, InputError
from schemas.settings import QdrantSettings
from tests.operators.indexing.documents import in_flight
from tests.operators.samples import DIMENSION
from tests.qdrant_server.transport import ServerTransport

TIMEOUT: Final = 30.0

Event = dict[str, Any]


class Crash(Exception):
    """The process of an indexer ends here."""


class Interleaved(httpx.AsyncBaseTransport):
    """Lets other tasks pass before and after each request, as often as `chance` says; `left` requests until a crash."""

    def __init__(self, engine: Engine, chance: random.Random, left: int | None) -> None:
        self.inner = ServerTransport(engine)
        self.chance = chance
        self.left = left

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Wait some turns, pass the request on, and wait again."""
        await self._wait()
        answer = await self.inner.handle_async_request(request)
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise Crash
        await self._wait()
        return answer

    async def _wait(self) -> None:
        for _ in range(self.chance.randrange(4)):
            await asyncio.sleep(0)


def writing_contexts(request: httpx.Request) -> bool:
    """True if this request writes contexts."""
    return request.url.path.endswith("/points/batch")


def reading_vectors(request: httpx.Request) -> bool:
    """True if this request reads vectors."""
    return b'"with_vector":["dense"]' in request.content


class Beside(httpx.AsyncBaseTransport):
    """Before the first request `at` which it shall be something else happens; after it, the indexer may crash."""

    def __init__(
        self,
        engine: Engine,
        happening: Callable[[], Awaitable[None]],
        crash: bool,
        at: Callable[[httpx.Request], bool] = writing_contexts,
    ) -> None:
        self.inner = ServerTransport(engine)
        self.happening = happening
        self.crash = crash
        self.at = at
        self.happened = False
        self.written: list[bytes] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Pass the request on."""
        if writing_contexts(request):
            self.written.append(request.content)
        first = self.at(request) and not self.happened
        if first:
            self.happened = True
            await self.happening()
        answer = await self.inner.handle_async_request(request)
        if first and self.crash:
            raise Crash
        return answer


class Holding(httpx.AsyncBaseTransport):
    """Gives requests that write contexts to `hold`, and passes on all others."""

    def __init__(self, engine: Engine, hold: Callable[[httpx.Request], Awaitable[None]]) -> None:
        self.inner = ServerTransport(engine)
        self.hold = hold

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Pass the request on, unless it is held."""
        if writing_contexts(request):
            await self.hold(request)
        return await self.inner.handle_async_request(request)


@dataclass(frozen=True)
class Index:
    """One collection, and indexers that write to it."""

    engine: Engine
    settings: QdrantSettings

    def apply(self, indexers: Sequence[Sequence[Sequence[Event]]], seed: int, crashes: Sequence[int] = ()) -> None:
        """Have each indexer apply its batches in their order, all of them at once.

        Indexer i crashes once after `crashes[i]` requests; its successor applies the same batch again.
        """

        async def scenario() -> None:
            await asyncio.gather(
                *(
                    self._indexer(batches, Interleaved(self.engine, random.Random(seed + place), _at(crashes, place)))
                    for place, batches in enumerate(indexers)
                )
            )

        asyncio.run(scenario())

    async def beside(self, batch: Sequence[Event], other: Sequence[Event], *, crash: bool) -> None:
        """Apply a batch, and another whole one at the moment at which the first would write contexts.

        With `crash` its indexer ends once they are written, and a successor applies the first batch again.
        """

        async def at_contexts() -> None:
            await self._indexer([other], ServerTransport(self.engine))

        await self._indexer([batch], Beside(self.engine, at_contexts, crash))

    async def late(self, batch: Sequence[Event], other: Sequence[Event]) -> None:
        """Apply a batch whose first contexts are written when its indexer has ended, and another batch was applied."""
        held: list[httpx.Request] = []

        async def hold(request: httpx.Request) -> None:
            held.append(request)
            raise Crash

        made = in_flight(batch)
        with suppress(Crash):
            await self._written(self.client(Holding(self.engine, hold)), made)
        transport = ServerTransport(self.engine)
        await self._indexer([other], transport)
        for request in held:
            answer = await transport.handle_async_request(request)
            assert answer.status_code == 200, answer.read()

    async def first_contexts(self, batch: Sequence[Event], other: Sequence[Event]) -> bytes:
        """The contexts that a batch writes first if another one is applied just before it reads their vectors."""

        async def at_vectors() -> None:
            await self._indexer([other], ServerTransport(self.engine))

        beside = Beside(self.engine, at_vectors, False, reading_vectors)
        await self._indexer([batch], beside)
        return beside.written[0]

    async def create(self) -> None:
        """Make the collection."""
        await ensure(self.client(ServerTransport(self.engine)), self.settings, TIMEOUT)

    async def _indexer(self, batches: Sequence[Sequence[Event]], transport: httpx.AsyncBaseTransport) -> None:
        for batch in batches:
            made = in_flight(batch)
            while True:
                try:
                    await self._written(self.client(transport), made)
                except Crash:
                    continue
                break

    async def write(self, made: Sequence[EventInFlight]) -> list[InputError | BackendError | None]:
        """Write documents without contexts: an outcome each."""
        return await self.writer(ServerTransport(self.engine)).call("documents", made, TIMEOUT)

    def writer(self, transport: httpx.AsyncBaseTransport) -> Writer:
        """A writer that asks by this transport."""
        return self.stages(self.client(transport))[0]

    def stages(self, client: QdrantClient) -> tuple[Writer, ContextWriter]:
        """The stages that write."""
        catalogue = Catalogue(client, self.settings)
        names, context = self.settings.vectors, self.settings.context
        contexts = ContextWriter(client, names, context, catalogue, TIMEOUT)
        return Writer(client, names, context, catalogue, TIMEOUT, contexts if context.on else None), contexts

    async def _written(self, client: QdrantClient, made: Sequence[EventInFlight]) -> None:
        writer, contexts = self.stages(client)
        for stage in (writer, contexts):
            assert await stage.call("documents", made, TIMEOUT) == [None] * len(made)

    def client(self, transport: httpx.AsyncBaseTransport) -> QdrantClient:
        """A client that asks by this transport."""
        return ServerClient(Endpoint("qdrant", "http://qdrant", transport))

    def points(self) -> list[Mapping[str, Any]]:
        """All points, with their vectors."""
        collection = self.settings.destinations["default"]
        body = {"limit": 10_000, "with_vector": True}

        async def asked() -> httpx.Response:
            async with httpx.AsyncClient(transport=ServerTransport(self.engine), base_url="http://qdrant") as client:
                return await client.post(f"/collections/{collection}/points/scroll", json=body)

        found: list[Mapping[str, Any]] = asyncio.run(asked()).json()["result"]["points"]
        return found


def _at(values: Sequence[int], place: int) -> int | None:
    return values[place] if place < len(values) else None


def contexts(points: Sequence[Mapping[str, Any]]) -> dict[str, tuple[list[str], list[float] | None, set[int]]]:
    """The index's content of each document's context: its documents, its dense vector, its terms; by document."""
    named = {point["id"]: name(point) for point in points}
    return {
        name(point): (
            # A document that isn't there any more has no name.
            [named.get(each, each) for each in point["payload"].get("_neighbours", [])],
            point["vector"].get("dense_context"),
            set(point["vector"].get("bm25_context", {}).get("indices", [])),
        )
        for point in points
    }


def name(point: Mapping[str, Any]) -> str:
    """The document's id, which another namespace may hold, too."""
    payload = point["payload"]
    return str(payload["id"] if payload["namespace"] == "public" else f"{payload['id']} of {payload['namespace']}")


def expected(
    points: Sequence[Mapping[str, Any]], before: int, after: int
) -> Iterator[tuple[str, list[str], list[float], set[int]]]:
    """The same of each document as it must be, worked out one document at a time from those that there are."""
    for point in points:
        payload = point["payload"]
        key = (payload.get("turn"), point["id"])
        mates = [each for each in points if _mates(each["payload"], payload)]
        lower = sorted((each for each in mates if (each["payload"]["turn"], each["id"]) < key), key=_turn)
        higher = sorted((each for each in mates if (each["payload"]["turn"], each["id"]) > key), key=_turn)
        window = [*lower[len(lower) - min(before, len(lower)) :], point, *higher[:after]]
        total = np.sum([each["vector"]["dense"] for each in window], axis=0)
        terms = {index for each in window for index in each["vector"].get("bm25", {}).get("indices", [])}
        unit = (total / np.linalg.norm(total)).tolist()
        yield name(point), [name(each) for each in window], unit, terms


def _turn(point: Mapping[str, Any]) -> tuple[float, str]:
    return point["payload"]["turn"], point["id"]


def _mates(other: Mapping[str, Any], payload: Mapping[str, Any]) -> bool:
    return (
        "turn" in payload
        and "turn" in other
        and other.get("session") == payload.get("session") is not None
        and other["namespace"] == payload["namespace"]
        and other.get("classification", "public") == payload.get("classification", "public")
        and set(other.get("labels", ())) == set(payload.get("labels", ()))
    )


def settings(**context: Any) -> QdrantSettings:
    """Of a collection in which the turns of a session are neighbours."""
    own = {"order_by": "turn", "group_by": "session", **context}
    return QdrantSettings.model_validate({"url": "http://qdrant", "dimension": DIMENSION, "context": own})
