"""The embedded Qdrant: the client of the engine over a directory of this machine.

The engine holds the interpreter while it works, so a long request is worked off in pieces, with other tasks in between.
A piece that begins before the deadline is finished. A request that the engine can't serve is refused, never ignored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self, TypeVar
from uuid import UUID

import numpy as np
import orjson
import qdrant_edge as edge
from typing_extensions import override

from operators.clients.http.dialect import fit_float32
from operators.clients.qdrant.answers import CollectionInfo, Points, error_with
from operators.clients.qdrant.client import Body, Fields, Filter, QdrantClient, now
from operators.clients.qdrant.requests import Change
from operators.clients.qdrant_edge.conversions import VectorSchema, index_params, make_filter, read_filter
from operators.clients.qdrant_edge.shards import Collection, Engine, Refusal
from operators.query.backend_answers import Hits, Record, RecordPage, parse_point_id
from operators.runtime.batching.policy import chunks
from schemas.errors import BackendError, BackendTimeout

SEARCHES_A_CALL: Final = 8

POINTS_A_CALL: Final = 8
"""Points of one update: the engine holds the interpreter about 1 ms a point that has 60 token vectors."""

_NAME: Final = "qdrant"

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class EngineClient(QdrantClient):
    """One event loop's access to an `Engine`, which other loops of the process may share.

    `aclose` flushes the engine and leaves it open.
    """

    engine: Engine

    async def upsert(
        self, collection: str, points: Sequence[Mapping[str, Any]], condition: Filter | None = None, *, timeout: float
    ) -> None:
        deadline = now() + timeout
        for some in chunks(points, POINTS_A_CALL):
            await asyncio.sleep(0)
            self._run(collection, partial(_upsert, some, condition), deadline)

    async def change(self, collection: str, changes: Sequence[Change], *, timeout: float) -> None:
        deadline = now() + timeout
        for change in changes:
            await asyncio.sleep(0)
            self._run(collection, partial(_change, change), deadline)

    async def delete(self, collection: str, where: Filter, *, timeout: float) -> None:
        def delete(target: Collection) -> None:
            target.update(edge.UpdateOperation.delete_points_by_filter(make_filter(where)))

        self._run(collection, delete, now() + timeout)

    @override
    async def exists(self, collection: str, *, timeout: float) -> bool:
        return self.engine.exists(collection)

    @override
    async def aliases(self, *, timeout: float) -> dict[str, str]:
        return {}

    @override
    async def version(self, *, timeout: float) -> None:
        return None

    @override
    async def change_aliases(self, targets: Mapping[str, str | None], *, timeout: float) -> None:
        raise error_with(_NAME, 400, "the engine has no aliases")

    @override
    async def drop_collection(self, collection: str, *, timeout: float) -> None:
        self.engine.drop(collection)

    async def create_collection(self, collection: str, config: Body, *, timeout: float) -> None:
        self._answer(lambda: self.engine.create(collection, config), now() + timeout)

    async def create_index(self, collection: str, field: str, schema: Body, *, timeout: float) -> None:
        self._run(collection, lambda target: target.create_index(field, schema, index_params(schema)), now() + timeout)

    def without_retries(self) -> Self:
        return self

    async def aclose(self) -> None:
        self.engine.flush()

    async def _search(self, collection: str, searches: Sequence[Body], deadline: float) -> list[Hits]:
        requests = self._run(collection, lambda target: [_request(body, target.schema) for body in searches], deadline)
        found: list[Hits] = []
        for start in range(0, len(searches), SEARCHES_A_CALL):
            await asyncio.sleep(0)
            some = slice(start, start + SEARCHES_A_CALL)
            found += self._run(collection, partial(_hits, searches[some], requests[some]), deadline)
        return found

    async def _points(
        self, collection: str, ids: Sequence[str], fields: Fields, vector: str | None, deadline: float
    ) -> Points:
        wanted: list[int | UUID | str] = [parse_point_id(each) for each in ids]
        names = False if vector is None else [vector]
        found = self._read(collection, lambda shard: shard.retrieve(wanted, _selector(fields), names), deadline)
        vectors = {str(each.id): own for each in found if (own := _vector(each.vector, vector)) is not None}
        return Points({str(each.id): each.payload or {} for each in found}, vectors)

    async def _scroll(self, collection: str, body: Body, deadline: float) -> RecordPage:
        found, following = self._read(collection, lambda shard: shard.scroll(_scroll(body)), deadline)
        [name] = body["with_vector"] or (None,)
        records = [
            Record(
                str(each.id), each.payload or {}, each.order_value, name if name is None else _vector(each.vector, name)
            )
            for each in found
        ]
        return RecordPage(records, None if following is None else str(following))

    async def _count(self, collection: str, body: Body, deadline: float) -> int:
        def count(shard: edge.EdgeShard) -> int:
            return shard.count(edge.CountRequest(exact=body["exact"], filter=read_filter(body.get("filter"))))

        return self._read(collection, count, deadline)

    async def _facet(self, collection: str, body: Body, deadline: float) -> dict[str | int, int]:
        def facet(shard: edge.EdgeShard) -> edge.FacetResponse:
            where = read_filter(body.get("filter"))
            return shard.facet(edge.FacetRequest(body["key"], body["limit"], body["exact"], where))

        return {hit.value: hit.count for hit in self._read(collection, facet, deadline).hits if hit.count}

    async def _describe(self, collection: str, deadline: float) -> CollectionInfo:
        return self._run(collection, Collection.describe, deadline)

    def _read(self, collection: str, work: Callable[[edge.EdgeShard], Result], deadline: float) -> Result:
        return self._run(collection, lambda target: target.run(work), deadline)

    def _run(self, collection: str, work: Callable[[Collection], Result], deadline: float) -> Result:
        return self._answer(lambda: work(self.engine.collection(collection)), deadline)

    def _answer(self, work: Callable[[], Result], deadline: float) -> Result:
        """The result of one piece of work; raises a BackendError for whatever fails in it, and after the deadline."""
        if now() >= deadline:
            raise BackendTimeout(f"{_NAME}: no time left to ask")
        try:
            return work()
        except Exception as error:  # noqa: BLE001  the engine raises no other class
            failure = _failure(error)
        # Raised out here, where nothing is chained to it.
        raise failure


def _failure(error: Exception) -> BackendError:
    """The error of a server for the same cause: the request is at fault, unless the engine blames itself."""
    words = str(error)
    if isinstance(error, Refusal):
        return error_with(_NAME, error.status, words)
    if words.startswith(("Service ", "Timeout ")):
        return error_with(_NAME, 500, words)
    if words.startswith("No point with id"):
        return error_with(_NAME, 404, f"Not found: {words} found")
    return error_with(_NAME, 400, f"Wrong input: {words}")


def _request(body: Body, schema: VectorSchema) -> edge.QueryRequest:
    """One body of `/points/query`, without the payload's fields if it lists them: `HitPayloads` reads those."""
    params = body.get("params") or {}
    corpus = params.get("idf", {}).get("corpus")
    return edge.QueryRequest(
        body["limit"],
        query=_query(body.get("query"), body.get("using") or "", schema),
        with_payload=False if _field_names(body) is not None else _selector(body.get("with_payload", False)),
        filter=read_filter(body.get("filter")),
        params=edge.SearchParams(
            hnsw_ef=params.get("hnsw_ef"),
            exact=params.get("exact") or False,
            idf=corpus and edge.IdfParams(corpus=read_filter(corpus)),
        ),
    )


