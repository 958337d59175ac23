"""Trigrams: words in runs of three characters, by which a misspelt word is like the right one.

Rules
-----
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
from typing import Final
from zlib import crc32

from operators.text.analysis import analyse
from operators.text.folding import fold_accents
from operators.text.terms import SparseVector
from operators.text.words import is_spelt

LONGEST: Final = 32
"""Characters of a word that are read."""

MOST: Final = 128
"""Trigrams of a query at most: those of its first words."""


def trigrams(words: Iterable[str]) -> Iterable[str]:
    """The trigrams of words, each once, in their order."""
    found: dict[str, None] = {}
    for word in dict.fromkeys(map(fold_accents, words)):
        if is_spelt(word):
            padded = f" {word[:LONGEST]} "
            found.update(dict.fromkeys(padded[start : start + 3] for start in range(len(padded) - 2)))
    return found


def trigrams_of_query(asked: Iterable[str]) -> SparseVector | None:
    """The trigrams of a query's words; None without any."""
    ids = sorted({_id(each) for each, _ in zip(trigrams(asked), range(MOST), strict=False)})
    return SparseVector(ids, [1 / math.sqrt(len(ids))] * len(ids)) if ids else None


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
