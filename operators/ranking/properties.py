"""Properties: the numbers, dates, sizes and words that a document's own fields and texts say of a wish.

A field of a payload is meant by a limit for its name in the index or in documents (`price`, `width_cm`, `Preis (€)`),
for the unit in its name or value, and for words of the query. The whole text is read where no such field is there.
Names that begin with an underscore, and the fields by which rankstream works, say nothing of a document.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, islice, takewhile
from typing import Any, Final, NamedTuple

from operators.ranking.candidate import Payload
from operators.ranking.moments import DATE_IN_FIGURES, MOST, day_of, moment_of, short_measures, year_of
from operators.ranking.run import number as clamp
from operators.text.folding import fold_accents
from operators.text.measures import (
    DATE,
    NUMERAL,
    UNITS,
    YEAR,
    Lexeme,
    Measure,
    Unit,
    is_alike,
    is_year,
    measures_of,
    subjects_in,
    subjects_of,
    tokenize,
    unit_of,
    words_of,
)
from operators.text.phrases import simplify
from schemas.document import COLUMNS
from schemas.query import Limit, Order

_OWN: Final = {
    *("id", "namespace", "destination", "collection", "lang", "schema_version", "classification", "labels"),
    *("actor_type", "accessed_at", "confirmed_at", "expires_at", "vector", "edges"),
}
"""Fields that say nothing of what the document is about."""

INDEXED_AT: Final = "created_at"
"""The date of a document that says no other one."""

STAMPS: Final = {INDEXED_AT: "created", "updated_at": "updated"}
"""Fields that say nothing of what the document is about, either, and the subjects that mean them."""

_SHORT: Final = 2
"""Letters of words, such as *at*, that call no field by its name."""

_DEPTH: Final = 4
_FIELDS: Final = 256
_READ: Final = 8_000
"""Bounds of what is read of a document: levels, values, and characters of a text."""

_BESIDE: Final = 2
"""Words between a number and its subject at most, the subject counted."""

_JOINING: Final = frozenset(":-(")
"""Signs that may be between them."""

_NAME: Final = re.compile(
    r"(?i:km/h)|[$€£¥%″]|°[CF]|(?<![A-Za-z])(?:m|ft)[2²]|[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+|[^\W\d_]+"
)
_ENDS: Final = frozenset("from to min max minimum maximum von bis ab de a desde hasta lower upper low high".split())  # noqa: SIM905
"""Words for the ends of a range."""

_WINDOW: Final = 64
"""Characters before and behind a match that are read."""

_MATCHES: Final = 32
"""Matches in one text that are read."""


Said = float | str
"""A value that a document has: a number in the wish's unit, or a size as it is written."""


class Value(NamedTuple):
    """A value of a field, and the currency that stands beside it."""

    value: Any
    currency: Unit | None


@dataclass(frozen=True)
class Document:
    """A candidate's payload without the hidden fields."""

    payload: Payload

    @cached_property
    def fields(self) -> dict[str, list[Value]]:
        """The values of each field, by its path."""
        found: dict[str, list[Value]] = {}
        for path, value in _walk(self.payload, "", None, 0):
            if len(found) < _FIELDS or path in found:
                found.setdefault(path, []).append(value)
        return found

    @cached_property
    def texts(self) -> list[str]:
        """The folded text of each field that is one, the searched columns first."""
        named = sorted(self.fields, key=lambda path: path not in COLUMNS)
        values = (each.value for path in named if path not in STAMPS for each in self.fields[path])
        return [simplify(each[:_READ]) for each in values if isinstance(each, str)]

    def says(self, phrase: re.Pattern[str]) -> bool:
        """True if a text has the phrase."""
        return any(phrase.search(each) for each in self.texts)

    def around(self, pattern: re.Pattern[str]) -> Iterator[list[Lexeme]]:
        """The words around each match of a pattern: nothing else of a text is cut into words, which costs most."""
        for text in self.texts:
            windows: list[tuple[int, int]] = []
            for match in islice(pattern.finditer(text), _MATCHES):
                start = text.rfind(" ", 0, max(0, match.start() - _WINDOW)) + 1
                end = text.find(" ", match.end() + _WINDOW)
                if windows and start <= windows[-1][1]:
                    start = windows.pop()[0]
                windows.append((start, end if end >= 0 else len(text)))
            for start, end in windows:
                yield tokenize(text[start:end])


