"""Grouping: one result a group, the documents of which have the same value in a field (field collapsing).

Rules:
- A group's key is a string, an integer or a boolean; a list of one element counts as that element. A document with any
  other value, or without the field, is a group of its own, without a key. Solr calls that the null policy `expand`.
- A string, an integer and a boolean are never the same key; 2.0 is the key 2, as it is in an index of integers.
- The first of a group's documents in the ranking's order stands for it. Groups are in the order of these, or, by a
  combination of the scores, best first; equal groups keep their order.
- A group has the candidates only: the index may hold more documents of it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from operators.ranking.candidate import Candidate, Payload, best_first
from schemas.filters import value_at
from schemas.query import GroupScore

Key = str | int | bool

_INT64: Final = 2**63


class Grouping(NamedTuple):
    """The wish for one result a group: by this field, with `size` documents of each group, ranked by `score`."""

    field: str
    size: int
    score: GroupScore


@dataclass(frozen=True, slots=True)
class CandidateGroup:
    """The candidates of one group, best first, and its key, None for a document that has none."""

    key: Key | None
    candidates: Sequence[Candidate]

    def best(self, score: GroupScore) -> Candidate:
        """The first candidate, with the group's score."""
        first, combine = self.candidates[0], _COMBINATIONS.get(score)
        return first if combine is None else replace(first, score=combine([one.score for one in self.candidates]))


def key_of(payload: Payload, field: str) -> Key | None:
    """The key of a document's group, by the path of a field; None for a group of its own."""
    value = value_at(payload, field)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        return None
    return value if isinstance(value, str | int) else None


def first_of_groups(payloads: Sequence[Payload], field: str) -> list[int]:
    """The places of the first document of each group, in their order."""
    first: dict[tuple[type, Key] | int, int] = {}
    for place, payload in enumerate(payloads):
        key = key_of(payload, field)
        first.setdefault(place if key is None else (type(key), key), place)
    return list(first.values())


def group(ranked: Sequence[Candidate], grouping: Grouping) -> tuple[list[Candidate], dict[str, CandidateGroup]]:
    """A candidate for each group with the group's score, best first, and each group by the id of that candidate."""
    members: dict[tuple[type, Key] | str, list[Candidate]] = {}
    for candidate in ranked:
        key = key_of(candidate.payload, grouping.field)
        place = candidate.id if key is None else (type(key), key)
        members.setdefault(place, []).append(candidate)
    of = ((place[1] if isinstance(place, tuple) else None, each) for place, each in members.items())
    groups = {each[0].id: CandidateGroup(key, each) for key, each in of}
    combined = [each.best(grouping.score) for each in groups.values()]
    return (combined if grouping.score == "max" else best_first(combined)), groups


def _mean(scores: Sequence[float]) -> float:
    return math.fsum(scores) / len(scores)


_COMBINATIONS: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {"sum": math.fsum, "avg": _mean}
"""Combinations that change the first document's score; by `max` it is the group's."""
