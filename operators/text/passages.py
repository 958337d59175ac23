"""Passages: the windows of a text that a query matches best, and the places of its words in them. Pure.

Rules:
- All offsets count code points.
- A word of the text, a part of it, or a form of several words matches if it has a term of the query, as the keyword leg
  has it. Stop words match nothing, unless the query has nothing else; pairs of characters match as whole terms.
- A passage is a run of whole sentences, of SIZE code points at most. A longer sentence is divided behind a comma or
  the like, else between words. Only a longer word is divided, and a character never loses its marks.
- The best passage has the most of the query's words. A word counts the more, the fewer of the text's sentences have it
  (the IDF of BM25, over sentences); repeats of a word count less and less. Of equal passages the first is the best.
- A further passage has words of the query, and no part of another one.
- Where no word matches, a model may have found the text by its sense. Then the hints of late interaction count as words
  do, by their weights, and are no highlights. Without any the one passage is the text's beginning.
- Highlights are whole words, in their order, and do not overlap.
- Of a text that is too long to be read, the part is read that has the most of the query's words as they are written.
"""

import math
import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, Self

from operators.text.analysis import Token, analyse, is_unspaced
from operators.text.terms import QueryWord
from operators.text.words import split_words

SIZE: Final = 300

_FEW: Final = 0.5
"""The number of repeats at which a word counts half of what it can."""

_STOP: Final = "[.!?\u2026\u203d\u061f\u06d4]"
_END: Final = re.compile(
    # Of a run of stops or of white space only the first can be a start: else the time grows with the run's square.
    f"(?:(?<!{_STOP})(?P<stop>{_STOP})|(?<={_STOP})[\u203d\u061f\u06d4])[.!?\u2026]*+[\"'\u2019\u201d\u00bb)\\]]*+(?=\\s)"
    "|[\u3002\uff01\uff1f\uff61\u0964\u0965\u104b\u17d4\u1362]+[\u300d\u300f\u201d\u2019\uff09\u300b]*"
    "|(?<![^\\S\n])[^\\S\n]*+\n\\s*+"
)
_CLAUSE: Final = re.compile(
    "[,;:\u060c\u061b\u3001\uff0c\uff1b\uff1a\u104a](?=\\s|[^\x00-\x7f])|[\u2013\u2014)](?=\\s)"
)
_ABBREVIATED: Final = re.compile(r"(?:^|[\s(.])\w$|(?:^|\n)[0-9]{1,3}$")
"""One letter, or the number of an entry at the beginning of a line: the stop behind it ends no sentence."""

_PLACES: Final = 32
"""Places of a word that are looked at: the first of them."""

_ENDING: Final = 3
"""Letters at the end of a query's word that may be others in a text."""

_JOINERS: Final = "\u200c\u200d"
_MARKS_BACK: Final = 32

Terms = Callable[[str], Collection[int]]
"""The terms of a word as the keyword leg has them."""


