"""Filters: each one becomes one condition of Qdrant's, which indexes of its fields answer, and a check of a payload.

- A field that is an array matches if any of its elements does; arrays in arrays, and objects, match nothing. A dotted
  path goes through objects, not through arrays of objects.
- `nested` matches an array of which one object passes all of its filters. An object that is in no array is none.
- A group of filters matches where one of them does (`any_of`), all do (`all_of`), or none does (`none_of`).
- A field that isn't there, null and [] are all missing: only `none_of` and `exists: false` match them.
- `none_of` is the opposite of `any_of`: no element of an array may be one of the values.
- Titles and texts are kept in NFC. A filter on them looks for its value as it came, and in NFC.
- Booleans, strings and numbers are never equal to each other.
- `eq` and `range` compare numbers as doubles, so 1 is 1.0; an `eq` integer beyond ±2^53 is compared with integers only,
  exactly. `any_of` and `none_of` compare with integers only, since Qdrant has no list of floats.
- Times are compared to the microsecond, with strings that Qdrant reads as times: RFC 3339, or a date; those that say no
  offset are in UTC.
- An index on the field speeds a filter up. It changes what matches where it is of another kind than the values: an
  integer index holds whole numbers only, and holds 1.0 as 1; a datetime index holds numbers for `range`, and a numeric
  index times for `date_range`, as microseconds. A datetime index reads a second 60 as the one after 59, and so
  does the check; without an index, Qdrant puts it before that second.

In strict mode, Qdrant refuses a filter on a field without an index that answers it, by a table of its own
(`unindexed_field`, version 1.19).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import Any, Final, TypeGuard, TypeVar
from uuid import UUID

from schemas.document import COLUMNS, WHOLE_TITLE
from schemas.errors import FieldError
from schemas.fields import read_time
from schemas.filters import (
    AnyFilter,
    AnyOf,
    DateRange,
    Eq,
    Exists,
    FieldFilter,
    Group,
    Nested,
    NoneOf,
    Prefix,
    Range,
    inner,
    value_at,
)
from schemas.texts import nfc

Condition = dict[str, Any]
Wanted = TypeVar("Wanted", FieldFilter, AnyFilter)
Value = TypeVar("Value", str, str | bool | int, str | bool | int | float)

_COMPOSED: Final = frozenset({*COLUMNS, WHOLE_TITLE})

_EXACT: Final = 2**53
"""Doubles tell integers apart below it."""

_CHECKS: Final = {"gt": gt, "gte": ge, "lt": lt, "lte": le}
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:[Zz]|[+-]\d\d:?\d\d)?)?")
"""RFC 3339, a date, or one with a time of day; Qdrant reads those without an offset in UTC."""

_CLAUSES: Final[Mapping[str, str]] = {"any_of": "should", "all_of": "must", "none_of": "must_not"}


def condition(wanted: AnyFilter, *, of_object: bool = False) -> Condition:
    """The filter as one condition for a `must` list; `of_object`: on an object of an array."""
    if isinstance(wanted, Group):
        return {_CLAUSES[wanted.kind]: [condition(each, of_object=of_object) for each in wanted.filters]}
    field = wanted.field
    match wanted:
        case Eq(value=value):
            return _any_of([_equal(field, form) for form in _forms(wanted, [value], of_object)])
        case AnyOf(value=values):
            return _in(field, _forms(wanted, values, of_object))
        case NoneOf(value=values):
            return {"must_not": [_in(field, _forms(wanted, values, of_object))]}
        case Range(value=bounds):
            return {"key": field, "range": bounds.given}
        case DateRange(value=bounds):
            return {"key": field, "range": {name: _time(bound) for name, bound in bounds.given.items()}}
        case Exists(value=there) if of_object:
            # By an index, `is_empty` tells of all objects of the array together.
            counted: Condition = {"key": field, "values_count": {"gte": 1}}
            return counted if there else {"must_not": [counted]}
        case Exists(value=there):
            missing: Condition = {"is_empty": {"key": field}}
            return {"must_not": [missing]} if there else missing
        case Prefix(value=start):
            forms = _forms(wanted, [start], of_object)
            return _any_of([{"key": field, "match": {"prefix": form}} for form in forms])
        case Nested(value=filters):
            return {"nested": {"key": field, "filter": {"must": [condition(each, of_object=True) for each in filters]}}}


def matches_filter(wanted: AnyFilter, payload: Mapping[str, Any], *, of_object: bool = False) -> bool:
    """True if a payload matches the filter, as if its fields had no index; `of_object`: an object of an array."""
    if isinstance(wanted, Group):
        found = (matches_filter(each, payload, of_object=of_object) for each in wanted.filters)
        return all(found) if wanted.kind == "all_of" else any(found) is (wanted.kind == "any_of")
    value = value_at(payload, wanted.field)
    elements = value if isinstance(value, list) else [value]
    match wanted:
        case Eq(value=equal):
            forms = _forms(wanted, [equal], of_object)
            return any(_equals(each, form) for each in elements for form in forms)
        case AnyOf(value=values) | NoneOf(value=values):
            forms = _forms(wanted, values, of_object)
            return any(_is_one_of(each, forms) for each in elements) is isinstance(wanted, AnyOf)
        case Range(value=bounds):
            return any(_is_number(each) and _within(float(each), bounds.given) for each in elements)
        case DateRange(value=bounds):
            given = {name: datetime.fromtimestamp(bound, UTC) for name, bound in bounds.given.items()}
            return any(_within(moment, given) for moment in map(_read_time, elements) if moment is not None)
        case Exists(value=there):
            return (value not in (None, [])) is there
        case Prefix(value=start):
            begins = tuple(_forms(wanted, [start], of_object))
            return any(isinstance(each, str) and each.startswith(begins) for each in elements)
        case Nested(value=filters):
            objects = [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
            return any(all(matches_filter(each, one, of_object=True) for each in filters) for one in objects)


def fields_of(filters: Sequence[AnyFilter]) -> Iterator[str]:
    """The fields of a payload that the filters read, those in groups, too."""
    for each in filters:
        if isinstance(each, Group):
            yield from fields_of(each.filters)
        else:
            yield each.field


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


def on_index(wanted: Wanted, indexed: Mapping[str, object] | None) -> Wanted:
    """The filter on the field whose index can answer it, where filters need an index (`indexed`, else None).

    A text index doesn't tell whether a title equals a value: the same title is kept a second time for that.
    """
    if isinstance(wanted, Group):
        return wanted.model_copy(update={wanted.kind: [on_index(each, indexed) for each in wanted.filters]})
    if indexed is None or wanted.field != "title" or WHOLE_TITLE not in indexed or isinstance(wanted, Exists | Nested):
        return wanted
    return wanted.model_copy(update={"field": WHOLE_TITLE})


def count_conditions(where: Mapping[str, Any]) -> int:
    """The number of a filter's conditions, as Qdrant counts them: those at its leaves."""
    if "nested" in where:
        return count_conditions(where["nested"]["filter"])
    clauses = [name for name in ("must", "must_not", "should") if name in where]
    return sum(count_conditions(inner) for name in clauses for inner in where[name]) if clauses else 1


