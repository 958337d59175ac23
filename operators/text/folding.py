"""Folding: one form for characters that readers take for the same.

Rules
-----
- Compatibility forms are the usual ones (NFKC): `ＷＨ` is WH, `ﬁ` is fi, `CO₂` is CO2, `m²` is m2, `Ⅳ` is IV, `㎏` kg.
  `½` is 1/2. Digits of all scripts are 0 to 9. Characters that nobody sees are left out. The × between digits is x.
- Arabic is read without vowel signs and tatweel, its alef forms as ا, ة as ه and ى as ي; Hebrew without points; the
  Russian ё as е. Source: the Arabic normalisation of Apache Lucene; the rest is own.
- Accents and strokes on other Latin, Greek and Cyrillic letters are the analyser's to fold, by `fold_accents`.
- German `ae`, `oe` and `ue` are umlauts, unless `ue` is behind a vowel or q, and `ß` is ss, as in Snowball's German
  stemmer. Turkish `İ` and `I` are the capitals of i and ı.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

_TIMES: Final = re.compile(r"(?<=\d)([^\S\r\n]{0,2})\u00d7(?=[^\S\r\n]{0,2}\d)")
_SPELT: Final[Mapping[str, str]] = {
    **dict.fromkeys("\u00ad\u200b\u2060\ufeff\u0640", ""),
    **{chr(point): "" for point in (*range(0x64B, 0x660), 0x670)},
    **{chr(point): "" for point in range(0x591, 0x5C8) if unicodedata.category(chr(point)) == "Mn"},
    **dict(zip("أإآٱةىёЁ", "ااااهيеЕ", strict=True)),
}
"""Characters that nobody sees, and those by which a script spells the same word in two ways."""

_UMLAUTS: Final = {"ae": "ä", "oe": "ö", "ue": "ü"}
_DIGRAPH: Final = re.compile("ae|oe|(?<![aeiouyäöüq])ue")
_BEHIND_VOWEL: Final = re.compile("(?<=[aeiouyäöüq])ü")
_TURKISH: Final = str.maketrans("İI", "iı")
_ACCENTED: Final = re.compile("[\u00c0-\u024f\u0300-\u036f\u0386-\u04ff\u1e00-\u1fff]")
_STROKES: Final[Mapping[str, str]] = {
    **dict(zip("ØøŁłĐđÐðŦŧĦħıЙйЎўЇї", "OoLlDdDdTtHhiЙйЎўЇї", strict=True)),
    **dict(zip("ÆæŒœÞþẞß", ("AE", "ae", "OE", "oe", "TH", "th", "SS", "ss"), strict=True)),
}
"""Letters with a stroke and the like, which Unicode does not divide, and Cyrillic ones that are no accented letters."""


class Folded(NamedTuple):
    """A folded text, and where each of its characters begins and ends as written; None if none has moved."""

    text: str
    places: Sequence[tuple[int, int]] | None

    def place(self, start: int, end: int) -> tuple[int, int]:
        """The place in the text as written of a part of the folded text that is not empty."""
        return (start, end) if self.places is None else (self.places[start][0], self.places[end - 1][1])


class _Forms(dict[int, str]):
    """The form of each character, by its code point, worked out when it is met."""

    def __missing__(self, point: int) -> str:
        form = self[point] = _form(chr(point))
        return form


def _form(character: str) -> str:
    if (known := _SPELT.get(character)) is not None:
        return known
    form = unicodedata.normalize("NFKC", character).replace("\u2044", "/")
    # A fraction behind a whole number, or a sign such as a trade mark's behind a word, is a word of its own.
    apart = unicodedata.decomposition(character).startswith("<fraction>") or unicodedata.category(character) == "So"
    digits = "".join(str(unicodedata.decimal(each, each)) for each in form)
    folded = "".join(_SPELT.get(each, each) for each in digits)
    return f" {folded}" if apart and folded != character else folded


_FORMS: Final = _Forms()
_VOICED: Final = re.compile("(?s:.[\uff9e\uff9f]|.)")
"""A character with the sound mark of half-width kana behind it, or any other one."""


def fold(text: str) -> Folded:
    """The text in its usual characters, with their places."""
    if text.isascii():
        return Folded(text, None)
    marked = "\uff9e" in text or "\uff9f" in text
    usual = _TIMES.sub(r"\1x", text)
    if not marked and len(folded := usual.translate(_FORMS)) == len(text):
        return Folded(folded, None)
    forms: list[str] = []
    places: list[tuple[int, int]] = []
    for found in _VOICED.finditer(usual):
        form = _FORMS[ord(found[0])] if len(found[0]) == 1 else unicodedata.normalize("NFKC", found[0])
        forms.append(form)
        places += [found.span()] * len(form)
    return Folded("".join(forms), places)


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
    if (letters := _STROKES.get(character)) is not None:
        return letters
    return "".join(each for each in unicodedata.normalize("NFD", character) if not unicodedata.combining(each))
