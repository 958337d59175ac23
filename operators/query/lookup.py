"""Ordered lookups: pages of records by an indexed field, those of one value by id, ascending.

Qdrant's ordered scroll can begin at a value only, and the order that it gives to records of one value changes with the
requested number. So they are sorted here; and if the scroll may have cut them off, those of the last value are
requested again, in scrolls by the points' ids. The order is that of the documents' own ids if there are at most TIED
records of the value, for these can be read for each page. Otherwise it is that of the points' ids. A collection that
gives few records at a time is asked several times, and no lookup asks it without end.
"""

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count, groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

from operators.query.backend_answers import Hits, OrderValue, Record, RecordPage
from operators.query.canonical import Query
from operators.query.collection import ORDERED, Capabilities
from operators.query.cursor import After
from operators.query.search import Body, Condition, Count, Found, Program, Scroll, narrow_by
from operators.ranking.candidate import document
from schemas.document import CREATED
from schemas.errors import BackendBadResponse, Reason
from schemas.query import GeoDistance, QueryShape

MOST_SEEN: Final = 10_000
"""Records of one order value that a lookup passes over: each page asks for all of them again."""

REQUESTS: Final = 128
"""Scrolls of one lookup at most: a collection that gives 1,000 records at a time needs 24 for the deepest page."""

TIED: Final = 1_000
"""Records of one value at most that are read for a page, to put them in the order of their documents' ids."""

_FARTHEST: Final = 2.1e7
_ROUNDING: Final = 1.0
"""Metres: more than between any two points, and than two computations of a distance differ: near the antipode by .1."""

_CIRCLES: Final = 8
_ROUNDS: Final = 4
"""Circles that are counted at once, and how often: the last ones differ by a hundredth."""

_CYCLE: Final = 146_097 * 24 * 60 * 60 * 1_000_000
"""Microseconds of 400 years."""

Result = TypeVar("Result")
Part = Generator[Scroll, RecordPage, Result]


def look_up(body: Body, most: int, equal: Callable[[OrderValue], Condition] | None = None) -> Program:
    """The records of one lookup, `most` a request; in pages, `equal` gives the condition that a record has a value."""
    lookup = _Lookup(most)
    if "order_by" not in body:
        records = yield from lookup.read_tied(body, body["limit"])
    elif equal is None:
        records = lookup.sort_tied((yield from lookup.first_page(body)))
    else:
        records = yield from _look_up_ordered(lookup, body, equal)
    return _to_found(records)


def _to_found(records: Sequence[Record]) -> Found:
    hits = Hits([each.id for each in records], [0.0] * len(records), [each.payload for each in records])
    return Found(hits, [each.order_value for each in records])


def _look_up_ordered(lookup: "_Lookup", body: Body, equal: Callable[[OrderValue], Condition]) -> Part[list[Record]]:
    """Read the number of records that `body` asks for, in their order, each value's by id."""
    limit: int = body["limit"]
    records: list[Record] = []
    rest = body
    while True:
        wanted = limit - len(records)
        page_size = min(wanted, lookup.most)
        found = lookup.sort_tied((yield from lookup.first_page({**rest, "limit": wanted})))
        values = [record.order_value for record in found]
        # There may be more records of the last value, unless the last one only tells that there is another page.
        start = values.index(values[-1]) if len(values) >= page_size else None
        if page_size == wanted and start == wanted - 1:
            start = None
        records += found[:start]
        if start is None:
            return records
        value = values[start]
        tied = yield from lookup.read_tied(_with(body, "must", equal(value)), limit - len(records))
        records += [Record(each.id, each.payload, value) for each in tied]
        if page_size == wanted or len(records) >= limit:
            return records
        # The rest begins at this value, and is of others.
        others = _with(body, "must_not", equal(value))
        rest = {**others, "order_by": {**body["order_by"], "start_from": value}}


def look_up_nearest(body: Body, centre: GeoDistance, after: OrderValue, able: Capabilities) -> Program:
    """The records of a lookup that are nearest to a point, in the order of their distances, from that of `after` on.

    No index has distances. So documents are counted in circles, until a small one has enough of them; these are read.
    """

    def within(radius: float) -> Condition:
        return able.condition(centre.within(radius))

    start, least, most = after or 0.0, _ROUNDING, _FARTHEST
    rest = _with(body, "must_not", within(start - _ROUNDING)) if start > _ROUNDING else body
    for _ in range(_ROUNDS):
        radii = [least * (most / least) ** (step / _CIRCLES) for step in range(1, _CIRCLES + 1)]
        numbers = yield Count([narrow_by(rest["filter"], within(radius)) for radius in radii])
        at = min(bisect_left(numbers, body["limit"]), _CIRCLES - 1) if numbers[-1] > able.most else _CIRCLES - 1
        least, most = radii[at - 1] if at else least, radii[at]
        if numbers[at] <= able.most:
            break
    there = yield from _Lookup(able.most).read_tied(_with(rest, "must", within(most + _ROUNDING)), REQUESTS * able.most)
    found = [Record(each.id, each.payload, m) for each in there if (m := min(centre.of(each.payload))) >= start]
    return _to_found(sorted(sorted(found, key=_by_document), key=attrgetter("order_value"))[: body["limit"]])


