"""Nearness: which words of texts a word of a query may mean that no document has as it is written.

Rules:
- A misspelt word is one edit away from the one that was meant, and from LONG letters on two. An edit is a letter that
  is missing, superfluous or another one, or two neighbours that are transposed (optimal string alignment). It begins
  with the same letter, unless the first two are transposed. Less than SPELT letters are like too many other words, and
  so is another letter among as many: `shown` is no misspelt `shows`.
- A part of a compound means the compound: `Mütze` is meant by `Strickmütze`, and `Dübel` by `Dübelset`. The end of one
  has HEAD letters or more, its beginning SPELT, and REST are left. A part is written as it should be: it has no edit.
- A compound means its two parts where one text has both, each of HEAD letters or more, and inflected or not:
  `Theaterkasse` the words of `Kasse des Theaters`. They are two words of the query then.
- Of all words that are near those with the fewest edits are meant.
- Words are compared in small letters without accents; a query's word once more with `ae`, `oe` and `ue` as umlauts.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from operators.text.folding import fold, fold_accents, fold_umlauts
from operators.text.measures import HEAD, REST, stems_of
from operators.text.terms import READ_AS, QueryWord

SPELT: Final = 5
"""Letters of the shortest word that an edit makes another one."""

LONG: Final = 9
"""Letters from which on two edits do."""

_CHUNK: Final = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_SIGN: Final = re.compile("['-]")


def may_be_near(word: str) -> bool:
    """True for a word that others may be near to: of letters alone, and not too short."""
    return len(word) >= HEAD and word.isalpha()


def read_near(
    unknown: Iterable[QueryWord], texts: Iterable[str], terms: Callable[[str], Sequence[int]]
) -> dict[str, Sequence[QueryWord]]:
    """A reading for each unknown word that words of the texts are near to: words that have their terms, and name them.

    It is one word, or of a compound one for each part.
    """
    written = [_find_words(text) for text in texts]
    known = {each: plain for words in written for each, plain in words.items()}
    readings: dict[str, Sequence[QueryWord]] = {}
    for word in unknown:
        plain, german = fold_accents(word.text), fold_umlauts(word.text)
        edits = {each: count_edits(plain, other) for each, other in known.items()}
        if german != word.text:
            edits |= {each: count for each in known if (count := count_edits(german, each)) is not None}
        near: dict[int, dict[tuple[int, ...], str]] = {}
        for each, count in edits.items():
            if count is not None and (its := tuple(terms(each))):
                near.setdefault(count, {}).setdefault(its, each)
        read = [near[min(near)]] if near else []
        if 0 not in near:
            read = [{tuple(terms(each)): each} for each in _find_parts((plain, fold_accents(german)), written)] or read
        if read:
            readings[word.text] = [
                word._replace(
                    text=f"{word.text}{READ_AS}{' '.join(meant.values())}",
                    terms=tuple(dict.fromkeys(term for its in meant for term in its)),
                )
                for meant in read
            ]
    return readings


def replace(words: Sequence[QueryWord], readings: Mapping[str, Sequence[QueryWord]]) -> list[QueryWord]:
    """A query's words with the readings of the unknown ones; the parts of a compound are atoms side by side."""
    more = {word.first: len(readings[word.text]) - 1 for word in words if word.text in readings}
    replaced = []
    for word in words:
        first, end = (at + sum(more[one] for one in more if one < at) for at in (word.first, word.first + word.atoms))
        read = readings.get(word.text) or [word._replace(atoms=end - first)]
        replaced += [each._replace(first=first + place) for place, each in enumerate(read)]
    return replaced


def _find_words(text: str) -> dict[str, str]:
    """The words of letters in a text, and each without its accents."""
    found: dict[str, str] = {}
    for chunk in _CHUNK.findall(fold(text).text.lower()):
        # Words that a sign joins are one more word, as in the index.
        for each in (chunk,) if chunk.isalnum() else (_SIGN.sub("", chunk), *_SIGN.split(chunk)):
            if each.isalpha():
                found[each] = fold_accents(each)
    return found


def _find_parts(spellings: Sequence[str], written: Iterable[Mapping[str, str]]) -> Sequence[str]:
    """The two words that make a compound, of the first text that has both; none if no text has."""
    ends = [(word[:at], word[at:]) for word in spellings for at in range(HEAD, len(word) - HEAD + 1)]
    within = " ".join(spellings)
    for words in written:
        # Few words begin like a part of it, and only these are cut to their stems.
        able = ((each, plain) for each, plain in words.items() if len(plain) >= HEAD and plain[:REST] in within)
        stems = {stem: each for each, plain in able for stem in stems_of(plain)}
        for both in ends:
            found = [max(stems_of(part) & stems.keys(), key=len, default="") for part in both]
            if all(found):
                return [stems[stem] for stem in found]
    return []


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
