"""Hits: what one search found."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Hits(NamedTuple):
    """The points that a search found, best first, as columns: ids, finite scores, the payload fields asked for, and
    the points' versions where the answer says them.

    Columns, because an object a hit costs more than everything else that is done with it.
    """

    ids: list[str]
    scores: list[float]
    payloads: list[Mapping[str, Any]]
    versions: Sequence[int] = ()