@dataclass(frozen=True, slots=True)
class _Lookup:
    """Scrolls of one lookup, of `most` records at a time."""

    most: int
    requests: Iterator[int] = field(default_factory=count)

    def first_page(self, body: Body) -> Part[list[Record]]:
        return (yield from self._page(body, min(body["limit"], self.most), body["order_by"], None)).records

    @property
    def most_tied(self) -> int:
        """The number of records of one value up to which these are in the order of their documents' ids."""
        return min(TIED, 4 * self.most)

    def read_tied(self, body: Body, wanted: int) -> Part[list[Record]]:
        """The wanted number of records of one value, or fewer if there are no more, in as many requests as it takes."""
        records: list[Record] = []
        offset, enough = None, max(wanted, self.most_tied + 1)
        while len(records) < enough:
            page = yield from self._page(body, min(enough - len(records), self.most), None, offset)
            records += page.records
            offset = page.next_offset
            if offset is None:
                break
        return self.sort_tied(records)[:wanted]

    def sort_tied(self, found: Sequence[Record]) -> list[Record]:
        tied = (list(each) for _, each in groupby(found, attrgetter("order_value")))
        keys = ((each, _by_document if len(each) <= self.most_tied else _by_point) for each in tied)
        return [record for each, key in keys for record in sorted(each, key=key)]

    def _page(self, body: Body, limit: int, order_by: Mapping[str, Any] | None, offset: str | None) -> Part[RecordPage]:
        if next(self.requests) >= REQUESTS:
            problem = f"the lookup needs more than {REQUESTS} requests of {self.most} records (max_query_limit)"
            raise BackendBadResponse(problem, reason=Reason.REFUSED)
        return (yield Scroll(body["filter"], limit, body["with_payload"], order_by, offset))


def _with(body: Body, clause: str, condition: Condition) -> dict[str, Any]:
    return {**body, "filter": narrow_by(body["filter"], condition, clause=clause)}


def by_id(id_: str) -> tuple[bool, int, str]:
    """The index's order of ids, for sorting: integers, then UUIDs."""
    number = id_.isdecimal()
    return (not number, int(id_) if number else 0, id_)


def _by_point(record: Record) -> tuple[bool, int, str]:
    return by_id(record.id)


def _by_document(record: Record) -> tuple[bool, int, str]:
    return by_id(document(record.id, record.payload))


class LookupPage(NamedTuple):
    """The indexes of a page's records, the position of a page that ends with each, and if there is a next page."""

    indexes: list[int]
    ends: list[After]
    more: bool


def records_to_ask(after: After, limit: int) -> int:
    """The number of records of a lookup's request: those of its first value that were given, a page, and one more."""
    return after.seen + limit + 1


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


def wanted_order(asked: Query) -> Mapping[str, Any]:
    """The order as Qdrant has it: the newest first, unless the lookup names another; where the page begins."""
    order: dict[str, Any] = {"key": CREATED, "direction": "desc"}
    if asked.event.order_by is not None and asked.shape is not QueryShape.SEARCH:
        name = asked.event.order_by.field
        order = {"key": ORDERED.get(name, name), "direction": asked.event.order_by.direction}
    if asked.after.value is not None:
        order["start_from"] = asked.after.value
    return order


def equal(key: str, kind: str, value: OrderValue) -> Mapping[str, Any]:
    """The condition that the field, whose index is of this type, has this value."""
    if kind == "integer":
        return {"key": key, "match": {"value": value}}
    bound = _moment(int(value)) if kind == "datetime" and value is not None else value
    return {"key": key, "range": {"gte": bound, "lte": bound}}


def _moment(microseconds: int) -> str:
    """An order value as a time for Qdrant, also beyond Python's calendar: the Gregorian one repeats every 400 years."""
    cycles, rest = divmod(microseconds, _CYCLE)
    moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=rest)
    year = moment.year + 400 * cycles
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}{moment.isoformat(timespec='microseconds')[4:]}"
