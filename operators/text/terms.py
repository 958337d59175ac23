"""Terms of the keyword leg, and trigrams: sparse vectors.

By trigrams, runs of three characters, a misspelt word is like the right one.

Rules of trigrams:
- Words of three letters or more have trigrams, and only words without a digit: an identifier has no near one. Nor
  have the pairs of characters of scripts without spaces.
- A word is read in small letters of usual width without accents, with a space at both ends: ` torch ` has ` to`, `tor`,
  `orc`, `rch` and `ch `.
- A trigram's id is its CRC-32. A text has each trigram once.
- In a document a trigram weighs, summed over the fields that have it, the field's weight, of which the greatest is 1, /
  √(trigrams of the field): a title says more than a long text, and no document is like all words because it is long.
  In a query each weighs 1 / √(trigrams of the query). So the score in one field is the cosine.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from zlib import crc32

from operators.text.analysis import analyse
from operators.text.folding import fold_accents, fold_umlauts
from operators.text.words import is_spelt


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


READ_AS: Final = " ~ "
"""Stands in the name of a word that was read for others, which no word has: `screwdrivr ~ screwdriver`."""


def query_vector(words: Iterable[QueryWord]) -> SparseVector | None:
    """The terms of a query, each with the weight of its word; None if it has none."""
    weights: dict[int, float] = {}
    for word in words:
        for term in word.terms if word.weight else ():
            weights[term] = max(weights.get(term, 0.0), word.weight)
    terms = sorted(weights)
    return SparseVector(terms, [weights[term] for term in terms]) if terms else None


LONGEST_SPELT: Final = 32
"""Characters of a word that are read."""

MOST_TRIGRAMS: Final = 128
"""Trigrams of a query at most: those of its first words."""


def trigrams(words: Iterable[str]) -> Iterable[str]:
    """The trigrams of words, each once, in their order."""
    found: dict[str, None] = {}
    for word in dict.fromkeys(map(fold_accents, words)):
        if is_spelt(word):
            padded = f" {word[:LONGEST_SPELT]} "
            found.update(dict.fromkeys(padded[start : start + 3] for start in range(len(padded) - 2)))
    return found


def trigrams_of_query(asked: Iterable[str]) -> SparseVector:
    """The trigrams of a query's words, with `ae`, `oe` and `ue` as written and as German umlauts."""
    spelt = (each for word in asked for each in (word, fold_umlauts(word)))
    ids = sorted({_id(each) for each, _ in zip(trigrams(spelt), range(MOST_TRIGRAMS), strict=False)})
    return SparseVector(ids, [1 / math.sqrt(len(ids)) for _ in ids])


def trigrams_of_document(fields: Sequence[tuple[str, float]]) -> SparseVector:
    """The trigrams of a document's fields, which are texts with a weight each."""
    weights: dict[int, float] = defaultdict(float)
    greatest = max(weight for _, weight in fields)
    for text, weight in fields:
        words = (token.text for token in analyse(text, query=False) if token.is_word)
        found = {_id(each) for each in trigrams(words)}
        for id_ in found:
            weights[id_] += weight / greatest / math.sqrt(len(found))
    ids = sorted(weights)
    return SparseVector(ids, [weights[id_] for id_ in ids])


def _id(trigram: str) -> int:
    return crc32(trigram.encode())
