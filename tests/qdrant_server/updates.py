"""Updates of one shard, those of the embedded engine and those that only other clients of a server ask."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from qdrant_edge import UpdateOperation

from operators.clients.qdrant_edge.shards import Collection
from tests.qdrant_server.conditions import parse_id
from tests.qdrant_server.refusals import not_found, reading, run
from tests.qdrant_server.requests import KINDS as READ
from tests.qdrant_server.routes import Route, apply_update


def _updating(read: Callable[..., Awaitable[list[UpdateOperation]]], *, of_points: bool = False) -> Route:
    """The route of an update; `of_points`: those that it names must exist, or it is refused after all others."""

    async def update(collection: Collection, body: Any) -> dict[str, Any]:
        if of_points and isinstance(body, dict):
            with reading():
                points = body.get("points") or []
                wanted = [parse_id(each["id"] if isinstance(each, dict) else each) for each in points]
            found = {point.id for point in run(collection, lambda shard: shard.retrieve(wanted, False, False))}
            missing = [identity for identity in wanted if identity not in found]
            if missing:
                there = [each for each, identity in zip(points, wanted, strict=True) if identity in found]
                if there:
                    await apply_update(collection, {**body, "points": there}, read)
                raise not_found(f"No point with id {missing[0]} found")
        return await apply_update(collection, body, read)

    return update


_OF_POINTS = frozenset({"set_payload", "update_vectors", "delete_vectors"})

KINDS: Mapping[str, Route] = {kind: _updating(read, of_points=kind in _OF_POINTS) for kind, read in READ.items()}
