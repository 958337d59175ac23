"""Paging: the order of a lookup, the part of the found records that is this page, and the begin of the next one.

Records of one order value go by id, ascending. The index gives no such promise. So its records are sorted here, and if
not all records of a value were returned, they are asked for by id.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from operators.query.canonical import CanonicalQuery
from operators.query.cursor import After
from schemas.document import CREATED, VERSION

OrderValue = int | float | None

MOST_SEEN: Final = 10_000
"""Records of one order value that a lookup passes over: each page asks for all of them again."""


class LookupPage(NamedTuple):
    """A page of an ordered lookup: the found records from `first` up to `last`, and whether there is `more`.

    `ends` has for each record of the page where a page that ends with it goes on.
    """

    first: int
    last: int
    ends: list[After]
    more: bool


def records_to_ask(after: After, limit: int) -> int:
    """The number of records of a lookup's request: those of its first value that were given, a page, and one more.

    An ordered lookup can only begin at a value, not behind a record.
    """
    return after.seen + limit + 1


def unfinished_value(values: Sequence[OrderValue], asked: int) -> int | None:
    """The index of the first record that has the last record's value, unless it is the last itself; None without one.

    `asked` are the records that were asked for; the last is only there to tell whether there is another page.
    """
    if len(values) < asked:
        return None
    start = len(values) - 1
    while start and values[start - 1] == values[-1]:
        start -= 1
    return start if start < len(values) - 1 else None


def by_id(id_: str) -> tuple[bool, int, str]:
    """The index's order of ids, for sorting: integers, then UUIDs."""
    number = id_.isdecimal()
    return (not number, int(id_) if number else 0, id_)


def find_page(values: Sequence[OrderValue], after: After, limit: int) -> LookupPage:
    """The page in the records with these order values, which begin at `after.value`.

    Where records of that value went away meanwhile, as many others of it take their places: none is given twice.
    """
    first = 0
    while first < min(after.seen, len(values)) and values[first] == after.value:
        first += 1
    last = min(first + limit, len(values))
    ends = []
    given = 0
    for index, value in enumerate(values[:last]):
        given = given + 1 if index and value == values[index - 1] else 1
        if index >= first:
            ends.append(After(value, given))
    return LookupPage(first, last, ends, last < len(values))


ORDERED: Final[Mapping[str, str]] = {"created_at": CREATED, "updated_at": VERSION}
"""Fields that every collection can be ordered by -> the index's own."""

FIELDS: Final = {key: name for name, key in ORDERED.items()}

_CYCLE: Final = 146_097 * 24 * 60 * 60 * 1_000_000
"""Microseconds of 400 years."""

_NEWEST: Final = {"key": CREATED, "direction": "desc"}


def equal(key: str, kind: str, value: OrderValue) -> Mapping[str, Any]:
    """The condition that the field, whose index is of this type, has this value."""
    if kind == "integer":
        return {"key": key, "match": {"value": value}}
    bound: Any = value
    if kind == "datetime" and value is not None:
        bound = _moment(int(value))
    return {"key": key, "range": {"gte": bound, "lte": bound}}


def _moment(microseconds: int) -> str:
    """An order value as the time that Qdrant reads: also of years that Python's calendar doesn't have.

    The Gregorian calendar repeats every 400 years.
    """
    cycles, rest = divmod(microseconds, _CYCLE)
    moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=rest)
    year = moment.year + 400 * cycles
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}{moment.isoformat(timespec='microseconds')[4:]}"


def wanted_order(asked: CanonicalQuery) -> Mapping[str, Any]:
    """The order as Qdrant has it: the newest first, unless the lookup names another; where the page begins."""
    order: dict[str, Any] = dict(_NEWEST)
    if asked.order_by is not None:
        name = asked.order_by.field
        order = {"key": ORDERED.get(name, name), "direction": asked.order_by.direction}
    if asked.after.value is not None:
        order["start_from"] = asked.after.value
    return order
