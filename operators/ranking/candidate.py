"""Candidates: documents that a leg offered. Hits are columns, for ranking takes most of a query's own CPU time."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, TypeVar

from schemas.errors import Reason
from schemas.result import LEGS, LegStatus

T = TypeVar("T")

Payload = Mapping[str, Any]

_ORDER = {name: place for place, name in enumerate(LEGS)}


@dataclass(frozen=True, slots=True)
class Leg:
    """One leg's hits, best first: ids, the leg's own finite scores, the payload fields that ranking reads, and the
    points' versions where they are known.

    `more`: it returned as many as it was asked for, so others may match.
    """

    name: str
    status: LegStatus
    ids: Sequence[str] = ()
    scores: Sequence[float] = ()
    payloads: Sequence[Payload] = ()
    versions: Sequence[int] = ()
    reason: Reason | None = None
    more: bool = False

    def ranks(self, wanted: Set[str] | None = None) -> dict[str, tuple[int, float]]:
        """Rank, from 0, and score of each wanted id, None: of all; an id that the leg returned twice has its first."""
        ranks = self._by_id(range(len(self.ids)))
        found = ranks if wanted is None else ranks.keys() & wanted
        return {id_: (rank := ranks[id_], self.scores[rank]) for id_ in found}

    def scores_by_id(self) -> dict[str, float]:
        """Each id's score, at its first rank."""
        return self._by_id(self.scores)

    def payloads_by_id(self) -> dict[str, Payload]:
        """Each id's payload, at its first rank."""
        return self._by_id(self.payloads)

    def _by_id(self, values: Sequence[T]) -> dict[str, T]:
        by_id = dict(zip(self.ids, values, strict=True))
        if len(by_id) < len(self.ids):
            # An id stands where it was first met; so shall its value.
            by_id.update(zip(reversed(self.ids), reversed(values), strict=True))
        return by_id

    def at(self, ranks: Sequence[int]) -> "Leg":
        """The leg with the hits of these ranks only."""
        ids, scores = [self.ids[rank] for rank in ranks], [self.scores[rank] for rank in ranks]
        payloads = [self.payloads[rank] for rank in ranks]
        versions = [self.versions[rank] for rank in ranks] if self.versions else ()
        return Leg(self.name, self.status, ids, scores, payloads, versions, self.reason, self.more)


def document(point_id: str, payload: Payload) -> str:
    """The id of a point's document: its own if the payload has it, else the point's."""
    own = payload.get("id")
    return own if isinstance(own, str) else point_id


@dataclass(slots=True)
class Candidate:
    """One document and its present score."""

    id: str
    score: float
    payload: Payload = field(default_factory=dict)

    @property
    def document(self) -> str:
        """The document's own id if the payload has it, else the point's id."""
        return document(self.id, self.payload)


def in_tie_order(legs: Sequence[Leg]) -> list[Leg]:
    """Legs in the order in which ties are broken: vector, keyword, structured, others by name. Source: own."""
    return sorted(legs, key=lambda leg: (_ORDER.get(leg.name, len(_ORDER)), leg.name))


def union(legs: Sequence[Leg]) -> dict[str, Payload]:
    """Every id that a leg offered, in the legs' order, with the payload of the first leg that has it."""
    payloads: dict[str, Payload] = {}
    for leg in legs:
        offered = leg.payloads_by_id()
        # The order and the payloads of what is there already stay.
        payloads = {**payloads, **offered, **payloads} if payloads else offered
    return payloads


def list_candidates(legs: Sequence[Leg]) -> list[Candidate]:
    """A candidate with score 0 for each document that a leg offered, in the legs' order."""
    return [Candidate(id_, 0.0, payload) for id_, payload in union(legs).items()]


_SCORE: Final = attrgetter("score")


def best_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Sort by score; equal scores keep their order. Source: memini's `search.FuseScores` and `search.RerankWith`."""
    # Stable in reverse, too.
    return sorted(candidates, key=_SCORE, reverse=True)


def best_first_by_id(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Sort by score; equal scores by the document's id, ascending. Source: BubbleFish Nexus' `query.HybridMerge`."""
    ranked = best_first(candidates)
    if len(set(map(_SCORE, ranked))) == len(ranked):
        return ranked
    # Few scores are equal, so only those are sorted by a second key.
    return [
        candidate
        for _, equal in groupby(ranked, key=_SCORE)
        for candidate in sorted(equal, key=lambda candidate: candidate.document)
    ]