def _query(query: Any, using: str, schema: VectorSchema) -> edge.Query | edge.TextQuery | None:
    match query:
        case None:
            return None
        case {"text": str(text)}:
            return edge.TextQuery(using, text)
        case {"recommend": {"positive": positive, "negative": negative, "strategy": strategy}}:
            wanted: list[Any] = [schema.vector(each, using) for each in positive]
            unwanted: list[Any] = [schema.vector(each, using) for each in negative]
            if strategy == "best_score":
                return edge.Query.RecommendBestScore(edge.RecommendQuery(wanted, unwanted), using)
            # The average vector as a server computes it: the mean of what is wanted, away from that of the rest.
            mean = np.mean(wanted, 0)
            return edge.Query.Nearest((2 * mean - np.mean(unwanted, 0) if unwanted else mean).tolist(), using)
    return edge.Query.Nearest(schema.vector(query, using), using)


def _field_names(body: Body) -> tuple[str, ...] | None:
    wanted = body.get("with_payload")
    return tuple(wanted) if isinstance(wanted, list) else None


def _hits(bodies: Sequence[Body], requests: list[edge.QueryRequest], target: Collection) -> list[Hits]:
    def hits(shard: edge.EdgeShard, body: Body, points: Sequence[edge.ScoredPoint]) -> Hits:
        scores = [point.score for point in points]
        if not fit_float32(scores):
            raise ValueError("a score is no finite number of 32 bits")
        listed = _field_names(body)
        payloads: list[Mapping[str, Any]] = (
            [point.payload or {} for point in points]
            if listed is None
            else target.hit_payloads.read(shard, points, listed)
        )
        return Hits([str(point.id) for point in points], scores, payloads, [point.version for point in points])

    def search(shard: edge.EdgeShard) -> list[Hits]:
        found = shard.query_batch(edge.QueryBatchRequest(requests))
        return [hits(shard, body, points) for body, points in zip(bodies, found, strict=True)]

    return target.run(search)


