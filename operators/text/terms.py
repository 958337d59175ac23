"""Terms of the keyword leg: sparse vectors, and the rarity of terms where Qdrant's own count isn't to be used."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from operators.text.words import split


@dataclass(frozen=True, slots=True)
class SparseVector:
    """A sparse vector: ascending term ids without repeats, and a weight each."""

    indices: list[int]
    values: list[float]


def terms_by_word(text: str, analyse: Callable[[str], SparseVector | None]) -> dict[str, Sequence[int]]:
    """The terms of each word that has some, by the word in lower case; `analyse` makes the terms of a text."""
    written: dict[str, str] = {}
    for word in split(text):
        # It is analysed as it is written: the small form of `İ` holds an accent that would cut the word.
        written.setdefault(word.lower(), word)
    read = ((lower, analyse(word)) for lower, word in written.items())
    return {lower: terms.indices for lower, terms in read if terms is not None}


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
