"""Filters: each one becomes one condition of Qdrant's, which indexes of its fields answer, and a check of a payload.

- A field that is an array matches if any of its elements does; arrays in arrays, and objects, match nothing.
- A dotted path goes through objects, through the arrays of objects that its brackets name, and through one more:
  `variants.size` means `variants[].size`, too. Where indexes answer some of these spellings, they alone are asked.
- `nested` matches an array, whose path names all arrays on the way, of which one object passes all of its filters.
- A group of filters matches where one of them does (`any_of`), all do (`all_of`), or none does (`none_of`).
- A field that isn't there, null and [] are all missing: only `none_of`, `is_empty` and `exists: false` match them.
  `is_null` matches a null that is there, as the field or as an element of it.
- `none_of` is the opposite of `any_of`: no element of an array may be one of the values.
- A string is looked for as it came, in NFC and in NFD, and a UUID in small and in capital letters, too.
- Booleans, strings and numbers are never equal to each other.
- Numbers are compared as doubles, so 1 is 1.0. An integer beyond ±2^53 equals that integer only. As a bound it is
  compared exactly with integers; a double is within it if all integers are that round to the double.
- Times are compared to the microsecond, with strings that Qdrant reads as times: RFC 3339, or a date; those that say no
  offset are in UTC.
- An index on the field speeds a filter up. It changes what matches where it is of another kind than the values: an
  integer index holds whole numbers only, holds 1.0 as 1, and compares them exactly with a double, too; a datetime index
  holds numbers for `range`, and a numeric index times for `date_range`, as microseconds. A datetime index reads a
  second 60 as the one after 59, and so does the check; without an index, Qdrant puts it before that second.

In strict mode, Qdrant refuses a filter on a field without an index that answers it, by a table of its own
(`unindexed_field`, version 1.19).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from itertools import chain
from math import inf, nextafter
from operator import ge, gt, le, lt
from typing import Any, Final, TypeGuard, TypeVar
from uuid import UUID

from schemas.document import WHOLE_TITLE
from schemas.errors import FieldError
from schemas.fields import read_time
from schemas.filters import (
    EXACT,
    AnyFilter,
    AnyOf,
    DateRange,
    Eq,
    Exists,
    FieldFilter,
    Group,
    InBox,
    InCircle,
    InPolygon,
    IsEmpty,
    IsNull,
    Nested,
    NoneOf,
    Prefix,
    Range,
    find_values,
    inner,
    spellings,
)
from schemas.geo import read_coordinates
from schemas.texts import nfc, nfd

Condition = dict[str, Any]
Indexed = Mapping[str, "frozenset[Ask]"]
"""For each field the questions that its index answers."""

Wanted = TypeVar("Wanted", FieldFilter, AnyFilter)
Value = TypeVar("Value", str, str | bool | int, str | bool | int | float)

_NOT_INDEXED: Final[Indexed] = {}
_OF_ANY_KIND: Final = (Exists, IsEmpty, IsNull, Nested)
"""Filters that an index of any kind answers."""

_INT64: Final = 2**63
_FAN: Final = 4
_CHECKS: Final = {"gt": gt, "gte": ge, "lt": lt, "lte": le}
_UUID: Final = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:[Zz]|[+-]\d\d:?\d\d)?)?")
"""RFC 3339, a date, or one with a time of day; Qdrant reads those without an offset in UTC."""

_CLAUSES: Final[Mapping[str, str]] = {"any_of": "should", "all_of": "must", "none_of": "must_not"}


def condition(wanted: AnyFilter, indexed: Indexed = _NOT_INDEXED, *, array: str = "") -> Condition:
    """The filter as one condition for a `must` list, of the spellings and values that the `indexed` fields suggest.

    `array`: on an object of that array, whose name ends in `[].`.
    """
    if isinstance(wanted, Group):
        return {_CLAUSES[wanted.kind]: [condition(each, indexed, array=array) for each in wanted.filters]}
    paths = _asked_paths(wanted, indexed, array)
    match wanted:
        case Exists(value=there) | IsEmpty(value=there):
            there = there is isinstance(wanted, Exists)
            if array:
                # By an index, `is_empty` tells of all objects of the array together.
                counted = _any_of([{"key": path, "values_count": {"gte": 1}} for path in paths])
                return counted if there else {"must_not": [counted]}
            missing: list[Condition] = [{"is_empty": {"key": path}} for path in paths]
            return {"must_not": [_all_of(missing)]} if there else _all_of(missing)
        case NoneOf() | IsNull(value=False):
            return {"must_not": [_any_of([_on_path(wanted, path, indexed, array) for path in paths])]}
    return _any_of([_on_path(wanted, path, indexed, array) for path in paths])


def _on_path(wanted: FieldFilter, path: str, indexed: Indexed, array: str) -> Condition:
    """The condition of one spelling of a filter's field; of `none_of`, and of `is_null: false`, the opposite."""
    match wanted:
        case Eq(value=value):
            return _any_of([_equal(path, form) for form in _forms([value])])
        case AnyOf(value=values) | NoneOf(value=values):
            return _in(path, _forms(values), indexed.get(f"{array}{path}", frozenset()))
        case Range(value=bounds):
            doubles, edges = _as_doubles(bounds.given)
            whole = [each for numbers in edges for each in numbers if _holds(each, bounds.given)]
            listed: list[Condition] = [{"key": path, "match": {"any": whole}}] if whole else []
            return _any_of([{"key": path, "range": doubles}, *listed])
        case DateRange(value=times):
            return {"key": path, "range": {name: _time(bound) for name, bound in times.given.items()}}
        case Prefix(value=start):
            return _any_of([{"key": path, "match": {"prefix": form}} for form in _forms([start])])
        case InCircle(value=circle):
            return {"key": path, "geo_radius": {"center": circle.coordinates._asdict(), "radius": circle.radius_m}}
        case InBox(value=box):
            return {"key": path, "geo_bounding_box": box.model_dump()}
        case InPolygon(value=polygon):
            rings = [{"points": [corner.model_dump() for corner in ring]} for ring in polygon.rings]
            return {"key": path, "geo_polygon": {"exterior": rings[0], "interiors": rings[1:]}}
        case Nested(value=filters):
            inside = [condition(each, indexed, array=f"{array}{path}[].") for each in filters]
            return {"nested": {"key": path, "filter": {"must": inside}}}
    return {"is_null": {"key": path}}


