"""Order: what a lookup is ordered by, and the condition that a record has one value of it."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from operators.query.canonical import Canonical
from operators.query.paging import OrderValue
from schemas.document import CREATED, VERSION

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
    """What Qdrant orders by as the time that it reads: also of years that Python's calendar doesn't have.

    The Gregorian calendar repeats every 400 years.
    """
    cycles, rest = divmod(microseconds, _CYCLE)
    moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=rest)
    year = moment.year + 400 * cycles
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}{moment.isoformat(timespec='microseconds')[4:]}"


def wanted_order(asked: Canonical) -> Mapping[str, Any]:
    """The order as Qdrant has it: the newest first, unless the lookup names another; where the page begins."""
    order: dict[str, Any] = dict(_NEWEST)
    if asked.order_by is not None:
        name = asked.order_by.field
        order = {"key": ORDERED.get(name, name), "direction": asked.order_by.direction}
    if asked.after.value is not None:
        order["start_from"] = asked.after.value
    return order
