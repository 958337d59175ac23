"""Profiles: the values of each field in a sample of documents, and the kind of thing that they look like.

Nearly all values of a field decide what it is: one among hundreds that is another thing is odd, counted and told.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import unescape
from itertools import compress
from operator import not_
from statistics import fmean, median_low
from typing import Any, Final, Self

from operators.mapping import formats
from operators.mapping.formats import NUMBERS, Form
from schemas.filters import FIELD
from schemas.settings.delivery import LISTS

MOST: Final = 5000
"""Documents of a sample at most."""

_MOST_VALUES: Final = 500
"""Values of a field that are looked at one by one."""

_DEEPEST: Final = 4
"""Objects within each other whose fields are profiled."""

_MOSTLY: Final = 0.8
MANY_WORDS: Final = 8.0
"""Mean number of words from which texts are prose."""

_TAG: Final = re.compile(
    r"</?(?:p|br|div|ul|ol|li|h[1-6]|table|thead|tbody|tr|t[dh]|a|b|i|strong|em|span|img|pre|code|blockquote|hr|section"
    r"|article|figure|html|body|head|title|main|script|style|iframe|sup|sub|u|dl|d[td])(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)
_ENTITY: Final = re.compile(r"&(?:[a-z]{2,8}\d?|#\d{2,5}|#x[0-9a-f]{2,5});", re.IGNORECASE)
_MARKDOWN: Final = re.compile(
    r"(?m)^#{1,6} \S|^```|\[[^\]\n]+\]\([^)\s]+\)|\*\*[^*\n]+\*\*|^\|[ :-]*-{3,}|^(?:[-*+]|\d+\.) .*\n(?:[-*+]|\d+\.) "
)
_IDENTIFIER: Final = re.compile(r"(?=.*\d)[^\W_]+(?:[ ._/+-]{1,2}[^\W_]+){0,5}")
_SLUG: Final = re.compile(r"[^\W_A-Z]+(?:-[^\W_A-Z]+)+")
_LONG: Final = 8
"""Digits from which whole numbers of one length, all different, are numbers of articles though they count up."""

_TYPES: Final[Mapping[type, type]] = {int: float, dict: object, list: object}
_UNSPACED: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")


@dataclass(frozen=True)
class Kind:
    """A kind of values, and the use of a field that has such.

    `identifies` is the field's score as an id, None: it is none. `index` is the type of the index that filters by it;
    `shared`: it is worth one only if documents share values. `weight` is that of its words in a search; 0: none.
    """

    name: str
    identifies: float | None = None
    index: str | None = None
    shared: bool = False
    weight: float = 0.0


MIXED: Final = Kind("mixed", 0.3)
OBJECTS: Final = Kind("objects")
BOOLEAN: Final = Kind("boolean", None, "bool")
TIME: Final = Kind("time", -1.5, "datetime")
NUMBER: Final = Kind("number", 0.6, "float")
URL: Final = Kind("url", 0.2)
EMAIL: Final = Kind("email", 0.0, "keyword", shared=True)
KEY: Final = Kind("key", 0.8, "keyword", shared=True)
"""UUIDs and digests, which nobody types."""
IDENTIFIER: Final = Kind("identifier", 0.5, "keyword", weight=2.0)
"""Numbers of parts and articles, which people search for."""
MEASURE: Final = Kind("measure", None, "keyword", shared=True)
SHORT: Final = Kind("short", 0.4, "keyword", shared=True, weight=1.0)
PROSE: Final = Kind("prose", weight=1.0)

_WRITTEN: Final = {
    URL: re.compile(r"(?:https?|ftp)://\S+|/[^\s/]\S*|www\.\S+", re.IGNORECASE),
    EMAIL: re.compile(r"[^\s@]+@[^\s@]+\.[a-z]{2,}", re.IGNORECASE),
    KEY: re.compile(r"\{?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\}?|[0-9a-f]{24,}", re.IGNORECASE),
    MEASURE: re.compile(
        r"(?:(?:about|approx|ca|circa|from|up to|over|under|min|max|ab|bis|von|etwa|env|environ|de|des)\.?\s+)?"
        r"[\d.,]+(?:\s*[x×/-]\s*[\d.,]+)*\s*[a-zµμ°\"'%²³€$£]{1,7}\.?|P(?=.)(?:[\d.]+[DWMY])*(?:T(?:[\d.]+[HMS])+)?",
        re.IGNORECASE,
    ),
}
"""Kinds that are known by a pattern of most texts."""


def quote_name(name: str) -> str:
    """The name as a step of a path: in quotes, unless it needs none."""
    return name if FIELD.fullmatch(name) and "." not in name else f'"{name}"'


def count_words(text: str) -> float:
    """The number of words; in a script without spaces two characters are one."""
    unspaced = len(_UNSPACED.findall(text))
    return len(_UNSPACED.sub(" ", text).split()) + unspaced / 2


def has_tag(text: str) -> bool:
    """True if the text has a tag of HTML's: what else stands in angle brackets may be code."""
    return _TAG.search(text) is not None