def equal_text(path: str, text: str) -> Condition:
    """The condition that a field equals a text, as `eq` compares it."""
    return _any_of([_equal(path, form) for form in _forms([text])])


def matches_filter(wanted: AnyFilter, payload: Mapping[str, Any]) -> bool:
    """True if a payload matches the filter, as if its fields had no index."""
    if isinstance(wanted, Group):
        found = (matches_filter(each, payload) for each in wanted.filters)
        return all(found) if wanted.kind == "all_of" else any(found) is (wanted.kind == "any_of")
    values = [value for path in _spellings(wanted) for value in find_values(payload, path)]
    elements = [each for value in values for each in (value if isinstance(value, list) else [value])]
    match wanted:
        case Eq(value=equal):
            forms = _forms([equal])
            return any(_equals(each, form) for each in elements for form in forms)
        case AnyOf(value=listed) | NoneOf(value=listed):
            forms = _forms(listed)
            return any(_equals(each, form) for each in elements for form in forms) is isinstance(wanted, AnyOf)
        case Range(value=bounds):
            doubles, given = _as_doubles(bounds.given)[0], bounds.given
            numbers = filter(_is_number, elements)
            return any(_within(each, doubles) if isinstance(each, float) else _holds(each, given) for each in numbers)
        case DateRange(value=times):
            moments = {name: datetime.fromtimestamp(bound, UTC) for name, bound in times.given.items()}
            return any(_within(moment, moments) for moment in map(_read_time, elements) if moment is not None)
        case Exists(value=there) | IsEmpty(value=there):
            return any(value not in (None, []) for value in values) is (there is isinstance(wanted, Exists))
        case IsNull(value=null):
            return (None in elements) is null
        case Prefix(value=start):
            begins = tuple(_forms([start]))
            return any(isinstance(each, str) and each.startswith(begins) for each in elements)
        case InCircle(value=area) | InBox(value=area) | InPolygon(value=area):
            return any(area.contains(at) for at in map(read_coordinates, elements) if at is not None)
        case Nested(value=filters):
            objects = [each for value in values if isinstance(value, list) for each in value]
            return any(all(matches_filter(each, one) for each in filters) for one in objects if isinstance(one, dict))


