"""What an index of a payload field can be asked for, and what filters ask.

In strict mode, Qdrant refuses a filter on a field without an index that answers it. Which index answers what is
Qdrant's own table (`unindexed_field`, version 1.19).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from schemas.filters import AnyFilter, AnyOf, DateRange, Eq, Exists, NoneOf, Prefix, Range


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
    GEO = "geo"


_OPTIONS: Final[Mapping[str, Mapping[Ask, tuple[str, bool]]]] = {
    "keyword": {Ask.KEYWORD: ("", True), Ask.PREFIX: ("prefix", False)},
    "integer": {Ask.INTEGER: ("lookup", True), Ask.INTEGER_RANGE: ("range", True)},
    "text": {Ask.TEXT: ("", True), Ask.PHRASE: ("phrase_matching", False)},
    **{kind: {kind: ("", True)} for kind in (Ask.FLOAT, Ask.BOOL, Ask.DATETIME, Ask.UUID, Ask.GEO)},
}
"""Type of index -> what it answers, under which parameter, and whether by default."""

ORDERING: Final = frozenset({"integer", "float", "datetime"})
"""Types of indexes that give an order."""

_EXACT: Final = 2**53


def answers(described: Mapping[str, Any]) -> frozenset[Ask]:
    """What an index can be asked for that Qdrant describes as {data_type, params}."""
    params = described.get("params") or {}
    found = set()
    for ask, (name, default) in _OPTIONS.get(described.get("data_type", ""), {}).items():
        value = params.get(name)
        if default if value is None else value:
            found.add(ask)
    return frozenset(found)


def asks(wanted: AnyFilter) -> list[frozenset[Ask]]:
    """What a filter asks of its field's index: each of these needs an answer, any member of it will do."""
    match wanted:
        case Eq(value=value):
            return [_of(value)]
        case AnyOf(value=values) | NoneOf(value=values):
            strings = [value for value in values if isinstance(value, str)]
            others = {_of_listed(value) for value in values if not isinstance(value, str)}
            return [*others, *([_of_strings(strings)] if strings else [])]
        case Range():
            return [frozenset({Ask.FLOAT, Ask.INTEGER_RANGE})]
        case DateRange():
            return [frozenset({Ask.DATETIME})]
        case Exists():
            return [frozenset(Ask)]
        case Prefix():
            return [frozenset({Ask.PREFIX})]


def unanswered(wanted: AnyFilter, indexed: Mapping[str, frozenset[Ask]]) -> list[Ask] | None:
    """The kinds of index of which the filter's field lacks one; None if its index answers the filter."""
    there = indexed.get(wanted.field, frozenset())
    for any_of in asks(wanted):
        if not any_of & there:
            return sorted(any_of)
    return None


def _of(value: str | bool | int | float) -> frozenset[Ask]:
    if isinstance(value, str):
        return _of_strings([value])
    if isinstance(value, bool):
        return frozenset({Ask.BOOL})
    if isinstance(value, int) and abs(value) >= _EXACT:
        return frozenset({Ask.INTEGER})
    return frozenset({Ask.FLOAT, Ask.INTEGER_RANGE})


def _of_listed(value: bool | int) -> frozenset[Ask]:
    return frozenset({Ask.BOOL if isinstance(value, bool) else Ask.INTEGER})


def _of_strings(values: list[str]) -> frozenset[Ask]:
    return frozenset({Ask.KEYWORD, Ask.UUID}) if all(map(_is_uuid, values)) else frozenset({Ask.KEYWORD})


def _is_uuid(value: str) -> bool:
    try:
        UUID(value)
    except ValueError:
        return False
    return True
