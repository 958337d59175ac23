"""Analysis: the words of a text as BM25 counts them, and the identifiers in it.

Rules
-----
- Full-width and half-width forms are those of usual width: `ＷＨ` is WH, `ｶﾞ` is ガ. Ligatures such as `ﬁ` are their
  letters. Characters that nobody sees, such as soft hyphens, are left out. The × between two digits is x. All else
  stays as it is written.
- Chinese, Japanese, Thai, Lao, Khmer, Burmese and Korean become overlapping pairs of characters, Korean of syllables. A
  vowel sign belongs to its letter; marks that separate words for the engine, such as tones, are left out.
- German `ae`, `oe` and `ue` are umlauts, unless `ue` is behind a vowel or q, and `ß` is ss, as in Snowball's German
  stemmer. Turkish `İ` and `I` are the capitals of i and ı. Other languages may be read without accents.
- An identifier is made of words, one of which has a digit, by joining them: `WH-1000XM5` and `wh 1000 xm5` are
  wh1000xm5. A single word is none: its term is there.
- Hyphens and the signs / . _ + # join words. White space joins words with a digit and short words: in a document only
  those in capitals, units behind a number, and the x between two numbers, so that prose makes no identifiers.
- Only hyphens, white space and parentheses join two digits, and only in an identifier of LONG characters or more. So
  `10 5` is not 105, and decimals, prices, times, fractions and versions (`1.299`, `12:30`, `2/3`, `v1.2.3`) are not
  joined at all. Four or more numbers with full stops between are one, unless they are an IP address: `816.418.00.1` is
  816418001.
- A number of ZEROS digits or more behind leading zeros is an identifier without them.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from typing import Final, NamedTuple

from operators.text.words import WORD

LONG: Final = 7
"""Characters from which on an identifier may join two digits: seven are a telephone number, six two prices."""

ZEROS: Final = 5
"""Digits from which on leading zeros say nothing."""

LONGEST: Final = 32
"""Characters of an identifier at most."""

SPACED: Final = 5
"""Parts of an identifier at most that white space joins: an ISBN has five."""

SHORT: Final = 4
"""Letters of a word at most that white space joins to a number."""

ROW: Final = 8
"""Numbers side by side in a document at most: of a table's row only single parts are identifiers."""

MOST: Final = 64
"""Identifiers of a query at most: each is a term of its search."""

MOST_PAIRS: Final = 1024
"""Pairs of characters of a query at most."""

_WIDE: Final = re.compile("[\u3000\uff01-\uffef]+")
_TIMES: Final = re.compile(r"(?<=\d)([^\S\r\n]{0,2})\u00d7(?=[^\S\r\n]{0,2}\d)")
_RESPELT: Final[Mapping[str, str]] = {
    **dict.fromkeys("\u00ad\u200b\u2060\ufeff", ""),
    **{chr(place): unicodedata.normalize("NFKC", chr(place)) for place in range(0xFB00, 0xFB07)},
}
"""Characters that nobody sees, and Latin ligatures."""

_RARE: Final = re.compile(f"[{''.join(_RESPELT)}]")
_UNSPACED: Final = re.compile(
    "[\u3005-\u3007\u3041-\u3096\u3099-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
    "\u1100-\u11ff\u3131-\u318e\ua960-\ua97f\uac00-\ud7ff"
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecf\u0edc-\u0edf"
    "\u1780-\u17d3\u17dc-\u17dd\u1000-\u103f\u104c-\u108f\u109a-\u109f\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa7f]+"
)
_UMLAUTS: Final = {"ae": "ä", "oe": "ö", "ue": "ü"}
_DIGRAPH: Final = re.compile("ae|oe|(?<![aeiouyäöüq])ue")
_BEHIND_VOWEL: Final = re.compile("(?<=[aeiouyäöüq])ü")
_TURKISH: Final = str.maketrans("İI", "iı")
_ACCENTED: Final = re.compile("[\u00c0-\u024f\u0300-\u036f\u0386-\u04ff\u1e00-\u1fff]")
_LETTERS: Final[Mapping[str, str]] = {
    **dict(zip("ØøŁłĐđÐðŦŧĦħıЙйЎўЇї", "OoLlDdDdTtHhiЙйЎўЇї", strict=True)),
    **dict(zip("ÆæŒœÞþẞß", ("AE", "ae", "OE", "oe", "TH", "th", "SS", "ss"), strict=True)),
}
"""Letters with a stroke and the like, which Unicode does not divide, and Cyrillic ones that are no accented letters."""

