"""Answers of backends: embeddings of texts, hits of a search, pages of records, and a reranker's scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.errors import BackendError

UNREADABLE: Final = 0.25
"""The share of unknown letters from which on a model takes different texts for the same."""


@dataclass(frozen=True, slots=True)
class Embedding:
    """One text's vector and, from a model that gives them, its token vectors.

    `vector` has unit length, or is zero where the model finds no token in the text; shape (dimension,), float32.
    `tokens` has unit rows, shape (tokens, dimension), float32, without the special tokens; `token_ids` are their
    vocabulary ids. `directed`: there is a direction to search in, the vector is not zero and the text is readable.
    `unknown` is the share of letters and signs that the model does not know; `unknown_signs`: such as emoji.
    """

    vector: NDArray[np.float32]
    tokens: NDArray[np.float32] | None = None
    token_ids: tuple[int, ...] = ()
    unknown: float = 0.0
    unknown_signs: bool = False
    directed: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Look at the vector once: a query's legs ask several times."""
        object.__setattr__(self, "directed", self.readable and bool(self.vector.any()))

    @property
    def readable(self) -> bool:
        """True if the model knows enough of the text's letters."""
        return self.unknown < UNREADABLE


Scores = Mapping[str, float]
"""Point id -> relevance, higher is better. A candidate left out was judged irrelevant."""


class SomeScores(dict[str, float]):
    """Scores of candidates of which `refused`, point ids, have none: the reranker cannot read their texts."""

    def __init__(self, scores: Scores, refused: frozenset[str]) -> None:
        super().__init__(scores)
        self.refused = refused


class PartialScores(SomeScores):
    """Scores of which those of `unread`, a point id, and of the candidates behind it are `lost`."""

    def __init__(self, scores: Scores, unread: str, lost: BackendError, refused: frozenset[str] = frozenset()) -> None:
        super().__init__(scores, refused)
        self.unread = unread
        self.lost = lost


def refused_of(scores: Scores) -> frozenset[str]:
    """The point ids of the candidates whose texts the reranker cannot read."""
    return scores.refused if isinstance(scores, SomeScores) else frozenset()


def parse_point_id(identity: str) -> int | str:
    """An id as Qdrant wants it in filters and lookups: a hit's is a string even where the point's is an integer."""
    return int(identity) if identity.isascii() and identity.isdecimal() else identity


class Hits(NamedTuple):
    """The points that a search found, best first: ids, finite scores, the payload fields asked for, and the points'
    versions where the answer says them. An object a hit would cost more than everything else that is done with it.
    """

    ids: list[str]
    scores: list[float]
    payloads: list[Mapping[str, Any]]
    versions: Sequence[int] = ()

    def at(self, ranks: Sequence[int]) -> "Hits":
        """The hits of these ranks, in their order."""
        return Hits(
            [self.ids[rank] for rank in ranks],
            [self.scores[rank] for rank in ranks],
            [self.payloads[rank] for rank in ranks],
            [self.versions[rank] for rank in ranks] if self.versions else (),
        )

    def and_further(self, others: "Hits") -> "Hits":
        """These hits, and behind them those of the others that are not among them."""
        known = set(self.ids)
        new = others.at([rank for rank, id_ in enumerate(others.ids) if id_ not in known])
        ids, versions = self.ids + new.ids, [*self.versions, *new.versions]
        if len(versions) < len(ids):
            versions = []
        return Hits(ids, self.scores + new.scores, self.payloads + new.payloads, versions)


OrderValue = int | float | None
"""The value that orders a record, in the unit of its field's index: datetimes in microseconds."""


@dataclass(frozen=True, slots=True)
class Record:
    """A scroll's point; `vector` is the one that was asked for, None without it."""

    id: str
    payload: Mapping[str, Any]
    order_value: OrderValue
    vector: Any = None


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Records of one scroll, and the id where the next page begins: None at the end and in an ordered scroll."""

    records: list[Record]
    next_offset: str | None