def fields_of(filters: Sequence[AnyFilter]) -> Iterator[str]:
    """The fields of a payload that the filters read, those in groups, too."""
    for each in filters:
        if isinstance(each, Group):
            yield from fields_of(each.filters)
        else:
            yield from spellings(each.field)


def on_fields(filters: Sequence[AnyFilter], path: str, array: str = "") -> Iterator[tuple[str, FieldFilter]]:
    """Each filter on a field, also in groups and nested ones, with its path in the event.

    A field of an object in an array has the array's name before its own: `variants[].colour`.
    """
    for index, each in enumerate(filters):
        at = f"{path}.{index}"
        if isinstance(each, Group):
            yield from on_fields(each.filters, f"{at}.{each.kind}", array)
            continue
        field = f"{array}{each.field}"
        yield at, each.model_copy(update={"field": field}) if array else each
        yield from on_fields(inner(each) or (), f"{at}.value", f"{field}[].")


def on_index(wanted: Wanted, indexed: Indexed | None) -> Wanted:
    """The filter on the field whose index can answer it, where filters need an index (`indexed`, else None).

    A text index doesn't tell whether a title equals a value: the same title is kept a second time for that.
    """
    if isinstance(wanted, Group):
        return wanted.model_copy(update={wanted.kind: [on_index(each, indexed) for each in wanted.filters]})
    if indexed is None or wanted.field != "title" or WHOLE_TITLE not in indexed or isinstance(wanted, _OF_ANY_KIND):
        return wanted
    return wanted.model_copy(update={"field": WHOLE_TITLE})


def count_conditions(where: Mapping[str, Any]) -> int:
    """The number of a filter's conditions, as Qdrant counts them: those at its leaves."""
    if "nested" in where:
        return count_conditions(where["nested"]["filter"])
    clauses = [name for name in ("must", "must_not", "should") if name in where]
    return sum(count_conditions(inner) for name in clauses for inner in where[name]) if clauses else 1


def _spellings(wanted: FieldFilter) -> Sequence[str]:
    return (wanted.field,) if isinstance(wanted, Nested) else spellings(wanted.field)


def _asked_paths(wanted: FieldFilter, indexed: Indexed, array: str = "") -> Sequence[str]:
    """The spellings of the filter's field that indexes answer, or else all."""
    paths = _spellings(wanted)
    answered = [path for path in paths if len(paths) > 1 and _lacking(wanted, f"{array}{path}", indexed) is None]
    return answered or paths


def _forms(values: Sequence[Value]) -> Sequence[Value]:
    """The values, and the other forms of the texts among them."""
    forms: list[Any] = [*_spell(tuple(each for each in values if isinstance(each, str)))]
    return forms + [each for each in values if not isinstance(each, str)] if forms else values


# For the checks of many records by one filter; lists of values may be large, so few are kept.
@lru_cache(32)
def _spell(texts: tuple[str, ...]) -> tuple[Any, ...]:
    forms = (form for text in texts for form in (text, nfc(text), nfd(text)))
    cases = ((form, form.lower(), form.upper()) if _UUID.fullmatch(form) else (form,) for form in forms)
    return tuple(dict.fromkeys(chain.from_iterable(cases)))


def _is_double(value: str | bool | int | float) -> TypeGuard[int | float]:
    """True for a number that is compared as a double."""
    return isinstance(value, float) or (type(value) is int and abs(value) < EXACT)


def _equal(field: str, value: str | bool | int | float) -> Condition:
    # Qdrant matches no floats by value, and an integer by value doesn't match the float that equals it.
    if _is_double(value):
        return {"key": field, "range": {"gte": value, "lte": value}}
    return {"key": field, "match": {"value": value}}


def _all_of(conditions: Sequence[Condition]) -> Condition:
    return conditions[0] if len(conditions) == 1 else {"must": [*conditions]}


