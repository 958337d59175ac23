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
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from operators.access.comparison import (
    as_doubles,
    equals,
    holds,
    is_double,
    is_number,
    is_within,
    read_moment,
    spell_all,
)
from operators.access.indexes import RANGES, Ask, Indexed, asked_paths, spellings_of
from schemas import filters as ops
from schemas.filters import AnyFilter, FieldFilter, Group, find_values, inner, spellings
from schemas.geo import GeoPoint, read_coordinates

Condition = Mapping[str, Any]

NOTHING: Final[Condition] = {"has_id": []}
"""An empty list of conditions would match everything."""

_NOT_INDEXED: Final[Indexed] = {}
_FAN: Final = 4
_EDGE: Final = 1e-9  # Degrees: a tenth of a millimetre.


def any_condition(conditions: Sequence[Condition]) -> Condition:
    """The condition that one of these holds."""
    if not conditions:
        return NOTHING
    return conditions[0] if len(conditions) == 1 else {"should": conditions}


_CLAUSES: Final[Mapping[str, str]] = {"any_of": "should", "all_of": "must", "none_of": "must_not"}


def condition(wanted: AnyFilter, indexed: Indexed = _NOT_INDEXED, *, array: str = "") -> Condition:
    """The filter as one condition for a `must` list, of the spellings and values that the `indexed` fields suggest.

    `array`: on an object of that array, whose name ends in `[].`.
    """
    if isinstance(wanted, Group):
        return {_CLAUSES[wanted.kind]: [condition(each, indexed, array=array) for each in wanted.filters]}
    paths = asked_paths(wanted, indexed, array)
    match wanted:
        case ops.Exists(value=there) | ops.IsEmpty(value=there):
            there = there is isinstance(wanted, ops.Exists)
            if array:
                # By an index, `is_empty` tells of all objects of the array together.
                counted = any_condition([{"key": path, "values_count": {"gte": 1}} for path in paths])
                return counted if there else {"must_not": [counted]}
            missing: list[Condition] = [{"is_empty": {"key": path}} for path in paths]
            empty = missing[0] if len(missing) == 1 else {"must": missing}
            return {"must_not": [empty]} if there else empty
        case ops.NoneOf() | ops.IsNull(value=False):
            return {"must_not": [any_condition([_on_path(wanted, path, indexed, array) for path in paths])]}
    return any_condition([_on_path(wanted, path, indexed, array) for path in paths])


def _on_path(wanted: FieldFilter, path: str, indexed: Indexed, array: str) -> Condition:
    """The condition of one spelling of a filter's field; of `none_of`, and of `is_null: false`, the opposite."""
    match wanted:
        case ops.Eq(value=value):
            return equal_to(path, value)
        case ops.AnyOf(value=values) | ops.NoneOf(value=values):
            return _in(path, spell_all(values), indexed.get(f"{array}{path}", frozenset()))
        case ops.Range(value=bounds):
            doubles, edges = as_doubles(bounds.given)
            whole = [each for numbers in edges for each in numbers if holds(each, bounds.given)]
            listed: list[Condition] = [{"key": path, "match": {"any": whole}}] if whole else []
            return any_condition([{"key": path, "range": doubles}, *listed])
        case ops.DateRange(value=times):
            return {"key": path, "range": {name: _time(bound) for name, bound in times.given.items()}}
        case ops.Prefix(value=start):
            return any_condition([{"key": path, "match": {"prefix": form}} for form in spell_all([start])])
        case ops.InCircle(value=circle):
            return {"key": path, "geo_radius": {"center": circle.coordinates._asdict(), "radius": circle.radius_m}}
        case ops.InBox(value=box):
            west, first, last = box.top_left.lon, _inside(box.top_left), _inside(box.bottom_right)
            # A box over that meridian may begin there.
            first |= {"lon": west} if west > box.bottom_right.lon else {}
            return {"key": path, "geo_bounding_box": {"top_left": first, "bottom_right": last}}
        case ops.InPolygon(value=polygon):
            rings = [{"points": [_inside(corner) for corner in ring]} for ring in polygon.rings]
            return {"key": path, "geo_polygon": {"exterior": rings[0], "interiors": rings[1:]}}
        case ops.Nested(value=filters):
            inside = [condition(each, indexed, array=f"{array}{path}[].") for each in filters]
            return {"nested": {"key": path, "filter": {"must": inside}}}
    return {"is_null": {"key": path}}


def _inside(corner: GeoPoint) -> dict[str, float]:
    """A corner off the north pole and the 180th meridian: of an area up to there an index finds a part, or nothing."""
    return {"lat": min(corner.lat, 90 - _EDGE), "lon": min(corner.lon, 180 - _EDGE)}


