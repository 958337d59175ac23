"""Neighbourhoods: which documents are indexed together, and which contexts a document changes. Pure.

Rules
-----
- A document's place is its group and its value in the order; of equal values the point's id decides.
- Documents of one group have the same tier and labels, firewall or not: who may see one of them may see all, so that
  being found by a context tells nothing of a document that is hidden.
- Its window is the `before` documents in front of it, itself, and the `after` documents behind it, all of its group.
- A document without a place is alone in its window.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from operators.access.firewall import visibility
from operators.ranking.content import content
from operators.ranking.run import stamp
from schemas.document import GROUP, ORDER, VERSION
from schemas.settings.qdrant import ContextSettings


class Position(NamedTuple):
    """The position of a document: the name of its group, and its value in the group's order."""

    group: str
    order: float


@dataclass(frozen=True, slots=True)
class Member:
    """A document as its neighbours see it; `version` is None where the index has none of it."""

    id: str
    position: Position | None
    content: str
    version: int | None = None

    @classmethod
    def of(cls, id_: str, payload: Mapping[str, Any]) -> "Member":
        """The document of a point, by its payload in the index."""
        group, order = payload.get(GROUP), payload.get(ORDER)
        placed = Position(group, float(order)) if isinstance(group, str) and isinstance(order, int | float) else None
        version = payload.get(VERSION)
        return cls(id_, placed, content(payload), version if isinstance(version, int) else None)


Window = tuple[Member, ...]
"""The documents that one context is made of, in their order."""


def position(settings: ContextSettings, destination: str, namespace: str, fields: Mapping[str, Any]) -> Position | None:
    """The position of a document with these payload fields; None if it has no group or no value in the order."""
    if settings.order_by is None:
        return None
    order = _order(_value(fields, settings.order_by))
    group = _value(fields, settings.group_by) if settings.group_by is not None else True
    if order is None or not isinstance(group, str | int | float):
        return None
    return Position(orjson.dumps([destination, namespace, *visibility(fields), group]).decode(), order)


def windows(members: Collection[Member], settings: ContextSettings) -> dict[str, Window]:
    """The window of each document, by id; those with a place are of one group."""
    placed = sort_members([member for member in members if member.position is not None])
    found = {
        member.id: tuple(placed[max(0, index - settings.before) : index + settings.after + 1])
        for index, member in enumerate(placed)
    }
    return {**found, **{member.id: (member,) for member in members if member.position is None}}


def windows_of(found: Mapping[str, Window], ids: Collection[str]) -> dict[str, Window]:
    """The windows that any of these documents is in."""
    return {id_: window for id_, window in found.items() if any(member.id in ids for member in window)}


def sort_members(members: Collection[Member]) -> Sequence[Member]:
    """Documents of one group in their order."""
    return sorted(members, key=_key)


def join_contents(window: Window) -> str:
    """The text of a context: the contents of its documents, in their order."""
    return "\n".join(member.content for member in window if member.content)


def _key(member: Member) -> tuple[float, str]:
    assert member.position is not None
    return member.position.order, member.id


def _value(fields: Mapping[str, Any], path: str) -> object:
    found: object = fields
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _order(value: object) -> float | None:
    """A number as it is, a time in Unix seconds; None for any other value."""
    if isinstance(value, bool):
        return None
    if not isinstance(value, int | float):
        return stamp(value)
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None
