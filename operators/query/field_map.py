"""The field map: our names in a collection that another tool filled.

Requests go out with the collection's names, and payloads come in with ours, so that nothing else knows of the others.

Rules:
- A field that is mapped is the value at its path, and what is inside of it goes with it: where attributes is metadata,
  attributes.colour is metadata.colour. Every other field keeps its name. Where one path is inside of another, each of
  the two fields has its whole value.
- A path goes through objects, `metadata.tenant`. `_node_content#text` is the value `text` of the object that is written
  as JSON in the string `_node_content`; it can be read, and Qdrant can't filter by it.
- `nested` looks into the array at the path of its field. The objects in it have their own names.
- Where point ids are the documents' ids, a condition on `id` is one on points. Where a field holds them, it may hold
  integers: a string of digits is compared with these, too.
- A range of times is compared with text and with numbers, which are seconds or milliseconds, as payloads are read;
  where an index tells which of both the field holds, with that alone.
- Where documents have no namespace, all of them are in the one that is configured: a query in another finds nothing.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any, Final, Literal
from uuid import UUID

from operators.access.filters import NOTHING, any_condition
from operators.access.indexes import Ask, answers
from operators.query.collection import MADE_FROM
from operators.query.search import map_filters
from schemas.document import NAMESPACE
from schemas.fields import read_time, rfc3339
from schemas.filters import FieldFilter, Prefix, names_of, rename, value_at

Ids = Literal["payload", "uuid", "integer"]
"""The place of a document's id: a field of its payload, or the point's own id, of one of these types."""

_ID: Final = "id"
_TIMES: Final = ("created_at", "updated_at", "accessed_at", "confirmed_at")
_MILLISECONDS: Final = 1e11
"""Numbers from here on are milliseconds: as seconds they would be after the year 5000."""

_UNITS: Final[Sequence[tuple[int, Mapping[str, float]]]] = (
    (1_000_000, {"gt": -_MILLISECONDS, "lt": _MILLISECONDS}),
    (1_000, {"gte": _MILLISECONDS}),
    (1_000, {"lte": -_MILLISECONDS}),
)
"""Microseconds of a unit, and the numbers that are times in that unit."""

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_LOWER: Final = frozenset({"gt", "gte"})
_WORDS: Final = frozenset({"keyword", "uuid"})
_NUMBERS: Final = frozenset({"integer", "float"})
"""Types of indexes that hold no value of another kind."""

_EVERYTHING: Final[Mapping[str, Any]] = {"must": []}

Payload = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FieldMap:
    """`paths` maps our names to the collection's, `namespace` is the one of all documents, None where they say it.

    `same`: the collection's names and values are ours. `kinds` are the types of its indexes, by its own names of the
    fields, as far as they are known.
    """

    paths: Mapping[str, str] = field(default_factory=dict)
    ids: Ids = "payload"
    namespace: str | None = None
    same: bool = False
    kinds: Mapping[str, str] = field(default_factory=dict)

    def path(self, name: str) -> str:
        """The collection's name of a field: the part of it that Qdrant can ask for."""
        if self.same:
            return name
        return rename(MADE_FROM.get(name, name), self.paths).partition("#")[0]

    def name(self, path: str) -> str:
        """Our name of a field of the collection."""
        return rename(path, {mapped: name for name, mapped in self.paths.items() if "#" not in mapped})

    def every_name(self, fields: Iterable[str]) -> tuple[str, ...]:
        """All names of the fields, and the other names of what is inside of them."""
        found = dict.fromkeys(fields)
        pairs = [(_unquote(name), _unquote(path.partition("#")[0])) for name, path in self.paths.items()]
        # By the collection's names first: a path may be inside of another one, whose field then has its value, too.
        for ends in (pairs, [(path, name) for name, path in pairs]):
            for wanted in map(_unquote, list(found)):
                for one, other in ends:
                    if f"{one}.".startswith(f"{wanted}."):
                        found[other] = None
                    elif wanted.startswith(f"{one}."):
                        found[other + wanted.removeprefix(one)] = None
        return tuple(found)

    def answerable(self, indexes: Mapping[str, Mapping[str, Any]]) -> dict[str, frozenset[Ask]]:
        """The questions that each field, by our name, answers: by its index, or since it is no field of the payload."""
        found = {name: answers(described) for name, described in indexes.items()}
        if not self.same:
            for name in _TIMES:
                if found.get(name, frozenset()) & {Ask.FLOAT, Ask.INTEGER_RANGE}:
                    found[name] |= {Ask.DATETIME}
            if Ask.INTEGER in found.get(_ID, frozenset()):
                found[_ID] |= {Ask.KEYWORD}
        return found | dict.fromkeys(self._absent, frozenset(Ask))

    def refusal(self, wanted: FieldFilter) -> str | None:
        """Why Qdrant can't answer a filter; None if it can."""
        if "#" in (path := rename(wanted.field, self.paths)):
            return f"its values are inside of strings ({path}), which no filter looks into"
        if wanted.field == _ID and self.ids != "payload" and isinstance(wanted, Prefix):
            return "the ids are those of points, which no filter finds by their beginning"
        return None

    def search(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """A search with the collection's names."""
        if self.same:
            return body
        out = map_filters({name: value for name, value in body.items() if value is not None}, self.filter)
        if "with_payload" in out:
            out["with_payload"] = self.fields(out["with_payload"])
        if isinstance(out.get("query"), dict) and "text" in out["query"]:
            out["using"] = self.path(out["using"])
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
        named = {name: value for name, path in self.paths.items() if (value := _read(payload, path)) is not None}
        for path in self.paths.values():
            _remove(rest, path)
        found = {**rest, **named}
        for name in _TIMES:
            if name in found:
                found[name] = _time(found[name])
        if self.ids != "payload":
            found[_ID] = point_id
        elif isinstance(found.get(_ID), int):
            found[_ID] = str(found[_ID])
        if self.namespace is not None:
            found[NAMESPACE] = self.namespace
        return found

    @property
    def _absent(self) -> frozenset[str]:
        """Fields that documents have and payloads don't."""
        absent = {_ID: self.ids != "payload", NAMESPACE: self.namespace is not None}
        return frozenset(name for name, is_absent in absent.items() if is_absent)

    def _condition(self, condition: Mapping[str, Any]) -> Mapping[str, Any]:
        match condition:
            case {"key": str(key)} if key == _ID and self.ids != "payload":
                match = condition.get("match", {})
                # A document's id is a string, also where its point's is a number: no number equals it.
                ids = [each for each in match.get("any", [match.get("value")]) if isinstance(each, str)]
                return {"has_id": [point for each in ids if (point := self._point(each)) is not None]}
            case {"key": str(key)} if key == NAMESPACE and self.namespace is not None:
                return _EVERYTHING if _matches(condition, self.namespace) else NOTHING
            case {"key": str(key), "match": {"value": str() as text} | {"any": [str() as text, *_]}} if key == _ID:
                return self._of_ids(self.path(key), condition["match"].get("any", [text]), condition)
            case {"key": str(key), "range": bounds} if key in _TIMES and any(
                isinstance(each, str) for each in bounds.values()
            ):
                return self._of_times({**condition, "key": self.path(key)})
            case {"key": str(key)}:
                return {**condition, "key": self.path(key)}
            case {"is_empty": {"key": str(key)}} | {"is_null": {"key": str(key)}}:
                return NOTHING if key in self._absent else {kind: {"key": self.path(key)} for kind in condition}
            case {"nested": {"key": str(key), "filter": inner}}:
                return {"nested": {"key": self.path(key), "filter": inner}}
            case {"has_id": _}:
                return condition
        return self.filter(condition)

    def _of_ids(self, path: str, values: Sequence[str], condition: Mapping[str, Any]) -> Mapping[str, Any]:
        numbers = [number for value in values if (number := _integer(value)) is not None]
        kind = self.kinds.get(path)
        conditions = [{**condition, "key": path}] if kind not in _NUMBERS else []
        if numbers and kind not in _WORDS:
            conditions.append({"key": path, "match": {"any": numbers}})
        return any_condition(conditions)

    def _of_times(self, condition: Mapping[str, Any]) -> Mapping[str, Any]:
        kind = self.kinds.get(condition["key"])
        if kind == "datetime":
            return condition
        numbers = [{**condition, "range": bounds} for bounds in _numeric(condition["range"])]
        return any_condition(numbers if kind in _NUMBERS else [condition, *numbers])

    def _point(self, text: str) -> int | str | None:
        """The id of a point; None if no point of the collection can have it."""
        if self.ids == "integer":
            return _integer(text, 0, 2**64)
        try:
            return str(UUID(text))
        except ValueError:
            return None


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


SAME: Final = FieldMap(same=True)
"""The map of a collection of rankstream's own."""


def _unquote(path: str) -> str:
    return ".".join(names_of(path))


def _read(payload: Payload, path: str) -> Any:
    way, _, inner = path.partition("#")
    value = value_at(payload, way)
    if not inner:
        return value
    try:
        written = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        # Also numbers of thousands of digits, and arrays within thousands of others.
        return None
    return value_at(written, inner)


def _remove(payload: dict[str, Any], path: str) -> None:
    """Take the value at a path out of the payload, whose nested objects are copied before."""
    way, _, inner = path.partition("#")
    if inner:
        # Others may be in the same string.
        return
    *parents, leaf = names_of(way)
    place = payload
    for parent in parents:
        if not isinstance(inside := place.get(parent), dict):
            return
        place[parent] = inside = dict(inside)
        place = inside
    place.pop(leaf, None)


def _integer(text: str, least: int = -(2**63), end: int = 2**63) -> int | None:
    """The number from `least` to below `end` that is written like this."""
    digits = text.removeprefix("-")
    # No number of a point has more than 20.
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 20):
        return None
    number = int(text)
    return number if str(number) == text and least <= number < end else None


def _numeric(times: Mapping[str, str]) -> Iterator[Mapping[str, float]]:
    """The ranges of numbers that are times in a range."""
    microseconds = {name: (read_time(text) - _EPOCH) // timedelta(microseconds=1) for name, text in times.items()}
    for size, numbers in _UNITS:
        bounds = dict(numbers)
        for name, value in microseconds.items():
            bound = value / size
            bounds[name] = (max if name in _LOWER else min)(bound, bounds.get(name, bound))
        least = max((bound for name, bound in bounds.items() if name in _LOWER), default=-inf)
        if least <= min((bound for name, bound in bounds.items() if name not in _LOWER), default=inf):
            yield bounds


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
