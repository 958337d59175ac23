"""The order of documents that follow one another in groups, as the messages of a conversation do.

Rules:
- A document with a title of its own stands by itself.
- Whole numbers that begin again in each group, and leave none out in it, are positions.
- Else the times of documents are, in groups by a field whose name says that they are conversations, if most documents
  follow the one before within a week: channels have quiet days.
- Of several fields that part documents, the one of the smallest groups does, and of equal ones the one people read.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from operators.mapping.formats import NEARLY_ALL
from operators.mapping.profile import IDENTIFIER, KEY, NUMBER, SHORT, FieldProfile

_GROUPED: Final = (SHORT, KEY, IDENTIFIER, NUMBER)
_CONVERSATIONS: Final = re.compile(
    r".*(?:conversation|channel|chat|dialog(?:ue)?|room|session|thread|ticket)[\W_]*(?:id|key|name|number|title)?",
    re.IGNORECASE | re.DOTALL,
)
"""Fields as columns: `channel`, `threadId`, `channel.name`; `ticket_type` tells no conversations apart."""

_REPLY: Final = re.compile(r"(?:(?:re|fwd?|aw|wg|sv|tr|rif)\s*:\s*)*", re.IGNORECASE)
"""Beginnings of the subject of an answer, or of a message that is passed on."""

_WHOLE: Final = re.compile(r"-?\d{1,18}", re.ASCII)
_LEAST: Final = 3
"""Documents of a group at least, on average."""

_WEEK: Final = 7 * 86_400.0


class DocumentOrder(NamedTuple):
    """The field that orders documents, and the one whose values part them; None: they are parted by namespace alone."""

    by: FieldProfile
    group: FieldProfile | None


def find_order(profiles: Sequence[FieldProfile], named: Mapping[str, FieldProfile]) -> DocumentOrder | None:
    """The order of the documents, if they follow one another. Of the fields with a role, only a time orders."""
    title = named.get("title")
    if (title is not None and not _is_subject(title)) or "text" not in named:
        return None
    others = [each for each in profiles if each.presence >= NEARLY_ALL and each not in named.values()]
    groups = [each for each in others if each.kind in _GROUPED and not each.listed and _is_shared(each)]
    groups.sort(key=lambda each: (each.distinct, each.is_read), reverse=True)
    positions = [each for each in groups if each.kind is NUMBER and each.index == "integer"]
    space = named.get("namespace")
    for order in positions:
        counted = {row: int(value) for row, value in order.rows.items() if _WHOLE.fullmatch(str(value))}
        for group in (*groups, *([None] if space is not None else [])):
            if group is not order and _follow(counted, (space, group), _count_up):
                return DocumentOrder(order, group)
    created = named.get("created_at")
    for group in groups if created is not None else ():
        if created and _CONVERSATIONS.fullmatch(group.column) and _follow(created.seconds, (space, group), _talk):
            return DocumentOrder(created, group)
    return None


def _is_shared(each: FieldProfile) -> bool:
    return each.distinct * _LEAST <= len(each.rows)


def _is_subject(title: FieldProfile) -> bool:
    """True for titles that messages share with those that they answer."""
    subjects = {_REPLY.sub("", str(each)).casefold() for each in title.rows.values()}
    return len(subjects) * _LEAST <= len(title.rows)


def _follow(
    positions: Mapping[int, float], parted: Sequence[FieldProfile | None], fits: Callable[[Sequence[float]], bool]
) -> bool:
    """True if nearly all documents are in a group whose positions fit, and groups are as large as conversations are."""
    groups: defaultdict[Hashable, list[float]] = defaultdict(list)
    for row, position in positions.items():
        groups[tuple(str(each.rows.get(row)) for each in parted if each is not None)].append(position)
    fitting = sum(len(each) for each in groups.values() if fits(sorted(each)))
    return fitting >= NEARLY_ALL * len(positions) and len(groups) * _LEAST <= len(positions)


def _count_up(positions: Sequence[float]) -> bool:
    return all(after - before == 1 for before, after in pairwise(positions))


def _talk(times: Sequence[float]) -> bool:
    return len(times) < _LEAST or 0 < median(_gaps(times)) <= _WEEK


def _gaps(times: Sequence[float]) -> Iterator[float]:
    return (after - before for before, after in pairwise(times))
