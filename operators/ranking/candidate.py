"""Candidates: documents that at least one leg offered.

A leg's hits are kept as columns, and a candidate is as small as it can be: this is where a query's own time goes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from schemas.errors import Reason
from schemas.result import LegStatus

VECTOR: Final = "vector"
KEYWORD: Final = "keyword"

CONTENT: Final = "_content"
"""The payload key of a document's content fingerprint (see `dedupe`)."""

Payload = Mapping[str, Any]

_ORDER: Final = {VECTOR: 0, KEYWORD: 1}


@dataclass(frozen=True, slots=True)
class Leg:
    """What one leg answered, best first: ids, the leg's own finite scores, and what ranking asked of the payloads."""

    name: str
    status: LegStatus
    ids: Sequence[str] = ()
    scores: Sequence[float] = ()
    payloads: Sequence[Payload] = ()
    reason: Reason | None = None

    def places(self) -> dict[str, tuple[int, float]]:
        """Each id's rank, from 0, and score; an id that the leg returned twice counts at its first rank."""
        places: dict[str, tuple[int, float]] = {}
        for rank, (id_, score) in enumerate(zip(self.ids, self.scores, strict=True)):
            places.setdefault(id_, (rank, score))
        return places


@dataclass(slots=True)
class Candidate:
    """One document and its score so far."""

    id: str
    score: float
    payload: Payload = field(default_factory=dict)


def in_order(legs: Sequence[Leg]) -> list[Leg]:
    """Legs in the order in which ties are broken: vector, keyword, others by name."""
    return sorted(legs, key=lambda leg: (_ORDER.get(leg.name, len(_ORDER)), leg.name))