_WORDS: Final = re.compile(WORD)
_HYPHENS: Final = "-\u2010\u2011\u2012\u2013\u2014\u2212"
_SIGN: Final = rf"(?:[{_HYPHENS}/._+#]|(?<=\d)[,:'\u2019](?=\d))"
_PART: Final = re.compile(rf"{WORD}(?:{_SIGN}{WORD})*+")
_DIGIT: Final = re.compile(r"\d")
_HYPHENATED: Final = re.compile(rf"\d[{_HYPHENS}]\d")
_DIVIDED: Final = re.compile(r"\d[/._+#,:'\u2019]\d")
_DOTTED: Final = re.compile(r"[0-9]+(?:\.[0-9]+){3,}")
_SPACE: Final = re.compile(r"[^\S\r\n]{1,2}")
_BRACKET: Final = re.compile(r"(?<=\d)(?:\)[^\S\r\n]{0,2}|[^\S\r\n]{0,2}\()(?=\d)")
_UNIT: Final = re.compile("[cdmk]?m|[mk]?g|[cdm]?l|k?wh?|k?v|m?ah|[mkg]?hz|[kmgt]b|nm|bar|psi|oz|lb")


_USUAL: Final = {0xFF01 + place: chr(0x21 + place) for place in range(94)} | {0x3000: " "}
_RUN: Final = re.compile(f"(?:{_UNSPACED.pattern[:-1]}|[\uff66-\uffdc])+")
_VOICED: Final = frozenset("\uff9e\uff9f")


@dataclass(frozen=True, slots=True)
class Analysed:
    """A text with its words divided as they are searched for, and its identifiers, in their order, repeats too.

    Each identifier has the number of words that it stands for.
    """

    text: str
    identifiers: Sequence[tuple[str, int]]


class Span(NamedTuple):
    """A word, a pair of characters, or an identifier, as it is searched for, and its place in the text.

    `words` is the number of words that it stands for.
    """

    text: str
    start: int
    end: int
    words: int = 1


class _Part(NamedTuple):
    """Words that no white space divides, joined, and their number; `risky`: two digits were joined.

    `start` and `end` are their place.
    """

    text: str
    words: int
    risky: bool
    start: int
    end: int


def analyse(text: str, *, query: bool) -> Analysed:
    """The analysis of a document's text, or of a query's, which is bounded."""
    text = usual_form(text)
    found = identifiers(text, query=query)
    return Analysed(pair(text, MOST_PAIRS if query else None), tuple(islice(found, MOST) if query else found))


def usual_form(text: str) -> str:
    """The text in usual width, without ligatures and characters that nobody sees, and with x for × between digits."""
    if text.isascii():
        return text
    text = _TIMES.sub(r"\1x", _RARE.sub(lambda found: _RESPELT[found[0]], text))
    return _fold_width(text)


def _fold_width(text: str) -> str:
    if text.isascii() or _WIDE.search(text) is None:
        return text
    return unicodedata.normalize("NFC", _WIDE.sub(lambda run: unicodedata.normalize("NFKC", run[0]), text))


def fold_umlauts(text: str) -> str:
    """A German text in lower case with its umlauts as such, and without ß: `Fusskoerbe` and `Fußkörbe` are alike."""
    text = _BEHIND_VOWEL.sub("ue", text.lower().replace("ß", "ss"))
    return _DIGRAPH.sub(lambda found: _UMLAUTS[found[0]], text)


