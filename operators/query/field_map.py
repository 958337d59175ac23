"""The field map: our names in a collection that another tool filled.

Requests go out with the collection's names, and payloads come in with ours, so that nothing else knows of the others.

Rules
-----
- A field that is mapped is the value at its path; every other field keeps its name.
- A path goes through objects, `metadata.tenant`. `_node_content#text` is the value `text` of the object that is written
  as JSON in the string `_node_content`; it can be read, and Qdrant can't filter by it.
- `nested` looks into the array at the path of its field. The objects in it have their own names.
- Where point ids are the documents' ids, a condition on `id` is one on points.
- Where documents have no namespace, all of them are in the one that is configured: a query in another finds nothing.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal
from uuid import UUID

from operators.access.filters import Ask, answers
from schemas.document import CREATED, NAMESPACE, VERSION
from schemas.fields import rfc3339
from schemas.filters import FieldFilter, Prefix, names_of, value_at

Ids = Literal["payload", "uuid", "integer"]
"""The place of a document's id: a field of its payload, or the point's own id, of one of these types."""

_ID: Final = "id"
_OWN: Final[Mapping[str, str]] = {CREATED: "created_at", VERSION: "updated_at"}
"""Fields that only rankstream's own index has -> the fields from which they are made."""

_TIMES: Final = ("created_at", "updated_at", "accessed_at", "confirmed_at")
_MILLISECONDS: Final = 1e11
"""Numbers from here on are milliseconds: as seconds they would be after the year 5000."""

_NOTHING: Final[Mapping[str, Any]] = {"has_id": []}