def _walk(value: Any, path: str, currency: Unit | None, depth: int) -> Iterator[tuple[str, Value]]:
    if isinstance(value, Mapping):
        own = value.get("currency")
        currency = unit_of(own) if isinstance(own, str) else currency
        for name, inner in value.items():
            own_field = not depth and (name in _OWN or name.startswith("_"))
            if depth < _DEPTH and not own_field and name != "currency":
                yield from _walk(inner, f"{path}.{name}" if path else name, currency, depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            if depth < _DEPTH:
                yield from _walk(inner, path, currency, depth + 1)
    elif isinstance(value, str | int | float):
        yield path, Value(value, currency)


@dataclass(frozen=True)
class Subject:
    """The subject of a limit or an order: its unit, the subjects that it names, and other words of the query.

    `bare`: it is a number, and nothing says of what. `own_name` is the name that a field has in documents.
    """

    unit: Unit | None
    about: frozenset[str]
    nouns: frozenset[str]
    others: frozenset[str]
    limit: Limit | None
    bare: bool
    own_name: Callable[[str], str] = str

    @classmethod
    def of(cls, wish: Limit | Order, text: str | None, own_name: Callable[[str], str] = str) -> "Subject":
        """The subject of a wish; `text` is the rest of the query."""
        said = [simplify(each) for each in wish.about]
        unit = unit_of(wish.unit) if isinstance(wish, Limit) else None
        if isinstance(wish, Limit) and wish.unit is not None and unit is None:
            said.append(simplify(wish.unit))
        about = frozenset().union(*(subjects_of(each) or {each} for each in said))
        bare = unit is None and not about
        if not about and unit in {None, YEAR, DATE}:
            # A bare number is a price.
            about = frozenset({"price" if bare else "date"})
        nouns = frozenset(each for each in said if not subjects_of(each))
        others = frozenset(each.text for each in tokenize(text or "") if each.text.isalpha())
        return cls(unit, about, nouns, others, wish if isinstance(wish, Limit) else None, bare, own_name)

    @property
    def exact(self) -> bool:
        """True if it is about one value, such as a size, in place of bounds."""
        return self.limit is not None and self.limit.value is not None

    def names(self, path: str) -> str:
        """The names of a field, in the index and in documents."""
        own = self.own_name(path)
        return path if own == path else f"{path} {own}"

    def find_said(self, words: Iterable[str]) -> list[str]:
        """Those of a name's words that the rest of the query has."""
        return [word for word in words if any(is_alike(word, other) for other in self.others)]

    def calls(self, path: str) -> bool:
        """True if the rest of the query has a word of the field's own name in documents."""
        own = self.own_name(path)
        return own != path and bool(self.find_said(words_in(own)))

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The beginnings of what a text may say of it: numbers, or where a size is meant its words."""
        if not self.exact:
            return NUMERAL
        return re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(words_of(self.about))))})\b")

    @property
    def dated(self) -> bool:
        """True if it is about dates, which are compared by their years, or in the unit `date` by their days."""
        return "date" in self.about if self.unit is None else self.unit in {YEAR, DATE}

    def strength(self, path: str, values: Sequence[Value]) -> int:
        """The fit of a field by its name and values; 0: it says nothing of the subject."""
        words = words_in(self.names(path))
        subjects = frozenset().union(*map(subjects_of, words))
        if not self.numbers(path, values) and not (self.exact and subjects & self.about):
            return 0
        if self.dated and "due" in subjects - self.about:
            return 0
        shared = len(subjects & self.about) or int(any(is_alike(word, noun) for word in words for noun in self.nouns))
        said = self.find_said(words)
        # "CSAT under 3" and "closed after 2026-06-01" name the field.
        every = (words_in(name) for name in (path, self.own_name(path)))
        called = (self.bare and not subjects and any(each and {*each} <= {*said} for each in every)) or (
            self.unit == DATE and any(len(each) > _SHORT for each in said)
        )
        named = bool(shared or called)
        unit, kind = _unit_in(self.names(path)), self.unit and self.unit.kind
        foreign = unit is not None and unit.kind != kind and not self.dated
        if not named and (foreign or (self.about and subjects)):
            return 0
        written = (
            each.unit for value in values if isinstance(value.value, str) for each in short_measures(value.value)
        )
        measured = kind is not None and any(each is not None and each.kind == kind for each in (unit, *written))
        # "Portraits acquired after 2020" names the field `acquired`, if no field is one of dates by its name.
        measured |= self.dated and bool(said)
        implied = bool(subjects & (subjects_in(kind) if kind is not None else self.about))
        if not (named or measured or implied):
            return 0
        hinted = any(not subjects.isdisjoint(subjects_of(other)) for other in self.others)
        return 64 * called + 16 * shared + 8 * measured + 4 * implied + 2 * bool(said) + hinted

    def numbers(self, path: str, values: Sequence[Value]) -> list[float]:
        """The numbers of a field's values, or how many texts there are of what the query counts: "5 ingredients"."""
        found = [number for each in values if (number := self.number(each, path)) is not None]
        counts = self.unit is None and len(values) > 1 and all(isinstance(each.value, str) for each in values)
        if found or not counts or not any(is_alike(word, noun) for word in words_in(path) for noun in self.nouns):
            return found
        return [float(len(values))]

    def number(self, value: Value, path: str) -> float | None:
        """The number of a field's value in the unit of the wish; None if it has none, or one that can't be compared."""
        if self.dated:
            return day_of(value.value, self.limit) if self.unit == DATE else year_of(value.value)
        unit = _unit_in(self.names(path))
        number: float | None
        if isinstance(value.value, str):
            measures = short_measures(value.value)
            # An age may be `4+`.
            if len(measures) != 1 or (measures[0].unit is None and len(tokenize(value.value.removesuffix("+"))) != 1):
                return None
            number, unit = measures[0].number, measures[0].unit or unit
        elif (number := clamp(value.value, -MOST, MOST)) is None:
            return None
        if unit is None and self.unit is not None and self.unit.kind == "currency":
            unit = value.currency
        return self.convert(number, unit)

    def convert(self, number: float, unit: Unit | None) -> float | None:
        """A number of that unit in the unit of the wish; None if they are of different kinds."""
        if self.unit is None or unit is None or unit == self.unit:
            return number
        # Nobody knows the exchange rates, and degrees don't begin at one zero.
        if unit.kind != self.unit.kind or unit.kind in {"currency", "temperature"}:
            return None
        return number * unit.factor / self.unit.factor

    def in_text(self, tokens: Sequence[Lexeme]) -> list[Said]:
        """The numbers that a text says of it, in the unit of the wish, and sizes as they are written."""
        if self.exact:
            return [tokens[at + 1].text for at, each in enumerate(tokens[:-1]) if subjects_of(each.text) & self.about]
        measures = list(measures_of(tokens))
        if self.unit == DATE:
            # The days that a text tells of are seldom those of the document.
            return []
        if self.dated:
            figures = (
                float(found["year"]) for each in tokens if (found := DATE_IN_FIGURES.match(each.text)) is not None
            )
            years = (each.number for each in measures if each.unit is None and _is_written_year(tokens, each))
            return [*figures, *years]
        if self.unit is None:
            is_price = self.about == {"price"}
            money = [each for each in measures if is_price and each.unit is not None and each.unit.kind == "currency"]
            return [each.number for each in measures if each in money or self._is_beside(tokens, each)]
        # "From 10 years, about 75 minutes" has one age.
        least = UNITS["month"].factor if "age" in self.about else 0
        alike = [
            each for each in measures if each.unit and each.unit.kind == self.unit.kind and each.unit.factor >= least
        ]
        beside = [each for each in alike if self._is_beside(tokens, each)]
        numbers = (self.convert(each.number, each.unit) for each in beside or alike)
        return [each for each in numbers if each is not None]

    def _is_beside(self, tokens: Sequence[Lexeme], measure: Measure) -> bool:
        """True if a word of the subject is beside the number: "4 players", "size: 42", "62 cm wide"."""
        behind = (each.text for each in tokens[measure.end : measure.end + _BESIDE])
        before = (each.text for each in reversed(tokens[max(0, measure.start - _BESIDE) : measure.start]))
        sides = (takewhile(lambda word: word[0].isalnum() or word in _JOINING, each) for each in (behind, before))
        return any(
            subjects_of(word) & self.about or any(is_alike(word, noun) for noun in self.nouns) for word in chain(*sides)
        )


def _is_written_year(tokens: Sequence[Lexeme], measure: Measure) -> bool:
    """True for four digits that are no part of an identifier, and count nothing: "LF-1816", "2000 pieces"."""
    before = tokens[measure.start - 1].text if measure.start else ""
    identifies = tokens[measure.start].glued and before == "-"
    behind = subjects_of(tokens[measure.end].text) if measure.end < len(tokens) else frozenset[str]()
    counts = behind and "date" not in behind
    return is_year(measure.number, 1500) and len(tokens[measure.start].text) == 4 and not identifies and not counts


def choose_fields(subject: Subject, documents: Iterable[Document]) -> list[str]:
    """The fields that suit a subject best, that of the most documents first."""
    strengths: dict[str, list[int]] = {}
    for document in documents:
        for path, values in document.fields.items():
            means = path not in STAMPS or STAMPS[path] in subject.about or subject.calls(path)
            if means and path not in COLUMNS and (strength := subject.strength(path, values)):
                strengths.setdefault(path, []).append(strength)
    best = max((max(each) for each in strengths.values()), default=0)
    suiting = [path for path in sorted(strengths) if max(strengths[path]) == best]
    return sorted(suiting, key=lambda path: len(strengths[path]), reverse=True)


def values_at(subject: Subject, document: Document, paths: Iterable[str]) -> list[Said]:
    """The values of the first field, or range, of these that a document has, as numbers where they are some."""
    said, range_ = list[Said](), list[str]()
    for path in paths:
        name = subject.names(path)
        if said and _range_of(name) != range_:
            break
        values, range_ = document.fields.get(path, []), _range_of(name)
        if subject.exact:
            said += [simplify(str(each.value)) for each in values]
        else:
            said += subject.numbers(path, values)
    return said


def order_value(subject: Subject, document: Document, path: str) -> float | None:
    """The first number of a document's field, or its first time in Unix seconds; None without one."""
    if subject.dated:
        times = (moment_of(each.value) for each in document.fields.get(path, ()))
        return next((each for each in times if each is not None), None)
    return next((each for each in values_at(subject, document, [path]) if isinstance(each, float)), None)


def satisfies(limit: Limit, said: Said) -> bool:
    """True if the value is within the limit."""
    if limit.value is None:
        return isinstance(said, float) and limit.holds(said)
    wanted = simplify(limit.value)
    return str(said) == wanted or _numbers(str(said)) == _numbers(wanted) != [] or wanted in _sizes(str(said))


def _sizes(said: str) -> set[str]:
    """The sizes of a field: "M, L" has two."""
    return {each.text for each in tokenize(said)} if len(said) < 64 else set()


def _numbers(said: str) -> list[float]:
    tokens = tokenize(said)
    return [each.number for each in tokens if each.number is not None] if len(tokens) == 1 else []


@lru_cache(1024)
def words_in(path: str) -> Sequence[str]:
    """The folded words of a field's name: `maxWidth_cm` has three."""
    return [simplify(each) for each in _NAME.findall(fold_accents(path))]


@lru_cache(1024)
def _range_of(path: str) -> list[str]:
    """The words of a name without those for the ends of a range."""
    return [word for word in words_in(path) if word not in _ENDS]


@lru_cache(1024)
def _unit_in(path: str) -> Unit | None:
    """The unit in the name of a field, such as that of `width_cm`; the month of `rent_month` measures no rent."""
    words = words_in(path)
    is_money = any("price" in subjects_of(word) for word in words)
    units = map(unit_of, words[1:] or [word for word in words if len(word) > 1])
    return next((unit for unit in units if unit is not None and (unit.kind == "currency" or not is_money)), None)
