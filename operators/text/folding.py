"""Folding: one form for characters, numbers and sizes that readers take for the same.

Rules:
- Compatibility forms are the usual ones (NFKC): `ＷＨ` is WH, `ﬁ` is fi, `CO₂` is CO2, `m²` is m2, `Ⅳ` is IV, `㎏` kg.
  `½` is 1/2, and `10²` is 10 2. Digits of all scripts are 0 to 9. Characters that nobody sees are left out, and accents
  that no letter has as its own, such as stress marks. The × between digits is x.
- Hyphens and dashes are -, apostrophes and what people type for them are ', inches are ".
- Arabic is read without vowel signs and tatweel, its alef forms as ا, ة as ه and ى as ي, and the Persian ی and ک as ي
  and ك; Hebrew without points; the Russian ё as е. Source: the Arabic and Persian normalisation of Apache Lucene; the
  rest is own.
- Accents and strokes on other Latin, Greek and Cyrillic letters are the analyser's to fold, by `fold_accents`.
- German `ae`, `oe` and `ue` are umlauts, unless `ue` is behind a vowel or q, and `ß` is ss, as in Snowball's German
  stemmer. Turkish `İ` and `I` are the capitals of i and ı; elsewhere `İ` is I.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

_TIMES: Final = re.compile(r"(?<=\d)([^\S\r\n]{0,2})\u00d7(?=[^\S\r\n]{0,2}\d)")
_SPELT: Final[Mapping[str, str]] = {
    **dict.fromkeys("\u00ad\u200b\u2060\ufeff\u0640", ""),
    # The one accent of these that is a letter to the engine, and those behind it, stay.
    **{chr(point): "" for point in range(0x300, 0x363) if point != 0x345},
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
    **dict.fromkeys("\u00b4\u02bb\u02bc\u2018\u2019\u2032", "'"),
    **dict.fromkeys("\u201d\u2033", '"'),
    "\u2026": ";",
    # One vowel each, which Unicode divides into a sign and a letter.
    **{each: each for each in "\u0e33\u0eb3"},
    **{chr(point): "" for point in (*range(0x64B, 0x660), 0x670)},
    **{chr(point): "" for point in range(0x591, 0x5C8) if unicodedata.category(chr(point)) == "Mn"},
    **dict(zip("أإآٱةىیک\u066b\u066cёЁİ", "ااااهييك.,еЕI", strict=True)),
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
    spans: Sequence[tuple[int, int]] | None

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """The place in the text as written of a part of the folded text that is not empty."""
        return (start, end) if self.spans is None else (self.spans[start][0], self.spans[end - 1][1])


class _Forms(dict[int, str]):
    """The form of each character, by its code point, worked out when it is met."""

    def __missing__(self, point: int) -> str:
        character = chr(point)
        form = _SPELT.get(character)
        if form is None:
            usual = unicodedata.normalize("NFKC", character).replace("\u2044", "/")
            digits = "".join(str(unicodedata.decimal(each, each)) for each in usual)
            form = "".join(_SPELT.get(each, each) for each in digits)
            # A fraction behind a whole number, or a sign such as a trade mark's behind a word, is a word of its own.
            fraction = unicodedata.decomposition(character).startswith("<fraction>")
            if form != character and (fraction or unicodedata.category(character) == "So"):
                form = f" {form}"
        self[point] = form
        return form


_FORMS: Final = _Forms()
_RAISED: Final = "\u00b2\u00b3\u00b9\u2070\u2074\u2075\u2076\u2077\u2078\u2079"
_SOUNDS: Final = "\uff9e\uff9f"
_PIECE: Final = re.compile(f"[\\0-\x7f]+|(?P<raised>(?<=\\d)[{_RAISED}])|(?s:.[{_SOUNDS}]|.)")
"""A run of ASCII, a raised digit, or a character, with the sound mark of half-width kana behind it."""


def fold(text: str) -> Folded:
    """The text in its usual characters, with their places."""
    if text.isascii():
        return Folded(text, None)
    characters = {*text}
    if characters.isdisjoint(_RAISED + _SOUNDS) and all(len(_FORMS[ord(each)]) == 1 for each in characters):
        return Folded(_TIMES.sub(r"\1x", text.translate(_FORMS)), None)
    forms: list[str] = []
    spans: list[tuple[int, int]] = []
    for found in _PIECE.finditer(text):
        piece, (start, end) = found[0], found.span()
        if piece.isascii():
            forms.append(piece)
            spans += zip(range(start, end), range(start + 1, end + 1), strict=True)
            continue
        form = unicodedata.normalize("NFC", "".join(_FORMS[ord(each)] for each in piece))
        forms.append(f" {form}" if found["raised"] else form)
        spans += [(start, end)] * len(forms[-1])
    return Folded(_TIMES.sub(r"\1x", "".join(forms)), spans)


def fold_umlauts(text: str) -> str:
    """A German text in lower case with its umlauts as such, and without ß: `Fusskoerbe` and `Fußkörbe` are alike."""
    text = _BEHIND_VOWEL.sub("ue", text.lower().replace("ß", "ss"))
    return _DIGRAPH.sub(lambda found: _UMLAUTS[found[0]], text)


def lower_turkish(text: str) -> str:
    """A Turkish text in lower case: i and ı are two letters, which another language's rules confuse."""
    return text.translate(_TURKISH).lower()