def _any_of(conditions: Sequence[Condition]) -> Condition:
    return conditions[0] if len(conditions) == 1 else {"should": [*conditions]}


def _in(field: str, values: Sequence[str | bool | int], index: frozenset["Ask"]) -> Condition:
    strings = [value for value in values if isinstance(value, str)]
    booleans = {value for value in values if isinstance(value, bool)}
    integers = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    # Qdrant's lists are of one type, and never of booleans or floats. An index of integers has 1.0 as 1.
    apart = [] if Ask.INTEGER in index else [value for value in integers if _is_double(value)]
    whole = [value for value in integers if Ask.INTEGER in index or not _is_double(value)]
    kinds: list[Condition] = [{"key": field, "match": {"any": kind}} for kind in (strings, whole) if kind]
    if apart:
        kinds.append(_one_of(field, sorted(set(apart)), len(apart) if index & _RANGES else _FAN))
    return _any_of([*kinds, *({"key": field, "match": {"value": value}} for value in sorted(booleans))])


def _one_of(field: str, numbers: Sequence[int], most: int) -> Condition:
    """The condition that a field equals one of these numbers, at most that many side by side.

    Without an index Qdrant reads the payload for each condition: of ranges in ranges it tries few.
    """
    if len(numbers) <= most:
        return _any_of([_equal(field, number) for number in numbers])
    size = -(-len(numbers) // most)
    parts = [_one_of(field, numbers[start : start + size], most) for start in range(0, len(numbers), size)]
    return {"must": [{"key": field, "range": {"gte": numbers[0], "lte": numbers[-1]}}, {"should": parts}]}


def _as_doubles(bounds: Mapping[str, float]) -> tuple[Mapping[str, float], Sequence[range]]:
    """Bounds as Qdrant compares them, by doubles, and the integers next to them that it would not tell apart.

    Where a bound is an integer beyond ±2^53, the range begins or ends at the first double of which all integers that
    round to it are within.
    """
    if int not in map(type, bounds.values()):
        return bounds, ()
    doubles: dict[str, float] = {}
    edges: list[range] = []
    for name, bound in bounds.items():
        if type(bound) is not int:
            doubles[name] = bound
        elif name.startswith("g"):
            least = bound + (name == "gt")
            doubles["gte"] = nextafter(least - 1, inf)
            edges.append(range(least, min(int(doubles["gte"]), _INT64)))
        else:
            most = bound - (name == "lt")
            doubles["lte"] = nextafter(most + 1, -inf)
            edges.append(range(max(int(doubles["lte"]) + 1, -_INT64), most + 1))
    return doubles, edges


def _holds(value: int, bounds: Mapping[str, float]) -> bool:
    """True if an integer is within bounds: exactly, where a bound is an integer that doubles do not tell apart."""
    return all(_CHECKS[name](value if type(bound) is int else float(value), bound) for name, bound in bounds.items())


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equals(value: object, wanted: str | bool | int | float) -> bool:
    if not _is_double(wanted):
        return type(value) is type(wanted) and value == wanted
    return _is_number(value) and float(value) == float(wanted)


def _within(value: Any, bounds: Mapping[str, Any]) -> bool:
    return all(_CHECKS[name](value, bound) for name, bound in bounds.items())


def _read_time(value: object) -> datetime | None:
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        return None
    try:
        return read_time(value)
    except ValueError:
        return None


class Ask(StrEnum):
    """A question to an index; the value is Qdrant's name of the type that answers it."""

    KEYWORD = "keyword"
    PREFIX = "keyword with prefix"
    INTEGER = "integer"
    INTEGER_RANGE = "integer with range"
    FLOAT = "float"
    BOOL = "bool"
    DATETIME = "datetime"
    UUID = "uuid"
    TEXT = "text"
    PHRASE = "text with phrases"
    RANKED = "text with scoring"
    GEO = "geo"


_OPTIONS: Final[Mapping[str, Mapping[Ask, tuple[str, bool]]]] = {
    "keyword": {Ask.KEYWORD: ("", True), Ask.PREFIX: ("prefix", False)},
    "integer": {Ask.INTEGER: ("lookup", True), Ask.INTEGER_RANGE: ("range", True)},
    "text": {Ask.TEXT: ("", True), Ask.PHRASE: ("phrase_matching", False), Ask.RANKED: ("scoring", False)},
    **{kind: {kind: ("", True)} for kind in (Ask.FLOAT, Ask.BOOL, Ask.DATETIME, Ask.UUID, Ask.GEO)},
}
"""Type of index -> the questions that it answers, each with its parameter and whether that is on by default."""

_RANGES: Final = frozenset({Ask.FLOAT, Ask.INTEGER_RANGE})
_ASKS: Final = {
    (bool, False): frozenset({Ask.BOOL}),
    (int, True): _RANGES | {Ask.INTEGER},
    (int, False): frozenset({Ask.INTEGER}),
}
"""Type of a value, and if doubles tell it apart -> the kinds of index that find it."""

ORDERING: Final = frozenset({"integer", "float", "datetime"})
"""Types of indexes that give an order."""


def answers(described: Mapping[str, Any]) -> frozenset[Ask]:
    """The questions that an index answers, which Qdrant describes as {data_type, params}."""
    options = _OPTIONS.get(described.get("data_type", ""), {})
    params = {name: value for name, value in (described.get("params") or {}).items() if value is not None}
    return frozenset(ask for ask, (name, default) in options.items() if params.get(name, default))


def asks(wanted: FieldFilter) -> list[frozenset[Ask]]:
    """The questions of a filter to its field's index: each of these needs an answer, any member of it will do.

    A nested filter has none of its own: those in it have.
    """
    match wanted:
        case Eq(value=value):
            return [_RANGES] if _is_double(value) else _asks_of([value])
        case AnyOf(value=values) | NoneOf(value=values):
            return _asks_of(values)
        case Range(value=bounds):
            exact = [frozenset({Ask.INTEGER})] if any(_as_doubles(bounds.given)[1]) else []
            return [_RANGES, *exact]
        case DateRange():
            return [frozenset({Ask.DATETIME})]
        case Exists() | IsEmpty() | IsNull():
            return [frozenset(Ask)]
        case InCircle() | InBox() | InPolygon():
            return [frozenset({Ask.GEO})]
        case Prefix():
            return [frozenset({Ask.PREFIX})]
        case Nested():
            return []


def missing_indexes(wanted: FieldFilter, indexed: Indexed) -> list[Ask] | None:
    """The kinds of index of which the filter's field lacks one; None if its index answers the filter."""
    return _lacking(wanted, _asked_paths(wanted, indexed)[0], indexed)


def _lacking(wanted: FieldFilter, path: str, indexed: Indexed) -> list[Ask] | None:
    there = indexed.get(path, frozenset())
    return next((sorted(any_of) for any_of in asks(wanted) if not any_of & there), None)


def check_indexes(wanted: Iterable[tuple[str, FieldFilter]], indexed: Indexed) -> None:
    """Raise InputError `invalid` for a filter on a field that no index answers, in a collection that needs one.

    Each filter has its path in the event before it.
    """
    for place, each in wanted:
        if (lacking := missing_indexes(on_index(each, indexed), indexed)) is not None:
            kinds = " or ".join(lacking) if len(lacking) < len(Ask) else "any"
            refused = "the collection's strict mode refuses filters on fields without an index"
            problem = f"{refused}, and this one has no index of type {kinds}; add it to qdrant.indexes"
            raise FieldError(f"{place}.field", problem, each.field)


def _asks_of(values: Sequence[str | bool | int | float]) -> list[frozenset[Ask]]:
    """The questions of a comparison by value, of strings, of booleans and of integers apart."""
    strings = [value for value in values if isinstance(value, str)]
    found = {_ASKS[type(value), _is_double(value)] for value in values if not isinstance(value, str)}
    if strings:
        found.add(frozenset({Ask.KEYWORD, Ask.UUID} if all(map(_is_uuid, strings)) else {Ask.KEYWORD}))
    return sorted(found, key=sorted)


def _is_uuid(value: str) -> bool:
    try:
        UUID(value)
    except ValueError:
        return False
    return True
