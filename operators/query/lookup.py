"""Ordered lookups as programs: a page's records by an indexed field, those of one value by id.

Qdrant's ordered scroll can begin at a value only, and the order that it gives to records of one value changes with the
requested number. So they are put in order by id; and if the scroll may have cut them off, those of the last value are
requested again, in scrolls by the points' ids. The order is that of the documents' own ids if there are at most TIED
records of the value, for these can be read for each page. Otherwise it is that of the points' ids. A collection that
gives few records at a time is asked several times, and no lookup asks it without end.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby
from typing import Any, Final, TypeVar

from operators.query import paging
from operators.query.backend_answers import Hits, Record, RecordPage
from operators.query.paging import OrderValue
from operators.query.search import Body, Condition, Found, Program, Scroll
from operators.ranking.candidate import document
from schemas.errors import BackendBadResponse, Reason

REQUESTS: Final = 128
"""Scrolls of one lookup at most: a collection that gives 1,000 records at a time needs 24 for the deepest page."""

TIED: Final = 1_000
"""Records of one value at most that are read for a page, to put them in the order of their documents' ids."""

Result = TypeVar("Result")
Part = Generator[Scroll, RecordPage, Result]


def look_up(body: Body, most: int | None, equal: Callable[[OrderValue], Condition] | None = None) -> Program:
    """The records of one lookup: as many as `body` asks for, `most` from each request, None is no bound.

    `equal` gives the condition that a record has an order value, for a lookup in pages.
    """
    lookup = _Lookup(most)
    if "order_by" not in body:
        records = yield from lookup.read_tied(body, body["limit"])
    elif equal is None:
        records = lookup.sort_tied((yield from lookup.first_page(body)))
    else:
        records = yield from _look_up_ordered(lookup, body, equal)
    hits = Hits([each.id for each in records], [0.0] * len(records), [each.payload for each in records])
    return Found(hits, [_value(each) for each in records])


def _look_up_ordered(lookup: "_Lookup", body: Body, equal: Callable[[OrderValue], Condition]) -> Part[list[Record]]:
    """Read the number of records that `body` asks for, in their order, each value's by id."""
    limit: int = body["limit"]
    records: list[Record] = []
    rest = body
    while True:
        wanted = limit - len(records)
        page_size = lookup.page_size(wanted)
        found = lookup.sort_tied((yield from lookup.first_page({**rest, "limit": wanted})))
        values = [_value(record) for record in found]
        whole = page_size == wanted
        start = paging.unfinished_value(values, page_size) if whole else _last_value(values, page_size)
        records += found[:start]
        if start is None:
            return records
        value = values[start]
        tied = yield from lookup.read_tied(_with(body, "must", equal(value)), limit - len(records))
        records += [Record(each.id, each.payload, value) for each in tied]
        if whole or len(records) >= limit:
            return records
        # The rest begins at this value, and is of others.
        others = _with(body, "must_not", equal(value))
        rest = {**others, "order_by": {**body["order_by"], "start_from": value}}


def _last_value(values: Sequence[OrderValue], page_size: int) -> int | None:
    """The index where the records of the last value begin, if there may be more of them; None if these are all."""
    return values.index(values[-1]) if len(values) == page_size else None


@dataclass(frozen=True, slots=True)
class _Lookup:
    """Scrolls of one lookup: `most` records at a time, None is no bound."""

    most: int | None
    requests: Iterator[int] = field(default_factory=count)

    def page_size(self, wanted: int) -> int:
        """The number of records that one request may give."""
        return wanted if self.most is None else min(wanted, self.most)

    def first_page(self, body: Body) -> Part[list[Record]]:
        """The first records in their order, as many as one request gives."""
        return (yield from self._page(body, self.page_size(body["limit"]), body["order_by"], None)).records

    @property
    def most_tied(self) -> int:
        """The number of records of one value up to which these are in the order of their documents' ids."""
        return TIED if self.most is None else min(TIED, 4 * self.most)

    def read_tied(self, body: Body, wanted: int) -> Part[list[Record]]:
        """The wanted number of records of one value, or fewer if there are no more, in as many requests as it takes."""
        records: list[Record] = []
        offset, enough = None, max(wanted, self.most_tied + 1)
        while len(records) < enough:
            page = yield from self._page(body, self.page_size(enough - len(records)), None, offset)
            records += page.records
            offset = page.next_offset
            if offset is None:
                break
        return self.sort_tied(records)[:wanted]

    def sort_tied(self, found: Sequence[Record]) -> list[Record]:
        """The records, those of each value by id."""
        tied = (list(each) for _, each in groupby(found, _value))
        keys = ((each, _document if len(each) <= self.most_tied else _point) for each in tied)
        return [record for each, key in keys for record in sorted(each, key=key)]

    def _page(self, body: Body, limit: int, order_by: Mapping[str, Any] | None, offset: str | None) -> Part[RecordPage]:
        if next(self.requests) >= REQUESTS:
            problem = f"the lookup needs more than {REQUESTS} requests of {self.most} records (max_query_limit)"
            raise BackendBadResponse(problem, reason=Reason.REFUSED)
        return (yield Scroll(body["filter"], limit, body["with_payload"], order_by, offset))


def _with(body: Body, clause: str, condition: Condition) -> dict[str, Any]:
    where = body["filter"]
    return {**body, "filter": {**where, clause: [*where.get(clause, ()), condition]}}


def _value(record: Record) -> OrderValue:
    return record.order_value


def _point(record: Record) -> tuple[bool, int, str]:
    return paging.by_id(record.id)


def _document(record: Record) -> tuple[bool, int, str]:
    return paging.by_id(document(record.id, record.payload))