def fold_accents(text: str) -> str:
    """The text without accents and strokes on Latin, Greek and Cyrillic letters; й, ў and ї stay, as others than и."""
    return text if text.isascii() else _ACCENTED.sub(lambda found: _base(found[0]), text)


def _base(character: str) -> str:
    if (letters := _STROKES.get(character)) is not None:
        return letters
    return "".join(each for each in unicodedata.normalize("NFD", character) if not unicodedata.combining(each))


NUMBER: Final = (
    r"(?:(?<!\d,)\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?:\.\d{3})+,\d+|\d+(?:\.\d+)++|(?<!\d,)\d+,\d+(?!,?\d)"
    r"|(?<![\d/])\d{1,2}/\d{1,2}(?![\d/])|\d+)"
)
"""A regular expression that matches one number: with a decimal point or comma, in dotted groups, or a fraction."""

_THOUSANDS: Final = re.compile(r"(?:\d+(?:,\d{3})+\.\d+|\d+(?:\.\d{3})+,\d+)")
_LONGEST: Final = 18
"""Characters of a number at most that is read as a value."""

_SPELLINGS: Final = (
    "mm millimeter millimetre millimètre; cm centimeter centimetre zentimeter centimètre; dm; m meter metre mètre;"
    " km kilometer kilometre kilomètre; um \u03bcm; nm; in inch zoll pouce; ft foot feet;"
    " mm2; cm2; m2 sqm qm; cm3 ccm; m3; ml milliliter millilitre; cl; dl; l ltr liter litre;"
    " mg milligram milligramm milligramme; g gr gram gramm gramme; kg kilo kilogram kilogramm kilogramme; lb pound;"
    " oz ounce; w watt; kw kilowatt; wh; kwh; v volt; kv; a amp ampere ampère; ma; mah; ah;"
    " hz hertz; khz kilohertz; mhz megahertz; ghz gigahertz;"
    " kb kilobyte; mb megabyte mo; gb gigabyte go; tb terabyte to;"
    " kib kibibyte; mib mebibyte; gib gibibyte; tib tebibyte; bar; psi; db decibel; h hour stunde stunden heure;"
    " min minute minuten; day day tag tage tagen jour; week week woche wochen semaine;"
    " month month monat monate monaten mois; year year jahr jahre jahren ans année; deg degree grad degré;"
    " degf fahrenheit"
)
UNITS: Final[Mapping[str, str]] = {
    name: sign
    for sign, *names in map(str.split, _SPELLINGS.split(";"))
    for name in (sign, *names, *(f"{each}{'es' if each.endswith('ch') else 's'}" for each in names))
}
"""Names of units, English, German and French, in one number and many, and the sign of each."""

_SIZE: Final = re.compile(rf"\d[\d./]*(?:{'|'.join(UNITS)})")

_METRIC: Final = {
    **{sign: ("m", Decimal(factor)) for sign, factor in (("mm", "0.001"), ("cm", "0.01"), ("dm", "0.1"))},
    **{sign: ("kg", Decimal(factor)) for sign, factor in (("mg", "0.000001"), ("g", "0.001"))},
    **{sign: ("l", Decimal(factor)) for sign, factor in (("ml", "0.001"), ("cl", "0.01"), ("dl", "0.1"))},
    **{sign: ("mib", Decimal(2) ** power) for sign, power in (("kib", -10), ("gib", 10), ("tib", 20))},
}
"""The base unit of each metric one that is smaller, and of binary ones, and its size in that."""


def normal_number(written: str) -> str:
    """The number with a decimal point, and without separators of thousands where it has both: 1.299,00 is 1299.00.

    Digits behind the point stay, for version 1.10 is not 1.1.
    """
    if _THOUSANDS.fullmatch(written):
        point = max(written.rfind("."), written.rfind(","))
        written = re.sub("[.,]", "", written[:point]) + "." + written[point + 1 :]
    return written.replace(",", ".")


def sizes(number: str, unit: str) -> Iterator[str]:
    """The spellings by which a size is searched: that of the value with the unit's sign, and in the metric base unit.

    `number` is in its normal form, `unit` in small letters. Without a value or a known unit there are none.
    """
    sign = UNITS.get(unit)
    if sign is None:
        return
    if "/" in number:
        yield number + sign
        return
    if len(number) > _LONGEST or number.count(".") > 1:
        return
    value = Decimal(number)
    yield _plain(value) + sign
    if sign in _METRIC:
        base, factor = _METRIC[sign]
        yield _plain(value * factor) + base


def is_size(form: str) -> bool:
    """True for a number with the name of a unit."""
    return _SIZE.fullmatch(form) is not None


def _plain(value: Decimal) -> str:
    return f"{value.normalize():f}"