Payload = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FieldMap:
    """`paths` maps our names to the collection's, `namespace` is the one of all documents, None where they say it."""

    paths: Mapping[str, str] = field(default_factory=dict)
    ids: Ids = "payload"
    namespace: str | None = None

    @property
    def same(self) -> bool:
        """True if the collection's names are ours."""
        return not self.paths and self.ids == "payload" and self.namespace is None

    def path(self, name: str) -> str:
        """The collection's name of a field: the part of it that Qdrant can ask for."""
        if self.same:
            return name
        return self.paths.get(_OWN.get(name, name), _OWN.get(name, name)).partition("#")[0]

    def name(self, path: str) -> str:
        """Our name of a field of the collection."""
        return next((name for name, mapped in self.paths.items() if mapped == path), path)

    def every_name(self, fields: Iterable[str]) -> tuple[str, ...]:
        """These fields by each of their names, and the other names of what is inside of them."""
        found = dict.fromkeys(fields)
        for wanted in [".".join(names_of(each)) for each in found]:
            for pair in self.paths.items():
                name, path = (".".join(names_of(each.partition("#")[0])) for each in pair)
                for one, other in ((name, path), (path, name)):
                    if f"{one}.".startswith(f"{wanted}."):
                        found[other] = None
                    elif wanted.startswith(f"{one}."):
                        found[other + wanted.removeprefix(one)] = None
        return tuple(found)

    def answerable(self, indexes: Mapping[str, Mapping[str, Any]]) -> dict[str, frozenset[Ask]]:
        """The questions that each field, by our name, answers: by its index, or since it is no field of the payload."""
        found = {name: answers(described) for name, described in indexes.items()}
        return found | dict.fromkeys(self._absent, frozenset(Ask))

    def refusal(self, wanted: FieldFilter) -> str | None:
        """Why Qdrant can't answer a filter; None if it can."""
        if "#" in (path := self.paths.get(wanted.field, "")):
            return f"its values are inside of strings ({path}), which no filter looks into"
        if wanted.field == _ID and self.ids != "payload" and isinstance(wanted, Prefix):
            return "the ids are those of points, which no filter finds by their beginning"
        return None

    def search(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """A search with the collection's names."""
        if self.same:
            return body
        out = {name: value for name, value in body.items() if value is not None}
        if "filter" in out:
            out["filter"] = self.filter(out["filter"])
        if "with_payload" in out:
            out["with_payload"] = self.fields(out["with_payload"])
        if isinstance(out.get("query"), dict) and "text" in out["query"]:
            out["using"] = self.path(out["using"])
        if corpus := out.get("params", {}).get("idf", {}).get("corpus"):
            out["params"] = {**out["params"], "idf": {"corpus": self.filter(corpus)}}
        return out

    def filter(self, where: Mapping[str, Any]) -> dict[str, Any]:
        """A filter with the collection's names."""
        return {clause: [self._condition(each) for each in where[clause]] for clause in where}

    def fields(self, wanted: Any) -> Any:
        """The fields of a payload, named or all (a boolean, or all but some), by the collection's names."""
        if not isinstance(wanted, list):
            return wanted
        absent = self._absent
        return [self.path(name) for name in wanted if name not in absent] or False

    def order(self, order_by: Mapping[str, Any]) -> dict[str, Any]:
        """The order of a lookup by the collection's name."""
        return {**order_by, "key": self.path(order_by["key"])}

    def payload(self, point_id: str, payload: Payload) -> Payload:
        """A payload with our names; what isn't mapped stays where it is."""
        if self.same:
            return payload
        rest = dict(payload)
        named = {name: value for name, path in self.paths.items() if (value := _pop(rest, path)) is not None}
        for name in _TIMES:
            if name in named:
                named[name] = _time(named[name])
        if self.ids != "payload":
            named[_ID] = point_id
        elif isinstance(named.get(_ID), int):
            named[_ID] = str(named[_ID])
        if self.namespace is not None:
            named[NAMESPACE] = self.namespace
        return {**rest, **named}

    @property
    def _absent(self) -> frozenset[str]:
        """Fields that documents have and payloads don't."""
        absent = {_ID} if self.ids != "payload" else set()
        if self.namespace is not None:
            absent.add(NAMESPACE)
        return frozenset(absent)

    def _condition(self, condition: Mapping[str, Any]) -> Mapping[str, Any]:
        match condition:
            case {"key": str(key)} if key == _ID and self.ids != "payload":
                return self._of_points(condition.get("match", {}))
            case {"key": str(key)} if key == NAMESPACE and self.namespace is not None:
                return _EVERYTHING if _matches(condition, self.namespace) else _NOTHING
            case {"key": str(key)}:
                return {**condition, "key": self.path(key)}
            case {"is_empty": {"key": str(key)}} if key in self._absent:
                return _NOTHING
            case {"is_empty": {"key": str(key)}}:
                return {"is_empty": {"key": self.path(key)}}
            case {"nested": {"key": str(key), "filter": inner}}:
                return {"nested": {"key": self.path(key), "filter": inner}}
            case {"has_id": _}:
                return condition
        return self.filter(condition)

    def _of_points(self, match: Mapping[str, Any]) -> Mapping[str, Any]:
        # A document's id is a string, also where its point's is a number: no number equals it.
        values = [value for value in match.get("any", [match.get("value")]) if isinstance(value, str)]
        return {"has_id": [point for value in values if (point := self._point(value)) is not None]}

    def _point(self, text: str) -> int | str | None:
        """The id of a point; None if no point of the collection can have it."""
        if self.ids == "integer":
            number = int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None
            return number if number is not None and str(number) == text and number < 2**64 else None
        try:
            return str(UUID(text))
        except ValueError:
            return None


_DIGITS: Final = 20
"""Of the greatest number of a point."""

_EVERYTHING: Final[Mapping[str, Any]] = {"must": []}


def _matches(condition: Mapping[str, Any], value: str) -> bool:
    """True if a condition on a field matches documents that all have this value in it."""
    match condition.get("match"):
        case {"any": list(values)}:
            return value in values
        case {"prefix": str(start)}:
            return value.startswith(start)
        case {"value": other}:
            return bool(value == other)
    return False


SAME: Final = FieldMap()
"""The map of a collection of rankstream's own."""


def _pop(payload: dict[str, Any], path: str) -> Any:
    """Take the value at a path out of the payload, whose nested objects are copied before; None if there is none."""
    way, _, inner = path.partition("#")
    *parents, leaf = names_of(way)
    place = payload
    for parent in parents:
        if not isinstance(inside := place.get(parent), dict):
            return None
        place[parent] = inside = dict(inside)
        place = inside
    # Others may be in the same string.
    return _within(place.get(leaf), inner) if inner else place.pop(leaf, None)


def _within(written: object, path: str) -> Any:
    try:
        value = json.loads(written) if isinstance(written, str) else written
    except (ValueError, RecursionError):
        # Also numbers of thousands of digits, and arrays within thousands of others.
        return None
    return value_at(value, path)


def _time(value: Any) -> Any:
    """A time as documents have it: from Unix seconds, milliseconds, or text that says no offset, which is UTC."""
    try:
        match value:
            case bool():
                return value
            case int() | float():
                return rfc3339(value / 1000 if abs(value) >= _MILLISECONDS else value)
            case str():
                moment = datetime.fromisoformat(value)
                return value if moment.tzinfo is not None else rfc3339(moment.replace(tzinfo=UTC).timestamp())
    except (OverflowError, ValueError, OSError):
        pass
    return value
