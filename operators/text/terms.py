"""Terms of the keyword leg: sparse vectors, and the rarity of terms where Qdrant's own count isn't to be used."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple


@dataclass(frozen=True, slots=True)
class SparseVector:
    """A sparse vector: ascending term ids without repeats, and a weight each."""

    indices: list[int]
    values: list[float]


class QueryWord(NamedTuple):
    """A word of a query, or a form beside its words, with its terms in all languages of the collection.

    `first` is the number of its first atom in the query, and `atoms` is how many atoms it covers. `weight` is its
    weight in the keyword leg, 0 for what is evidence alone.
    """

    text: str
    terms: Sequence[int]
    first: int
    atoms: int
    weight: float = 1.0


def query_vector(words: Iterable[QueryWord]) -> SparseVector | None:
    """The terms of a query, each with the weight of its word; None if it has none."""
    weights: dict[int, float] = {}
    for word in words:
        if word.weight:
            weights |= {term: max(weights.get(term, 0.0), word.weight) for term in word.terms}
    terms = sorted(weights)
    return SparseVector(terms, [weights[term] for term in terms]) if terms else None


NOTHING: Final[Mapping[str, Any]] = {"must": [{"has_id": []}]}
"""The filter that no document matches: over no documents, Qdrant's IDF of every term is ln 2."""

COUNTED: Final = 128
"""Terms of a search that are counted at most: each is one exact count, and a query of 8 KB has some 1,800."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """The documents that `where` matches, None is all; `namespace` is the tenant that asks.

    `watermark` is how far they are indexed, None if that isn't known.
    """

    where: Mapping[str, Any] | None
    watermark: tuple[str, ...] | None
    namespace: str = ""


def most_telling(body: Mapping[str, Any]) -> Sequence[int]:
    """The terms of a search that are counted: all, or COUNTED of them.

    These have the smallest ids, which are hashes. So the sample is independent of the words, and it is the same on each
    page and in each replica, unlike the terms whose counts a cache knows.
    """
    indices: Sequence[int] = body["query"]["indices"]
    return indices if len(indices) <= COUNTED else sorted(indices)[:COUNTED]


def weigh(body: Mapping[str, Any], rarities: Mapping[int, float]) -> Mapping[str, Any]:
    """The search with each term weighed by its known rarity, in place of Qdrant's count.

    A term of unknown rarity gets the mean of the others, as a sample estimates it.
    """
    terms = body["query"]
    mean = math.fsum(rarities.values()) / len(rarities)
    rarity = (rarities.get(term, mean) for term in terms["indices"])
    # Qdrant's factor can't be left out; over no documents it is the same for all terms, and is divided out.
    values = [value * each / math.log(2) for value, each in zip(terms["values"], rarity, strict=True)]
    return {**body, "query": {**terms, "values": values}, "params": {"idf": {"corpus": NOTHING}}}