class TextPassage(NamedTuple):
    """A part of a text that begins at `start`; `highlights` are from and to in the passage."""

    text: str
    start: int
    highlights: Sequence[tuple[int, int]]

    def around(self, size: int) -> int:
        """The start of a part of `size` code points with the first highlight: the passage's start if it may be."""
        if not self.highlights or self.highlights[0][1] <= size:
            return self.start
        first, last = self.highlights[0]
        earliest = max(0, min(first, (first + last - size) // 2))
        words = (at for at in range(earliest, first) if is_bound(self.text, at) and _is_word(self.text[at]))
        return self.start + next(words, first)


class Hint(NamedTuple):
    """A part of a text that says something of what the query asks, by the weight of that."""

    start: int
    end: int
    weight: float


class _Match(NamedTuple):
    """A word of the text, and which of the query's words it is."""

    start: int
    end: int
    word: int


_Unit = tuple[int, int]


class _Window(NamedTuple):
    """The score of a run of units, whether the first has a word of the query, and the last one's number."""

    score: float
    begins: bool
    last: int


class Matcher:
    """Finds the words and forms of a query in texts; `terms` are those of the keyword leg, none of a stop word.

    `stop_words` are the terms by which a query that has nothing else is searched.
    """

    def __init__(self, query: Sequence[Token], terms: Terms, stop_words: Terms = lambda _: ()) -> None:
        self._weights: list[float] = []
        self._by_term: dict[int, int] = {}
        self._stems: list[str] = []
        self._known: dict[str, int | None] = {}
        self._found: dict[str, list[_Match]] = {}
        self._terms = terms
        self._read(query)
        if not self._weights:
            self._terms = stop_words
            self._read(query)

    def _read(self, query: Sequence[Token]) -> None:
        for token in query:
            found = self._terms(token.text)
            if not found or token.text in self._known:
                continue
            word = next((self._by_term[term] for term in found if term in self._by_term), len(self._weights))
            if word == len(self._weights):
                self._weights.append(float(token.atoms))
            self._known[token.text] = word
            self._stems.append(token.text[: max(_ENDING, len(token.text) - _ENDING)])
            self._by_term |= dict.fromkeys(found, word)

    def read(self, readings: Mapping[str, Sequence[QueryWord]]) -> Self:
        """Find what unknown words of the query were read for, too; `readings` has them by the unknown word."""
        for word, reading in readings.items():
            if (number := self._known.get(word)) is not None:
                self._by_term |= {term: number for part in reading for term in part.terms}
        return self

    def part(self, text: str, size: int) -> int:
        """The start of the part of a text, of `size` code points, that has the most of the query's words.

        The first of several; the text's beginning if it is short, or has no word.
        """
        if len(text) <= size:
            return 0
        small = text.lower()
        places = sorted(
            (found.start(), stem)
            for stem in self._stems
            for found in islice(re.finditer(re.escape(stem), small), _PLACES)
        )
        best, most = 0, 0
        for first, (start, _) in enumerate(places):
            reach = bisect_left(places, (start + max(1, size - SIZE),))
            if (count := len({stem for _, stem in places[first:reach]})) > most:
                best, most = max(0, start - SIZE // 2), count
        return next((at for at in range(best, min(best + SIZE, len(text))) if is_bound(text, at)), best)

    def matches(self, text: str) -> bool:
        """True if the text has a word of the query."""
        return bool(self._find(text))

    def passages(self, text: str, most: int, hints: Sequence[Hint] = ()) -> list[TextPassage]:
        """At most `most` passages of a text, the best first; a text to be seen has one at least.

        The `hints` count where the text has no word of the query.
        """
        highlights = matches = self._find(text)
        if not matches:
            matches = sorted(_Match(hint.start, hint.end, number) for number, hint in enumerate(hints))
        units = list(_units(text))
        unused = [True] * len(units)
        starts = [match.start for match in matches]
        by_unit = [Counter(m.word for m in matches[bisect_left(starts, a) : bisect_left(starts, b)]) for a, b in units]
        if not highlights:
            rarity = {number: hint.weight for number, hint in enumerate(hints)}
        else:
            in_units = Counter(word for words in by_unit for word in words)
            rarity = {
                word: self._weights[word] * math.log(1 + (len(units) - count + 0.5) / (count + 0.5))
                for word, count in in_units.items()
            }
        windows = [*_windows(units, unused, by_unit, rarity, range(len(units)))]
        found: list[TextPassage] = []
        while len(found) < most and any(unused):
            first = max(range(len(units)), key=lambda at: windows[at][:2])
            score, _, last = windows[first]
            if score <= 0 and found:
                break
            while first > 0 and unused[first - 1] and units[last][1] - units[first - 1][0] <= SIZE:
                first -= 1
            unused[first : last + 1] = [False] * (last + 1 - first)
            found.append(_passage(text, units[first][0], units[last][1], highlights))
            # Other windows have nothing of this one.
            near = range(bisect_left(units, (units[first][0] - SIZE,)), last + 1)
            windows[near.start : near.stop] = _windows(units, unused, by_unit, rarity, near)
        return found

    def _find(self, text: str) -> list[_Match]:
        if not self._weights:
            return []
        if (known := self._found.get(text)) is not None:
            return known
        matches = []
        for token in analyse(text, query=False):
            if token.text not in self._known:
                words = (self._by_term[term] for term in self._terms(token.text) if term in self._by_term)
                self._known[token.text] = next(words, None)
            if (word := self._known[token.text]) is not None:
                matches.append(_Match(token.start, token.end, word))
        self._found[text] = sorted(matches)
        return self._found[text]


def excerpt(text: str, start: int, size: int) -> str:
    """The text from `start` on, of `size` code points at most, up to the end of a word."""
    return text[start : _last_bound(text, start, start + size)].rstrip()


def is_bound(text: str, at: int) -> bool:
    """True if the text may be divided there: between words, or characters of a script that writes no spaces."""
    if not _is_between_characters(text, at):
        return False
    if at in (0, len(text)) or not _is_word(text[at]) or is_unspaced(text[at]):
        return True
    base = at - 1
    while base > max(0, at - _MARKS_BACK) and _extends(text[base]):
        base -= 1
    return not _is_word(text[base]) or is_unspaced(text[base])


def _is_between_characters(text: str, at: int) -> bool:
    """True unless a character would lose its marks there, an emoji its parts, or a line end its half."""
    if at in (0, len(text)):
        return True
    before, behind = text[at - 1], text[at]
    flags = "\U0001f1e6" <= before <= "\U0001f1ff" and "\U0001f1e6" <= behind <= "\U0001f1ff"
    joined = before == _JOINERS[1] and not behind.isspace()
    return not (_extends(behind) or joined or flags or (before == "\r" and behind == "\n"))


def _is_word(character: str) -> bool:
    return character.isalnum() or (not character.isascii() and bool(split_words(character)))


def _extends(character: str) -> bool:
    if character.isascii():
        return False
    return (
        unicodedata.category(character).startswith("M")
        or character in _JOINERS
        or character in "\u0e33\u0eb3\uff9e\uff9f"
        or "\u1160" <= character <= "\u11ff"
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or "\U000e0020" <= character <= "\U000e007f"
    )


def _last_bound(text: str, start: int, end: int) -> int:
    """The last bound up to `end`; within a word that is longer, the last one between characters, or the next."""
    if end >= len(text):
        return len(text)
    for test in (is_bound, _is_between_characters):
        for at in range(end, start, -1):
            if test(text, at):
                return at
    return next(at for at in range(end, len(text) + 1) if _is_between_characters(text, at))


def _units(text: str) -> Iterator[_Unit]:
    """The sentences of a text, without white space around them, and the parts of long ones."""
    start = 0
    for end in [*_ends(text), len(text)]:
        while end - start > SIZE:
            at = _last_bound(text, start, start + SIZE)
            clause = max((each.end() for each in _CLAUSE.finditer(text, start + SIZE // 2, at)), default=at)
            part = min(clause if is_bound(text, clause) else at, end)
            yield from _trim(text, start, part)
            start = part
        yield from _trim(text, start, end)
        start = end


def _ends(text: str) -> Iterator[int]:
    for found in _END.finditer(text):
        if not is_bound(text, found.end()):
            continue
        if found["stop"] == ".":
            behind = text[found.end() : found.end() + 2].strip()
            if behind.islower() or _ABBREVIATED.search(text, max(0, found.start() - 4), found.start()):
                continue
        yield found.end()


def _trim(text: str, start: int, end: int) -> Iterator[_Unit]:
    while start < end and text[start].isspace() and is_bound(text, start + 1):
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        yield start, end


def _windows(
    units: Sequence[_Unit],
    unused: Sequence[bool],
    by_unit: Sequence[Counter[int]],
    rarity: dict[int, float],
    firsts: range,
) -> Iterator[_Window]:
    """For each of the `firsts` the window that begins with it, as long as it may be; one that is used has none."""
    counts: Counter[int] = Counter()
    end = firsts.start
    for first in firsts:
        start = units[first][0]
        while end < len(units) and unused[end] and (end <= first or units[end][1] - start <= SIZE):
            for word, count in by_unit[end].items():
                counts[word] += count
            end += 1
        if end <= first:
            end = first + 1
            yield _Window(-1.0, False, first)
            continue
        score = math.fsum(rarity[word] * count / (count + _FEW) for word, count in counts.items())
        yield _Window(score, bool(by_unit[first]), end - 1)
        for word, count in by_unit[first].items():
            counts[word] -= count
            if not counts[word]:
                del counts[word]


def _passage(text: str, start: int, end: int, matches: Sequence[_Match]) -> TextPassage:
    highlights: list[tuple[int, int]] = []
    for match in matches:
        # The highlight before ends at a bound, so nothing within it makes it longer.
        known = start + highlights[-1][1] if highlights else start
        if match.start < start or match.end > end or match.end <= known:
            continue
        first, last = match.start, match.end
        while first > known and not is_bound(text, first):
            first -= 1
        while last < end and not is_bound(text, last):
            last += 1
        if highlights and first - start <= highlights[-1][1]:
            first, last = start + highlights[-1][0], max(last, start + highlights[-1][1])
            highlights.pop()
        highlights.append((first - start, last - start))
    return TextPassage(text[start:end], start, highlights)