def _selector(fields: Fields) -> edge.WithPayloadType:
    return edge.PayloadSelector.Exclude(fields["exclude"]) if isinstance(fields, Mapping) else fields


def _scroll(body: Body) -> edge.ScrollRequest:
    order = body.get("order_by")
    return edge.ScrollRequest(
        offset=body.get("offset"),
        limit=body["limit"],
        filter=read_filter(body.get("filter")),
        with_payload=_selector(body["with_payload"]),
        with_vector=body["with_vector"],
        order_by=order and _order(**order),
    )


def _order(key: str, direction: str = "asc", start_from: Any = None) -> edge.OrderBy:
    return edge.OrderBy(key, edge.Direction.Desc if direction == "desc" else edge.Direction.Asc, start_from=start_from)


def _vector(vectors: Any, name: str | None) -> Any:
    found = (vectors if isinstance(vectors, dict) else {"": vectors}).get(name)
    return {"indices": found.indices, "values": found.values} if isinstance(found, edge.SparseVector) else found


def _upsert(points: Sequence[Mapping[str, Any]], condition: Filter | None, target: Collection) -> None:
    written = _json([each["payload"] for each in points])
    made = [
        edge.Point(each["id"], target.schema.of_point(each["vector"]), payload)
        for each, payload in zip(points, orjson.loads(written), strict=True)
    ]
    size = len(written) + sum(_written_bytes(each["vector"]) for each in points)
    target.update(edge.UpdateOperation.upsert_points(made, read_filter(condition)), size)


def _change(change: Change, target: Collection) -> None:
    where = read_filter(change.where)
    if given := change.given:
        made = edge.PointVectors(change.id, target.schema.of_point(given))
        target.update(edge.UpdateOperation.update_vectors([made], where), _written_bytes(given))
    if gone := change.gone:
        target.update(
            edge.UpdateOperation.delete_vectors([change.id], gone)
            if where is None
            else edge.UpdateOperation.delete_vectors_by_filter(where, gone)
        )
    written = _json(change.payload)
    payload = orjson.loads(written)
    target.update(
        edge.UpdateOperation.set_payload([change.id], payload)
        if where is None
        else edge.UpdateOperation.set_payload_by_filter(where, payload),
        len(written),
    )


def _written_bytes(vectors: Mapping[str, Any]) -> int:
    """About the bytes that these vectors take in the engine's log."""
    return sum(8 * len(each["values"]) if isinstance(each, Mapping) else 4 * np.size(each) for each in vectors.values())


def _json(payload: object) -> bytes:
    """A payload as a server would get it: the engine would refuse NaN, which is null there."""
    return orjson.dumps(payload, option=orjson.OPT_SERIALIZE_NUMPY)
