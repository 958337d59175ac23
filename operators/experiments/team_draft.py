"""Team draft: two rankings become one list, in which each result is there for one of the two.

As captains choose players: in each round both rankings choose their best document that is not in the list yet, and a
coin says which is the first. So each has as many results as the other, to one: clicks can be counted by side.

The coins are hashes of the experiment and the query's id: a query that is computed again has the same list. The draft
is over the whole rankings, and the pages of a query are parts of it: their cursors carry it on.

Source: Radlinski, Kurup and Joachims, How does clickthrough data reflect retrieval quality?, CIKM 2008, algorithm 2.
"""

import hashlib
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, Self

from operators.experiments.impression import SIDES
from schemas.preference import Side

DRAFT: Final = struct.Struct(">4s8sQ")
"""The bytes of a draft in a cursor."""


class TeamDraft(NamedTuple):
    """The draft of one query: digests of the experiment's name and of the coins, and the first page's time in Kafka."""

    experiment: bytes
    seed: bytes
    issued_ms: int

    @classmethod
    def of(cls, experiment: str, query_id: str, issued_ms: int) -> Self:
        """The draft of a query in an experiment."""
        return cls(_digest(4, experiment), _digest(8, experiment, query_id), issued_ms)

    @classmethod
    def read(cls, written: bytes) -> Self:
        """The draft that `write` wrote."""
        return cls(*DRAFT.unpack(written))

    def write(self) -> bytes:
        """The draft in DRAFT.size bytes."""
        return DRAFT.pack(*self)

    def is_of(self, experiment: str) -> bool:
        """True if it is a draft of the experiment with this name."""
        return self.experiment == _digest(4, experiment)

    def is_within(self, share: float) -> bool:
        """True for this share of all queries."""
        return int.from_bytes(self.seed) < share * 2**64


def _digest(size: int, *texts: str) -> bytes:
    joined = "\0".join((f"{size}", *texts))
    return hashlib.blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=size).digest()


def team_draft(a: Sequence[str], b: Sequence[str], seed: bytes) -> dict[str, Side]:
    """The documents of both rankings in the draft's order, each with the side that chose it.

    It ends where one ranking has no further document: what is left of the other has no side, for none was against it.
    """
    rankings: dict[Side, Sequence[str]] = {"a": a, "b": b}
    coins = int.from_bytes(hashlib.shake_128(seed).digest((len(a) + len(b)) // 8 + 1))
    drafted: dict[str, Side] = {}
    ranks, sizes = {"a": 0, "b": 0}, {"a": 0, "b": 0}
    while True:
        for side, ranking in rankings.items():
            while ranks[side] < len(ranking) and ranking[ranks[side]] in drafted:
                ranks[side] += 1
            if ranks[side] == len(ranking):
                return drafted
        chooses: Side = "a" if sizes["a"] < sizes["b"] else "b"
        if sizes["a"] == sizes["b"]:
            chooses, coins = SIDES[coins & 1], coins >> 1
        drafted[rankings[chooses][ranks[chooses]]] = chooses
        sizes[chooses] += 1