def lower_turkish(text: str) -> str:
    """A Turkish text with its letters i and ı in lower case, which another language's rules confuse."""
    return text.translate(_TURKISH)


def fold_accents(text: str) -> str:
    """The text without accents and strokes on Latin, Greek and Cyrillic letters; й, ў and ї stay, as others than и."""
    return text if text.isascii() else _ACCENTED.sub(lambda found: _base(found[0]), text)


def _base(character: str) -> str:
    if (letters := _LETTERS.get(character)) is not None:
        return letters
    return "".join(each for each in unicodedata.normalize("NFD", character) if not unicodedata.combining(each))


def pair(text: str, most: int | None = None) -> str:
    """The text with each run of a script without spaces as overlapping pairs, at most that many; None is no bound.

    A character that stands alone stays.
    """
    if text.isascii() or _UNSPACED.search(text) is None:
        return text
    left = most if most is not None else len(text)

    def pairs(run: re.Match[str]) -> str:
        nonlocal left
        letters = _letters(run[0])
        found = [f"{first}{second}" for first, second in pairwise(letters)] or letters
        kept = found[:left]
        left -= len(kept)
        return f" {' '.join(kept)} "

    return _UNSPACED.sub(pairs, text)


def _letters(run: str) -> list[str]:
    """The letters of a run, each with the vowel signs behind it."""
    letters: list[list[str]] = []
    for character in "".join(_WORDS.findall(run)):
        if letters and unicodedata.category(character).startswith("M"):
            letters[-1].append(character)
        else:
            letters.append([character])
    return list(map("".join, letters))


def spans(text: str, *, query: bool) -> Iterator[Span]:
    """The words, pairs of characters and identifiers of a text, with their places in the text as it is written."""
    usual, origins = _locate(text)
    return _move_back(chain(_word_spans(usual), _identifiers(_RUN.sub(_blank, usual), query=query)), origins)


def word_spans(text: str) -> Iterator[Span]:
    """The words and pairs of characters of a text, without its identifiers."""
    usual, origins = _locate(text)
    return _move_back(_word_spans(usual), origins)


def _locate(text: str) -> tuple[str, Sequence[int] | None]:
    """The text in usual forms but for half-width letters, and the place of each character; None if none has moved."""
    if text.isascii():
        return text, None
    origins = None
    if _RARE.search(text) is not None:
        read = [(letter, place) for place, written in enumerate(text) for letter in _RESPELT.get(written, written)]
        text, origins = "".join(letter for letter, _ in read), [place for _, place in read]
    return _TIMES.sub(r"\1x", text).translate(_USUAL), origins


def _move_back(found: Iterator[Span], origins: Sequence[int] | None) -> Iterator[Span]:
    if origins is None:
        return found
    return (span._replace(start=origins[span.start], end=origins[span.end - 1] + 1) for span in found)


def _word_spans(text: str) -> Iterator[Span]:
    end = 0
    for run in _RUN.finditer(text) if not text.isascii() else ():
        yield from _words(text, end, run.start())
        yield from _pairs(text, run.start(), run.end())
        end = run.end()
    yield from _words(text, end, len(text))


def is_unspaced(character: str) -> bool:
    """True for a character of a script that puts no spaces between words."""
    return not character.isascii() and _RUN.match(character) is not None


def _words(text: str, start: int, end: int) -> Iterator[Span]:
    return (Span(word[0], word.start(), word.end()) for word in _WORDS.finditer(text, start, end))


