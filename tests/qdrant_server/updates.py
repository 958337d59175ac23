"""Updates of one shard, those of the embedded engine and those that only other clients of a server ask."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from qdrant_edge import PointVectors, UpdateOperation

from operators.clients.qdrant_edge.conditions import read_filter, read_id
from operators.clients.qdrant_edge.refusals import not_found, reading
from operators.clients.qdrant_edge.routes import Route, updated
from operators.clients.qdrant_edge.shards import Collection
from operators.clients.qdrant_edge.updates import read_delete, read_upsert
from operators.clients.qdrant_edge.vectors import VectorSchema


async def _read_payload(body: Mapping[str, Any], _: VectorSchema) -> list[UpdateOperation]:
    payload, key = body["payload"], body.get("key")
    condition = read_filter(body.get("filter"))
    if condition is not None:
        return [UpdateOperation.set_payload_by_filter(condition, payload, key)]
    return [UpdateOperation.set_payload([read_id(each) for each in body["points"]], payload, key)]


async def _read_vectors(body: Mapping[str, Any], schema: VectorSchema) -> list[UpdateOperation]:
    points = [PointVectors(read_id(each["id"]), schema.stored(each["vector"])) for each in body["points"]]
    return [UpdateOperation.update_vectors(points)]


def _updating(read: Callable[..., Awaitable[list[UpdateOperation]]], *, of_points: bool = False) -> Route:
    """The route of an update; `of_points`: those that it names must exist."""

    async def update(collection: Collection, body: Any) -> dict[str, Any]:
        if of_points and isinstance(body, dict):
            with reading():
                points = body.get("points") or []
                wanted = [read_id(each["id"] if isinstance(each, dict) else each) for each in points]
            found = {point.id for point in collection.run(lambda shard: shard.retrieve(wanted, False, False))}
            for identity in wanted:
                if identity not in found:
                    raise not_found(f"No point with id {identity} found")
        return await updated(collection, body, read)

    return update


KINDS: Mapping[str, Route] = {
    "upsert": _updating(read_upsert),
    "delete": _updating(read_delete),
    "set_payload": _updating(_read_payload, of_points=True),
    "update_vectors": _updating(_read_vectors, of_points=True),
}