def _forms(wanted: FieldFilter, values: Sequence[Value], of_object: bool) -> Sequence[Value]:
    """The values, and their other forms where a document's title or text is compared with them."""
    if of_object or wanted.field not in _COMPOSED:
        return values
    composed: list[Any] = [*_compose(tuple(each for each in values if isinstance(each, str)))]
    return composed + [each for each in values if not isinstance(each, str)]


# For the checks of many records by one filter; lists of values may be large, so few are kept.
@lru_cache(32)
def _compose(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(form for text in texts for form in (text, nfc(text))))


def _is_double(value: str | bool | int | float) -> TypeGuard[int | float]:
    """True for a number that is compared as a double."""
    return isinstance(value, float) or (type(value) is int and abs(value) < _EXACT)


def _equal(field: str, value: str | bool | int | float) -> Condition:
    # Qdrant matches no floats by value, and an integer by value doesn't match the float that equals it.
    if _is_double(value):
        return {"key": field, "range": {"gte": value, "lte": value}}
    return {"key": field, "match": {"value": value}}


def _any_of(conditions: Sequence[Condition]) -> Condition:
    return conditions[0] if len(conditions) == 1 else {"should": [*conditions]}


def _in(field: str, values: Sequence[str | bool | int]) -> Condition:
    strings = [value for value in values if isinstance(value, str)]
    booleans = {value for value in values if isinstance(value, bool)}
    integers = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    # Qdrant's lists are of one type, and never of booleans.
    kinds: list[Condition] = [{"key": field, "match": {"any": kind}} for kind in (strings, integers) if kind]
    return _any_of([*kinds, *({"key": field, "match": {"value": value}} for value in sorted(booleans))])


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_one_of(value: object, values: Sequence[object]) -> bool:
    return any(type(value) is type(each) and value == each for each in values)


def _equals(value: object, wanted: str | bool | int | float) -> bool:
    if not _is_double(wanted):
        return _is_one_of(value, [wanted])
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
            return [frozenset({Ask.FLOAT, Ask.INTEGER_RANGE})] if _is_double(value) else _asks_of([value])
        case AnyOf(value=values) | NoneOf(value=values):
            return _asks_of(values)
        case Range():
            return [frozenset({Ask.FLOAT, Ask.INTEGER_RANGE})]
        case DateRange():
            return [frozenset({Ask.DATETIME})]
        case Exists():
            return [frozenset(Ask)]
        case Prefix():
            return [frozenset({Ask.PREFIX})]
        case Nested():
            return []


def missing_indexes(wanted: FieldFilter, indexed: Mapping[str, frozenset[Ask]]) -> list[Ask] | None:
    """The kinds of index of which the filter's field lacks one; None if its index answers the filter."""
    there = indexed.get(wanted.field, frozenset())
    return next((sorted(any_of) for any_of in asks(wanted) if not any_of & there), None)


def check_indexes(wanted: Iterable[tuple[str, FieldFilter]], indexed: Mapping[str, frozenset[Ask]]) -> None:
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
    others = {Ask.BOOL if isinstance(value, bool) else Ask.INTEGER for value in values if not isinstance(value, str)}
    found = [frozenset({each}) for each in others]
    if strings:
        found.append(frozenset({Ask.KEYWORD, Ask.UUID} if all(map(_is_uuid, strings)) else {Ask.KEYWORD}))
    return found


def _is_uuid(value: str) -> bool:
    try:
        UUID(value)
    except ValueError:
        return False
    return True