def is_html(text: str) -> bool:
    """True if the text begins with a tag: in Markdown, tags stand within it."""
    return text.lstrip().startswith("<") and has_tag(text)


def _is_empty(text: str) -> bool:
    """True if nothing of a text is to be read: it is white space, or tags around it."""
    text = text.strip()
    return not text or (text[0] in "<&" and not unescape(_TAG.sub("", text)).strip())


def _is_identifier(text: str) -> bool:
    digits = sum(each.isdigit() or each.isupper() for each in text)
    return len(text) <= 40 and _IDENTIFIER.fullmatch(text) is not None and 2 * digits >= sum(map(str.isalnum, text))


@dataclass(eq=False)
class FieldProfile:
    """The values of a field, by the numbers of the documents that have it.

    `names` are those on the way to it in the messages, `name` is that in the index.
    """

    names: tuple[str, ...]
    position: int
    total: int
    rows: dict[int, Any] = field(default_factory=dict)
    listed: bool = False
    name: str = ""

    @property
    def column(self) -> str:
        """The field as `documents.columns` names it in the messages."""
        if len(self.names) == 1:
            return self.names[0]
        return ".".join(map(quote_name, self.names))

    def has_name(self, pattern: str) -> bool:
        """True if its name, the last of those on the way to it, is of this pattern, in any case."""
        return re.fullmatch(pattern, self.names[-1], re.IGNORECASE | re.DOTALL) is not None

    @property
    def is_read(self) -> bool:
        """True if people read its values: they are words, one text a document, and no ids."""
        return self.kind is SHORT and not self.listed and not self.has_name(".*id")

    @property
    def presence(self) -> float:
        """The share of documents that have a value."""
        return len(self.rows) / max(1, self.total)

    @cached_property
    def seen(self) -> list[Any]:
        """Values, those of lists one by one, of at most so many documents."""
        return list(_flatten(list(self.rows.values())[:_MOST_VALUES]))

    @cached_property
    def _parts(self) -> tuple[list[Any], list[Any]]:
        """The values of the field's format, or else of the type that nearly all have, and the others."""
        types = Counter(map(_type, self.seen))
        usual = {each for each, count in types.items() if types.total() - count <= formats.few(types.total())} or types
        form = self.form if self.form not in LISTS else None
        fits = [formats.is_of(form, each) if form is not None else _type(each) in usual for each in self.seen]
        return [*compress(self.seen, fits)], [*compress(self.seen, map(not_, fits))]

    @property
    def values(self) -> list[Any]:
        """The values that decide what the field is."""
        return self._parts[0]

    @property
    def odd(self) -> list[Any]:
        """The values that are another thing than nearly all others are."""
        return self._parts[1]

    @cached_property
    def texts(self) -> list[str]:
        """The values that are texts."""
        return [value for value in self.values if isinstance(value, str)]

    @cached_property
    def distinct(self) -> int:
        """The number of different values."""
        values = _flatten(self.rows.values())
        return len({value if isinstance(value, str | int | float) else repr(value) for value in values})

    @property
    def uniqueness(self) -> float:
        """The share of documents whose value is their own, roughly: different values of all."""
        return self.distinct / max(1, len(self.rows))

    @cached_property
    def words(self) -> float:
        """The mean number of a text's words."""
        return fmean(map(count_words, self.texts)) if self.texts else 0.0

    @cached_property
    def html(self) -> float:
        """The share of texts with HTML."""
        return self.share(lambda text: has_tag(text) or _ENTITY.search(text))

    @cached_property
    def markdown(self) -> float:
        """The share with Markdown of the texts that are no HTML."""
        plain = [text for text in self.texts if not is_html(text)]
        return sum(_MARKDOWN.search(text) is not None for text in plain) / max(1, len(plain))

    @cached_property
    def form(self) -> Form | None:
        """The format of its times, numbers, booleans or lists; "" is that of rankstream's own times, None JSON's."""
        time = formats.recognise_times(self.seen) if not self.listed else None
        if time is not None or (number := formats.recognise_number(self.seen)) is None:
            return time
        # JSON's own numbers and booleans need none.
        return number if any(isinstance(value, str) and formats.is_of(number, value) for value in self.seen) else None

    @cached_property
    def seconds(self) -> dict[int, float]:
        """Its times in Unix seconds, by the numbers of the documents."""
        return {
            row: time
            for row, value in self.rows.items()
            if (time := formats.read_seconds(self.form or "", value)) is not None
        }

    def precedes(self, other: Self) -> bool:
        """True if no time is after the other's of the same document."""
        both = self.seconds.keys() & other.seconds.keys()
        return bool(both) and all(self.seconds[row] <= other.seconds[row] for row in both)

    def future(self, now: float) -> bool:
        """True if a time is still to come: an appointment, or an end."""
        return any(time > now + 86_400 for time in self.seconds.values())

    def share(self, condition: Callable[[str], object]) -> float:
        """The share of texts of which this is true."""
        return sum(bool(condition(text)) for text in self.texts) / max(1, len(self.texts))

    @cached_property
    def kind(self) -> Kind:
        """The kind of its values."""
        types = set(map(_type, self.values))
        if object in types:
            return OBJECTS
        if types == {bool} or self.form == "boolean":
            return BOOLEAN
        if self.form is not None and self.form not in (*NUMBERS, *LISTS):
            return TIME
        if types == {float} or self.form in NUMBERS:
            return IDENTIFIER if self._is_whole and self._counts_articles() else NUMBER
        if types != {str}:
            return MIXED
        if self.html > 0.2 and self.words > 2:
            return PROSE
        written = (kind for kind, pattern in _WRITTEN.items() if self.share(pattern.fullmatch) >= _MOSTLY)
        if (kind := next(written, None)) is not None or self.words >= MANY_WORDS:
            return kind or PROSE
        return IDENTIFIER if self.share(_is_identifier) >= _MOSTLY else SHORT

    @property
    def _is_whole(self) -> bool:
        return self.form == "integer" or set(map(type, self.values)) == {int}

    @cached_property
    def index(self) -> str | None:
        """The type of the index that filters by it; None for a field whose values are not worth one."""
        kind, values = self.kind, len(self.values) if self.listed else len(self.rows)
        few = self.distinct <= max(10, 0.7 * values) and self.words < MANY_WORDS
        if self.distinct < 2 or (kind.shared and not (few and max(map(len, self.texts)) <= 256)):
            return None
        return "integer" if kind is NUMBER and self._is_whole else kind.index

    @cached_property
    def weight(self) -> float:
        """The weight of its words in a search; 0 for a field that nobody searches: names must tell documents apart."""
        if self.kind is not SHORT:
            return self.kind.weight
        if self.uniqueness > 0.9 and self.share(_SLUG.fullmatch) >= _MOSTLY:
            return 0  # A slug repeats the title.
        named = self.share(lambda text: count_words(text) >= 1 and re.search(r"[^\W\d_]{3}", text))
        # Names such as Jon are short, and so are codes such as EUR.
        long = median_low(map(len, self.texts)) > 3 or self.share(str.isupper) < _MOSTLY
        return SHORT.weight * (self.distinct >= 2 and named > 0.8 and long)

    def _counts_articles(self) -> bool:
        """True for long whole numbers, nearly all different, of one length as an ISBN is, or that leave gaps."""
        numbers = sorted(map(int, self.values))
        gap = (numbers[-1] - numbers[0]) / len(numbers)
        shortest, longest = (pick(len(str(each)) for each in self.values) for pick in (min, max))
        long = shortest >= 6 and gap > 100
        return self.uniqueness > 0.9 and (long or shortest == longest >= _LONG)


