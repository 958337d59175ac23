"""Indexes: the questions that a filter asks an index of its field, and the indexes that answer them.

In strict mode Qdrant refuses a filter on a field without an index that answers it, by a table of its own
(`unindexed_field`, version 1.19).
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, TypeVar
from uuid import UUID

from operators.access.comparison import as_doubles, is_double
from schemas import filters as ops
from schemas.document import WHOLE_TITLE
from schemas.errors import FieldError
from schemas.filters import AnyFilter, FieldFilter, Group, spellings


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

RANGES: Final = frozenset({Ask.FLOAT, Ask.INTEGER_RANGE})

_ASKS: Final = {
    (bool, False): frozenset({Ask.BOOL}),
    (int, True): RANGES | {Ask.INTEGER},
    (int, False): frozenset({Ask.INTEGER}),
}
"""Type of a value, and if doubles tell it apart -> the kinds of index that find it."""

_VALUES: Final = {
    Ask.KEYWORD: "a string",
    Ask.INTEGER_RANGE: "a whole number",
    Ask.FLOAT: "a number",
    Ask.BOOL: "true or false",
    Ask.DATETIME: "the times of a date_range",
}
"""Questions that an index answers by its type -> the values that find something there."""

ORDERING: Final = frozenset({"integer", "float", "datetime"})
"""Types of indexes that give an order."""

Indexed = Mapping[str, frozenset[Ask]]
"""For each field the questions that its index answers."""

Wanted = TypeVar("Wanted", FieldFilter, AnyFilter)

_OF_ANY_KIND: Final = (ops.Exists, ops.IsEmpty, ops.IsNull, ops.Nested)
"""Filters that an index of any kind answers."""


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
        case ops.Eq(value=value):
            return [RANGES] if is_double(value) else _asks_of([value])
        case ops.AnyOf(value=values) | ops.NoneOf(value=values):
            return _asks_of(values)
        case ops.Range(value=bounds):
            exact = [frozenset({Ask.INTEGER})] if any(as_doubles(bounds.given)[1]) else []
            return [RANGES, *exact]
        case ops.DateRange():
            return [frozenset({Ask.DATETIME})]
        case ops.Exists() | ops.IsEmpty() | ops.IsNull():
            return [frozenset(Ask)]
        case ops.InCircle() | ops.InBox() | ops.InPolygon():
            return [frozenset({Ask.GEO})]
        case ops.Prefix():
            return [frozenset({Ask.PREFIX})]
        case ops.Nested():
            return []


def spellings_of(wanted: FieldFilter) -> Sequence[str]:
    """The paths that the field of a filter stands for; that of a nested one is as it is written."""
    return (wanted.field,) if isinstance(wanted, ops.Nested) else spellings(wanted.field)


def asked_paths(wanted: FieldFilter, indexed: Indexed, array: str = "") -> Sequence[str]:
    """The spellings of the filter's field that indexes answer, or else all."""
    paths = spellings_of(wanted)
    answered = [path for path in paths if len(paths) > 1 and _lacking(wanted, f"{array}{path}", indexed) is None]
    return answered or paths


def on_index(wanted: Wanted, indexed: Indexed | None) -> Wanted:
    """The filter on the field whose index can answer it, where filters need an index (`indexed`, else None).

    A text index doesn't tell whether a title equals a value: the same title is kept a second time for that.
    """
    if isinstance(wanted, Group):
        return wanted.model_copy(update={wanted.kind: [on_index(each, indexed) for each in wanted.filters]})
    if indexed is None or wanted.field != "title" or WHOLE_TITLE not in indexed or isinstance(wanted, _OF_ANY_KIND):
        return wanted
    return wanted.model_copy(update={"field": WHOLE_TITLE})


def missing_indexes(wanted: FieldFilter, indexed: Indexed) -> list[Ask] | None:
    """The kinds of index of which the filter's field lacks one; None if its index answers the filter."""
    return _lacking(wanted, asked_paths(wanted, indexed)[0], indexed)


def _lacking(wanted: FieldFilter, path: str, indexed: Indexed) -> list[Ask] | None:
    there = indexed.get(path, frozenset())
    return next((sorted(any_of) for any_of in asks(wanted) if not any_of & there), None)


def check_indexes(wanted: Iterable[tuple[str, FieldFilter]], indexed: Indexed) -> None:
    """Raise InputError `invalid` for a filter on a field that no index answers, in a collection that needs one.

    Each filter is behind the path of its field's name in the event.
    """
    for place, each in wanted:
        if (lacking := missing_indexes(on_index(each, indexed), indexed)) is not None:
            kinds = " or ".join(lacking) if len(lacking) < len(Ask) else "any"
            refused = "the collection's strict mode refuses filters on fields without an index"
            problem = f"{refused}, and this one has no index of type {kinds}; add it to qdrant.indexes"
            raise FieldError(place, problem, each.field)


def other_type(wanted: FieldFilter, indexed: Indexed) -> str | None:
    """The type of the field's index and its values in words, if the filter's values are of another; else None."""
    there = indexed.get(asked_paths(wanted, indexed)[0], frozenset())
    kind = next((each for each in _VALUES if each in there), None)
    if kind is None or missing_indexes(wanted, indexed) in (None, [Ask.PREFIX]):
        return None
    return f"indexed as {kind.partition(' ')[0]}: the value must be {_VALUES[kind]}"


def _asks_of(values: Sequence[str | bool | int | float]) -> list[frozenset[Ask]]:
    """The questions of a comparison by value, of strings, of booleans and of integers apart."""
    strings = [value for value in values if isinstance(value, str)]
    found = {_ASKS[type(value), is_double(value)] for value in values if not isinstance(value, str)}
    if strings:
        found.add(frozenset({Ask.KEYWORD, Ask.UUID} if all(map(_is_uuid, strings)) else {Ask.KEYWORD}))
    return sorted(found, key=sorted)


def _is_uuid(value: str) -> bool:
    try:
        UUID(value)
    except ValueError:
        return False
    return True
