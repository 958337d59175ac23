"""Updates of points: Qdrant's JSON to operations of the engine, each small enough to let other work pass."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from qdrant_edge import Point, PointVectors, UpdateOperation

from operators.clients.qdrant_edge.conditions import read_filter, read_id
from operators.clients.qdrant_edge.refusals import malformed, wrong_input
from operators.clients.qdrant_edge.vectors import VectorSchema

# The engine holds the interpreter while it works: about 1 ms a point that has 60 token vectors.
POINTS_A_CALL = 8
UNSUPPORTED = ("batch", "update_mode")


Read = Callable[[Mapping[str, Any], VectorSchema], Awaitable[list[UpdateOperation]]]
"""Reads a body, whole, before any of it is applied. Raises Refusal, KeyError, TypeError or ValueError."""


async def read_upsert(body: Mapping[str, Any], schema: VectorSchema) -> list[UpdateOperation]:
    """The body of an upsert."""
    for name in UNSUPPORTED:
        if body.get(name):
            raise wrong_input(f"the engine has no `{name}`")
    condition = read_filter(body.get("update_filter"))
    operations = []
    for start in range(0, len(body["points"]), POINTS_A_CALL):
        await asyncio.sleep(0)
        points = [_point(each, schema) for each in body["points"][start : start + POINTS_A_CALL]]
        operations.append(UpdateOperation.upsert_points(points, condition))
    return operations


def _point(body: Mapping[str, Any], schema: VectorSchema) -> Point:
    return Point(read_id(body["id"]), schema.stored(body["vector"]), body.get("payload") or {})


async def read_delete(body: Mapping[str, Any], _: VectorSchema) -> list[UpdateOperation]:
    """The body of a deletion, by filter or by ids."""
    condition = read_filter(body.get("filter"))
    if condition is not None:
        return [UpdateOperation.delete_points_by_filter(condition)]
    return [UpdateOperation.delete_points([read_id(each) for each in body["points"]])]


async def read_vectors(body: Mapping[str, Any], schema: VectorSchema) -> list[UpdateOperation]:
    """New vectors of points; those that it doesn't name stay."""
    points = [PointVectors(read_id(each["id"]), schema.stored(each["vector"])) for each in body["points"]]
    return [UpdateOperation.update_vectors(points)]


async def read_no_vectors(body: Mapping[str, Any], _: VectorSchema) -> list[UpdateOperation]:
    """Vectors that are taken away from points."""
    return [UpdateOperation.delete_vectors([read_id(each) for each in body["points"]], body["vector"])]


async def read_payload(body: Mapping[str, Any], _: VectorSchema) -> list[UpdateOperation]:
    """New payload fields of points, by a filter or by their ids; those that it doesn't name stay."""
    payload, key = body["payload"], body.get("key")
    condition = read_filter(body.get("filter"))
    if condition is not None:
        return [UpdateOperation.set_payload_by_filter(condition, payload, key)]
    return [UpdateOperation.set_payload([read_id(each) for each in body["points"]], payload, key)]


KINDS: Mapping[str, Read] = {
    "upsert": read_upsert,
    "delete": read_delete,
    "update_vectors": read_vectors,
    "delete_vectors": read_no_vectors,
    "set_payload": read_payload,
}
"""The updates that a batch may have."""


def read_of(kind: str) -> Read:
    """What reads an update of a batch; raises Refusal where there is none of this kind."""
    if kind not in KINDS:
        raise malformed(f"the engine has no update `{kind}`")
    return KINDS[kind]
