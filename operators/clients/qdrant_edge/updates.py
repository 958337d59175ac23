"""Updates of points: Qdrant's JSON to operations of the engine, each small enough to let other work pass."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qdrant_edge import Point, PointVectors, UpdateOperation

from operators.clients.qdrant_edge.conditions import read_filter, read_id
from operators.clients.qdrant_edge.refusals import malformed, wrong_input
from operators.clients.qdrant_edge.vectors import VectorSchema

if TYPE_CHECKING:
    # Names of the engine's type stubs only.
    from qdrant_edge import PointId

# The engine holds the interpreter while it works: about 1 ms a point that has 60 token vectors.
POINTS_A_CALL = 8
UNSUPPORTED = ("batch", "update_mode")


@dataclass(frozen=True, slots=True)
class Update:
    """Operations to apply in order, and the points without which they are refused."""

    operations: list[UpdateOperation]
    required: list[PointId] = field(default_factory=list)


async def read_update(kind: str, body: Mapping[str, Any], schema: VectorSchema) -> Update:
    """An update named as in `/points/batch`, read whole before any of it is applied.

    Raises Refusal, KeyError, TypeError or ValueError.
    """
    match kind:
        case "upsert":
            return await _upsert(body, schema)
        case "delete":
            return _delete(body)
        case "set_payload":
            return _set_payload(body)
        case "update_vectors":
            points = [PointVectors(read_id(each["id"]), schema.stored(each["vector"])) for each in body["points"]]
            return Update([UpdateOperation.update_vectors(points)], [point.id for point in points])
    raise malformed(f"the engine has no update `{kind}`")


async def _upsert(body: Mapping[str, Any], schema: VectorSchema) -> Update:
    for name in UNSUPPORTED:
        if body.get(name):
            raise wrong_input(f"the engine has no `{name}`")
    condition = read_filter(body.get("update_filter"))
    operations = []
    for start in range(0, len(body["points"]), POINTS_A_CALL):
        await asyncio.sleep(0)
        points = [_point(each, schema) for each in body["points"][start : start + POINTS_A_CALL]]
        operations.append(UpdateOperation.upsert_points(points, condition))
    return Update(operations)


def _point(body: Mapping[str, Any], schema: VectorSchema) -> Point:
    return Point(read_id(body["id"]), schema.stored(body["vector"]), body.get("payload") or {})


def _delete(body: Mapping[str, Any]) -> Update:
    condition = read_filter(body.get("filter"))
    if condition is not None:
        return Update([UpdateOperation.delete_points_by_filter(condition)])
    return Update([UpdateOperation.delete_points([read_id(each) for each in body["points"]])])


def _set_payload(body: Mapping[str, Any]) -> Update:
    payload, key = body["payload"], body.get("key")
    condition = read_filter(body.get("filter"))
    if condition is not None:
        return Update([UpdateOperation.set_payload_by_filter(condition, payload, key)])
    ids = [read_id(each) for each in body["points"]]
    return Update([UpdateOperation.set_payload(ids, payload, key)], ids)
