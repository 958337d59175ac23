"""Candidates: documents that at least one leg offered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from schemas.errors import Reason
from schemas.result import LegStatus

VECTOR: Final = "vector"
KEYWORD: Final = "keyword"

CONTENT: Final = "_content"
"""The payload key of a document's content fingerprint (see `dedupe`)."""


class Scored(Protocol):
    """One hit of a leg, best first in its list."""

    @property
    def id(self) -> str:
        """The document's point id."""
        ...

    @property
    def score(self) -> float:
        """The leg's own score, higher is better, finite."""
        ...

    @property
    def payload(self) -> Mapping[str, Any]:
        """What ranking asked for of the document's payload."""
        ...


@dataclass(frozen=True, slots=True)
class Leg:
    """What one leg answered."""

    name: str
    status: LegStatus
    hits: Sequence[Scored] = ()
    reason: Reason | None = None


@dataclass(slots=True)
class Candidate:
    """One document, its place in each leg that returned it as (rank from 0, raw score), and its score so far."""

    id: str
    score: float = 0.0
    legs: dict[str, tuple[int, float]] = field(default_factory=dict)
    payload: Mapping[str, Any] = field(default_factory=dict)


def pool(legs: Sequence[Leg]) -> list[Candidate]:
    """Every document that a leg returned, once: legs in the order vector, keyword, others by name, then by rank.

    An id that a leg returns twice counts at its first rank.
    """
    order = {VECTOR: 0, KEYWORD: 1}
    candidates: dict[str, Candidate] = {}
    for leg in sorted(legs, key=lambda leg: (order.get(leg.name, 2), leg.name)):
        for rank, hit in enumerate(leg.hits):
            candidate = candidates.get(hit.id)
            if candidate is None:
                candidate = candidates[hit.id] = Candidate(hit.id, payload=hit.payload)
            if leg.name not in candidate.legs:
                candidate.legs[leg.name] = (rank, hit.score)
    return list(candidates.values())
