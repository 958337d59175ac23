"""Facets: counts of the values of fields among all that a query matches.

What a query matches passes its filters and, where it has words that the keyword leg searches, holds one of them.
Without such words Qdrant counts by its indexes. No index tells which documents hold a word in one of its forms. So with
words the best documents by keywords are read, as many as one search gives, and counted here; if there are more, the
counts are of these alone, and not exact.

- A document counts once for each of its values: strings in NFC, booleans and whole numbers. 2.0 is 2.
- Qdrant counts the encodings of a string apart. They are added up as far as they are among the commonest that it gives.
- A facet that leaves out the filters on its own field counts among what passes the others.
"""

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final

from operators.access.filters import matches_filter
from operators.access.firewall import AccessFilter, find_forbidden
from operators.query.backend_answers import Hits
from operators.query.collection import Capabilities
from operators.query.search import COUNTED, Condition, Count, Counts, Found, Program, Request, Words
from schemas.facets import Facet
from schemas.fields import rfc3339
from schemas.filters import Bounds, DateRange, FieldFilter, Range, find_values, spellings
from schemas.texts import nfc

Payload = Mapping[str, Any]
Shown = Mapping[str, Any]
"""The counts of one facet as a result has them."""

_NO_HITS: Final = Hits([], [], [])


Matching = Callable[[str | None], tuple[Condition, Callable[[], Program] | None]]
"""The condition of what is matched without the filters on a field, None: with all filters; and with words the search
for the best of these matches, as many as one search gives.
"""


def count_facets(
    facets: Sequence[Facet], matching: Matching, own: frozenset[str], guard: AccessFilter | None, able: Capabilities
) -> Program:
    """The counts of all facets in a collection that is `able` to so much, without the documents that the guard forbids.

    A facet that leaves out the filters on its own field does so if that is one of `own`.
    """
    alike: dict[str | None, list[Facet]] = {None: []}
    for facet in facets:
        alike.setdefault(facet.field if facet.exclude_own and facet.field in own else None, []).append(facet)
    shown: dict[int, Shown] = {}
    found = Counts(0, exact=True)
    for left_out, together in alike.items():
        where, search = matching(left_out)
        if search is None:
            counts = yield from _count(together, where, able)
        else:
            counts = _read(together, (yield from search()).hits, able.most, guard)
        shown.update(zip(map(id, together), counts.facets, strict=True))
        found = counts if left_out is None else found
    return Found(_NO_HITS, counts=found._replace(facets=[shown[id(facet)] for facet in facets]))


def _count(facets: Sequence[Facet], where: Condition, able: Capabilities) -> Generator[Request, Any, Counts]:
    """The counts among all that a condition matches, by the indexes of the fields."""
    within = [{"must": [where, able.condition(each)]} for facet in facets for each in within_ranges(facet)]
    number, *numbers = yield Count([where, *within])
    listed = [facet for facet in facets if facet.ranges is None]
    most = max((facet.limit + 1 if _by_count(facet) else COUNTED for facet in listed), default=0)
    answers = (yield Words([(facet.field, where) for facet in listed], most)) if listed else ()
    by_index, in_ranges = iter(answers), iter(numbers)
    shown = [
        _show_values(facet, *next(by_index))
        if facet.ranges is None
        else _show_ranges(facet, [next(in_ranges) for _ in facet.ranges], exact=able.exact)
        for facet in facets
    ]
    return Counts(number, able.exact, shown)


def _read(facets: Sequence[Facet], hits: Hits, most: int, guard: AccessFilter | None) -> Counts:
    """The counts among hits, which are all that there are if they are fewer than `most`."""
    exact = len(hits.ids) < most
    forbidden = find_forbidden(guard, hits.ids, hits.payloads)
    payloads = [each for id_, each in zip(hits.ids, hits.payloads, strict=True) if id_ not in forbidden]
    shown = [
        _show_values(facet, Counter(value for each in payloads for value in _values(each, facet.field)), False, exact)
        if facet.ranges is None
        else _show_ranges(
            facet,
            [sum(matches_filter(within, each) for each in payloads) for within in within_ranges(facet)],
            exact=exact,
        )
        for facet in facets
    ]
    return Counts(len(payloads), exact, shown)


def _values(payload: Payload, field: str) -> set[str | int]:
    found = (value for path in spellings(field) for value in find_values(payload, path))
    elements = [each for value in found for each in (value if isinstance(value, list) else [value])]
    whole = (int(each) if isinstance(each, float) and each.is_integer() else each for each in elements)
    return {_normalise(each) for each in whole if isinstance(each, str | int)}


def _normalise(value: str | int) -> str | int:
    """A value of a facet, a string in NFC: different encodings of one string are one value, as in filters."""
    return nfc(value) if isinstance(value, str) else value


def within_ranges(facet: Facet) -> list[FieldFilter]:
    """The filters that the ranges of a facet stand for."""
    return [
        Range(field=facet.field, op="range", value=bounds)
        if isinstance(bounds, Bounds)
        else DateRange(field=facet.field, op="date_range", value=bounds)
        for bounds in facet.ranges or ()
    ]


def _by_count(facet: Facet) -> bool:
    """True if its commonest values are enough."""
    return facet.order == "count" and facet.prefix is None


def _show_values(facet: Facet, counts: Mapping[str | int, int], cut: bool, exact: bool) -> Shown:
    """The values of the counts; `cut`: there may be others."""
    start = nfc(facet.prefix).casefold() if facet.prefix is not None else ""
    merged = Counter[str | int]()
    for value, count in counts.items():
        merged[_normalise(value)] += count
    fitting = [
        (value, count)
        for value, count in merged.items()
        if not start or (isinstance(value, str) and value.casefold().startswith(start))
    ]
    by_value = sorted(fitting, key=lambda each: (isinstance(each[0], str), each[0]))
    ordered = sorted(by_value, key=lambda each: -each[1]) if facet.order == "count" else by_value
    values = [{"value": value, "count": count} for value, count in ordered[: facet.limit]]
    exact = exact and (not cut or _by_count(facet))
    return {"field": facet.field, "values": values, "more": cut or len(fitting) > facet.limit, "exact": exact}


def _show_ranges(facet: Facet, counts: Sequence[int], *, exact: bool) -> Shown:
    given = [
        each.given if isinstance(each, Bounds) else {name: rfc3339(time) for name, time in each.given.items()}
        for each in facet.ranges or ()
    ]
    ranges = [{"bounds": bounds, "count": count} for bounds, count in zip(given, counts, strict=True)]
    return {"field": facet.field, "ranges": ranges, "more": False, "exact": exact}