def _type(value: Any) -> type:
    """The type of a value in JSON: one of numbers, one of objects and lists."""
    return _TYPES.get(type(value), type(value))


def _flatten(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list):
            yield from value
        else:
            yield value


def profile(documents: Sequence[Mapping[str, Any]]) -> list[FieldProfile]:
    """The profile of each field, through objects and not through lists, in the order in which they appear."""
    found: dict[tuple[str, ...], FieldProfile] = {}

    def add(row: int, above: tuple[str, ...], members: Mapping[str, Any]) -> None:
        for name, value in members.items():
            names = (*above, name)
            if value in (None, "", [], {}) or (isinstance(value, str) and _is_empty(value)):
                continue
            if isinstance(value, Mapping) and len(names) < _DEEPEST:
                add(row, names, value)
                continue
            each = found.setdefault(names, FieldProfile(names, len(found), len(documents)))
            each.rows[row] = value
            each.listed |= isinstance(value, list)

    for row, document in enumerate(documents):
        add(row, (), document)
    for each in found.values():
        _split(each)
    return list(found.values())


def _split(each: FieldProfile) -> None:
    """Make lists of the texts that are some."""
    texts = [value for value in list(each.rows.values())[:_MOST_VALUES] if isinstance(value, str)]
    sign = formats.recognise_list(texts) if len(texts) == min(len(each.rows), _MOST_VALUES) else None
    if sign is not None and formats.recognise_times(texts) is None and formats.recognise_number(texts) is None:
        each.rows = {row: formats.split_list(sign, str(value)) for row, value in each.rows.items()}
        each.form, each.listed = sign, True