def _pairs(text: str, start: int, end: int) -> Iterator[Span]:
    letters: list[list[str]] = []
    places: list[tuple[int, int]] = []
    for place in range(start, end):
        character = text[place]
        word = _WORDS.fullmatch(character) is not None
        signs = unicodedata.category(character).startswith("M") or character in _VOICED
        if letters and (signs or not word):
            # A mark that separates words for the engine stays out of the term.
            letters[-1] += character if word else ""
            places[-1] = places[-1][0], place + 1
        elif word:
            letters.append([character])
            places.append((place, place + 1))
    folded = [Span(_fold_width("".join(letter)), *where) for letter, where in zip(letters, places, strict=True)]
    pairs = [Span(first.text + second.text, first.start, second.end) for first, second in pairwise(folded)]
    yield from pairs or folded


def _blank(run: re.Match[str]) -> str:
    return "|" * len(run[0])


def identifiers(text: str, *, query: bool) -> Iterator[tuple[str, int]]:
    """The identifiers of a text, in lower case, and how many words each joins; see the module's rules."""
    found = _identifiers(text if text.isascii() else _UNSPACED.sub(_blank, text), query=query)
    return ((each.text, each.words) for each in found)


def _identifiers(text: str, *, query: bool) -> Iterator[Span]:
    if _DIGIT.search(text) is None:
        return
    for row in _rows(text, query=query):
        most = 1 if not query and sum(part.text.isdecimal() for part in row) > ROW else SPACED
        for start in range(len(row)):
            for end in range(start + 1, min(start + most, len(row)) + 1):
                yield from _join(row[start:end])


def _rows(text: str, *, query: bool) -> Iterator[list[_Part]]:
    """The parts that white space may join, side by side."""
    row: list[_Part] = []
    end = 0
    for found in _PART.finditer(text):
        if row and not _is_joint(text, end, found.start()):
            yield row
            row = []
        end = found.end()
        words = _WORDS.findall(found[0])
        dotted = _is_dotted(found[0])
        if _joinable(words, row, query=query) and (dotted or _DIVIDED.search(found[0]) is None):
            risky = dotted or _HYPHENATED.search(found[0]) is not None
            row.append(_Part("".join(words).lower(), len(words), risky, *found.span()))
        elif row:
            yield row
            row = []
    if row:
        yield row


def _is_joint(text: str, start: int, end: int) -> bool:
    """True for white space, and for a parenthesis of a telephone number."""
    if _SPACE.fullmatch(text, start, end) is not None:
        return True
    found = _BRACKET.match(text, start)
    return found is not None and found.end() == end


def _joinable(words: Sequence[str], row: Sequence[_Part], *, query: bool) -> bool:
    """True if these words may be in an identifier, behind the row's parts."""
    if len(words) > 1 or _DIGIT.search(words[0]):
        return any(map(_DIGIT.search, words))
    if len(words[0]) <= SHORT and (query or words[0].isupper()):
        return True
    return (
        bool(row)
        and row[-1].text[-1].isdecimal()
        and (words[0] == "x" or _UNIT.fullmatch(words[0].lower()) is not None)
    )


def _is_dotted(text: str) -> bool:
    """True for four or more numbers with full stops between that are no IP address."""
    if _DOTTED.fullmatch(text) is None:
        return False
    numbers = text.split(".")
    # Python refuses to read a number of thousands of digits.
    return len(numbers) > 4 or any(
        len(number) > 3 or int(number) > 255 or (number[0] == "0" and len(number) > 1) for number in numbers
    )


def _join(parts: Sequence[_Part]) -> Iterator[Span]:
    """The identifiers that these parts make, all together."""
    text = "".join(part.text for part in parts)
    words = sum(part.words for part in parts)
    if len(text) > LONGEST or _DIGIT.search(text) is None:
        return
    risky = any(part.risky for part in parts) or any(
        first.text[-1].isdecimal() and second.text[0].isdecimal() for first, second in pairwise(parts)
    )
    if risky and len(text) < LONG:
        return
    if words > 1:
        yield Span(text, parts[0].start, parts[-1].end, words)
    if text[0] == "0" and text.isdecimal() and len(short := text.lstrip("0")) >= (ZEROS if words == 1 else LONG):
        yield Span(short, parts[0].start, parts[-1].end, words)
