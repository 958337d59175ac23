"""Paging: which part of what was found is this page, and where the next one begins.

Records of one order value go by id, ascending. The index gives no such promise: what it returns is put in order, and of
a value whose records were not all returned, they are asked for by id.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from operators.query.cursor import After

OrderValue = int | float | None

MOST_SEEN: Final = 10_000
"""Records of one order value that a lookup passes over: each page asks for all of them again."""


class Turn(NamedTuple):
    """A page of an ordered lookup: `first` to `last` (not in it) of what came back, and whether there is `more`.

    `ends` has for each record of the page where a page that ends with it goes on.
    """

    first: int
    last: int
    ends: list[After]
    more: bool


def wanted(after: After, limit: int) -> int:
    """How many records a lookup asks for: those at its first value that were given already, a page, and one more.

    An ordered lookup can only begin at a value, not behind a record.
    """
    return after.seen + limit + 1


def cut(values: Sequence[OrderValue], asked: int) -> int | None:
    """Where the records begin of whose value there may be more, if one of them is before the last; None if nowhere.

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


def turn(values: Sequence[OrderValue], after: After, limit: int) -> Turn:
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
    return Turn(first, last, ends, last < len(values))
