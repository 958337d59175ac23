"""Paging: the order of results, the part of the found records that is this page, and the begin of the next one.

Records of one order value go by id, ascending. The index gives no such promise. So its records are sorted here, and if
not all records of a value were returned, they are asked for by id.

The relevant candidates of a search are ordered here, too, by the values in their payloads: numbers, and times as Unix
seconds. Of several values the first in the order counts. Candidates of one value stay in the order of their ranks;
those without a value come last.
"""

import math
from collections.abc import Mapping, Sequence, Set
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from operators.query.canonical import CanonicalQuery, Shape
from operators.query.cursor import After
from operators.ranking.candidate import Candidate, Payload
from operators.ranking.run import stamp
from schemas.document import CREATED, VERSION
from schemas.filters import OrderBy, value_at

OrderValue = int | float | None

MOST_SEEN: Final = 10_000
"""Records of one order value that a lookup passes over: each page asks for all of them again."""


class LookupPage(NamedTuple):
    """A page of an ordered lookup: the indexes of its records, and whether there is `more`.

    `ends` has for each record of the page where a page that ends with it goes on.
    """

    indexes: list[int]
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


def find_page(
    values: Sequence[OrderValue], after: After, limit: int, given: Set[int] = frozenset(), known: int = 0
) -> LookupPage:
    """The page in the records with these order values, which begin at `after.value`, without those `given` before.

    `known` is the number of records that are known to have been given, whether they are still there or not. Of the
    others, as many are passed over as were given of the first value. So where records of that value went away
    meanwhile, others of it take their places: none is given twice.
    """
    page = LookupPage([], [], more=False)
    unknown = after.seen - known
    tied = 0
    for index, value in enumerate(values):
        tied = tied + 1 if index and value == values[index - 1] else 1
        if index in given:
            continue
        if unknown > 0 and value == after.value:
            unknown -= 1
        elif len(page.indexes) == limit:
            return page._replace(more=True)
        else:
            page.indexes.append(index)
            page.ends.append(After(value, tied))
    return page


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
    if asked.order_by is not None and asked.shape is not Shape.SEARCH:
        name = asked.order_by.field
        order = {"key": ORDERED.get(name, name), "direction": asked.order_by.direction}
    if asked.after.value is not None:
        order["start_from"] = asked.after.value
    return order


def order_fields(order_by: OrderBy) -> frozenset[str]:
    """The payload fields that candidates are ordered by."""
    return frozenset({order_by.field, ORDERED.get(order_by.field, order_by.field)})


def sort_candidates(candidates: Sequence[Candidate], order_by: OrderBy) -> list[Candidate]:
    """The candidates by an indexed field."""
    descending = order_by.direction == "desc"
    valued, others = [], []
    for candidate in candidates:
        values = _values(candidate.payload, order_by)
        if values:
            valued.append(((max if descending else min)(values), candidate))
        else:
            others.append(candidate)
    # Stable in reverse, too.
    valued.sort(key=lambda each: each[0], reverse=descending)
    return [candidate for _, candidate in valued] + others


def own_time(payload: Payload, order_by: OrderBy | None) -> int | float | None:
    """The index's own time of a candidate in ms, by which it is ordered; None without one, and in another order."""
    own = payload.get(ORDERED[order_by.field]) if order_by is not None and order_by.field in ORDERED else None
    return own if isinstance(own, int | float) else None


def own_times(times: Mapping[str, float], order_by: OrderBy | None) -> Mapping[str, Mapping[str, float]]:
    """The payload fields that give candidates these times of the index, by id; none in another order."""
    key = ORDERED.get(order_by.field) if order_by is not None else None
    return {id_: {key: time} for id_, time in times.items()} if key is not None else {}


def _values(payload: Payload, order_by: OrderBy) -> list[int | float]:
    own, name = own_time(payload, order_by), order_by.field
    if own is not None:
        return [own / 1000]
    value: Any = payload.get(name)
    if value is None:
        value = value_at(payload, name)
    values = map(_order_value, value if isinstance(value, list) else [value])
    return [each for each in values if each is not None]


def _order_value(value: Any) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        # A time that says no offset is in UTC, and a date is its first moment.
        moments = (stamp(f"{value}{rest}") for rest in ("", "Z", "T00:00:00Z"))
        return next((moment for moment in moments if moment is not None), None)
    return value if isinstance(value, int | float) and math.isfinite(value) else None
