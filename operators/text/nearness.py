"""Nearness: which words of texts a word of a query may mean that no document has as it is written.

Rules:
- A misspelt word is one edit away from the one that was meant, and from LONG letters on two. An edit is a letter that
  is missing, superfluous or another one, or two neighbours that are transposed (optimal string alignment). It begins
  with the same letter, unless the first two are transposed. Less than SPELT letters are like too many other words, and
  so is another letter among as many: `shown` is no misspelt `shows`.
- A part of a compound means the compound: `Mütze` is meant by `Strickmütze`, and `Dübel` by `Dübelset`. The end of one
  has HEAD letters or more, its beginning SPELT, and REST are left. A part is written as it should be: it has no edit.
- Of all words that are near those with the fewest edits are meant.
- Words are compared in small letters without accents; a query's word once more with `ae`, `oe` and `ue` as umlauts.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from operators.text.folding import fold, fold_accents, fold_umlauts
from operators.text.terms import READ_AS, QueryWord

SPELT: Final = 5
"""Letters of the shortest word that an edit makes another one."""

LONG: Final = 9
"""Letters from which on two edits do."""

HEAD: Final = 4
REST: Final = 3

_CHUNK: Final = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_SIGN: Final = re.compile("['-]")


def may_be_near(word: str) -> bool:
    """True for a word that others may be near to: of letters alone, and not too short."""
    return len(word) >= HEAD and word.isalpha()


def read_near(
    unknown: Iterable[QueryWord], texts: Iterable[str], terms: Callable[[str], Sequence[int]]
) -> dict[str, QueryWord]:
    """A reading for each unknown word that words of the texts are near to: it has their terms, and names them."""
    chunks = {chunk: None for text in texts for chunk in _CHUNK.findall(fold(text).text.lower())}
    known: dict[str, str] = {}
    for chunk in chunks:
        # Words that a sign joins are one more word, as in the index.
        for each in (chunk,) if chunk.isalnum() else (_SIGN.sub("", chunk), *_SIGN.split(chunk)):
            if each.isalpha():
                known[each] = fold_accents(each)
    readings: dict[str, QueryWord] = {}
    for word in unknown:
        plain, german = fold_accents(word.text), fold_umlauts(word.text)
        edits = {each: count_edits(plain, other) for each, other in known.items()}
        if german != word.text:
            edits |= {each: count for each in known if (count := count_edits(german, each)) is not None}
        near: dict[int, dict[tuple[int, ...], str]] = {}
        for each, count in edits.items():
            if count is not None and (its := tuple(terms(each))):
                near.setdefault(count, {}).setdefault(its, each)
        if near:
            meant = near[min(near)]
            own = tuple(dict.fromkeys(term for its in meant for term in its))
            readings[word.text] = word._replace(text=f"{word.text}{READ_AS}{' '.join(meant.values())}", terms=own)
    return readings


def count_edits(word: str, other: str) -> int | None:
    """The edits that make a query's word the other one, 0 for a part of a compound; None if they are not near."""
    if len(other) >= len(word) + REST:
        part = other.endswith(word) or (len(word) >= SPELT and other.startswith(word))
        return 0 if part and len(word) >= HEAD else None
    most = 2 if len(word) >= LONG else 1 if min(len(word), len(other)) >= SPELT else 0
    if len(word) == len(other) == SPELT and sorted(word) != sorted(other):
        return None
    if abs(len(word) - len(other)) > most or (word[0] != other[0] and word[:2] != other[1::-1]):
        return None
    edits = _align(word, other)
    return edits if edits <= most else None


def _align(word: str, other: str) -> int:
    """The distance of two words by optimal string alignment."""
    before: list[int] = []
    row: list[int] = [*range(len(other) + 1)]
    for place, letter in enumerate(word, 1):
        above, row = row, [place]
        for at, each in enumerate(other, 1):
            edits = min(above[at] + 1, row[-1] + 1, above[at - 1] + (letter != each))
            if place > 1 and at > 1 and letter == other[at - 2] and word[place - 2] == each:
                edits = min(edits, before[at - 2] + 1)
            row.append(edits)
        before = above
    return row[-1]