def equal_to(path: str, value: str | bool | int | float) -> Condition:
    """The condition that a field equals a value in one of its forms, as `eq` compares it."""
    return any_condition([_equal(path, form) for form in spell_all([value])])


def matches_filter(wanted: AnyFilter, payload: Mapping[str, Any]) -> bool:
    """True if a payload matches the filter, as if its fields had no index."""
    if isinstance(wanted, Group):
        found = (matches_filter(each, payload) for each in wanted.filters)
        return all(found) if wanted.kind == "all_of" else any(found) is (wanted.kind == "any_of")
    values = [value for path in spellings_of(wanted) for value in find_values(payload, path)]
    elements = [each for value in values for each in (value if isinstance(value, list) else [value])]
    match wanted:
        case ops.Eq(value=value) | ops.AnyOf(value=value) | ops.NoneOf(value=value):
            forms = spell_all(value if isinstance(value, list) else [value])
            return any(equals(each, form) for each in elements for form in forms) is not isinstance(wanted, ops.NoneOf)
        case ops.Range(value=bounds):
            doubles, given = as_doubles(bounds.given)[0], bounds.given
            numbers = filter(is_number, elements)
            return any(is_within(each, doubles) if isinstance(each, float) else holds(each, given) for each in numbers)
        case ops.DateRange(value=times):
            moments = {name: datetime.fromtimestamp(bound, UTC) for name, bound in times.given.items()}
            return any(is_within(moment, moments) for moment in map(read_moment, elements) if moment is not None)
        case ops.Exists(value=there) | ops.IsEmpty(value=there):
            return any(value not in (None, []) for value in values) is (there is isinstance(wanted, ops.Exists))
        case ops.IsNull(value=null):
            return (None in elements) is null
        case ops.Prefix(value=start):
            begins = tuple(spell_all([start]))
            return any(isinstance(each, str) and each.startswith(begins) for each in elements)
        case ops.InCircle(value=area) | ops.InBox(value=area) | ops.InPolygon(value=area):
            return any(area.contains(at) for at in map(read_coordinates, elements) if at is not None)
        case ops.Nested(value=filters):
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
    """Each filter on a field, also in groups and nested ones, behind the path of its field's name in the event.

    A field of an object in an array has the array's name before its own: `variants[].colour`.
    """
    for index, each in enumerate(filters):
        at = f"{path}.{index}"
        if isinstance(each, Group):
            yield from on_fields(each.filters, f"{at}.{each.kind}", array)
            continue
        field = f"{array}{each.field}"
        yield f"{at}.field", each.model_copy(update={"field": field}) if array else each
        yield from on_fields(inner(each) or (), f"{at}.value", f"{field}[].")


def count_conditions(where: Mapping[str, Any]) -> int:
    """The number of a filter's conditions, as Qdrant counts them: those at its leaves."""
    if "nested" in where:
        return count_conditions(where["nested"]["filter"])
    clauses = [name for name in ("must", "must_not", "should") if name in where]
    return sum(count_conditions(inner) for name in clauses for inner in where[name]) if clauses else 1


def _equal(field: str, value: str | bool | int | float) -> Condition:
    # Qdrant matches no floats by value, and an integer by value doesn't match the float that equals it.
    if is_double(value):
        return {"key": field, "range": {"gte": value, "lte": value}}
    return {"key": field, "match": {"value": value}}


def _in(field: str, values: Sequence[str | bool | int], index: frozenset[Ask]) -> Condition:
    strings = [value for value in values if isinstance(value, str)]
    booleans = {value for value in values if isinstance(value, bool)}
    integers = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    # Qdrant's lists are of one type, and never of booleans or floats. An index of integers has 1.0 as 1.
    apart = [] if Ask.INTEGER in index else [value for value in integers if is_double(value)]
    whole = [value for value in integers if Ask.INTEGER in index or not is_double(value)]
    kinds: list[Condition] = [{"key": field, "match": {"any": kind}} for kind in (strings, whole) if kind]
    if apart:
        kinds.append(_one_of(field, sorted(set(apart)), len(apart) if index & RANGES else _FAN))
    return any_condition([*kinds, *({"key": field, "match": {"value": value}} for value in sorted(booleans))])


def _one_of(field: str, numbers: Sequence[int], most: int) -> Condition:
    """The condition that a field equals one of these numbers, at most that many side by side.

    Without an index Qdrant reads the payload for each condition: of ranges in ranges it tries few.
    """
    if len(numbers) <= most:
        return any_condition([_equal(field, number) for number in numbers])
    size = -(-len(numbers) // most)
    parts = [_one_of(field, numbers[start : start + size], most) for start in range(0, len(numbers), size)]
    return {"must": [{"key": field, "range": {"gte": numbers[0], "lte": numbers[-1]}}, {"should": parts}]}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
