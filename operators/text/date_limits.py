"""Limits by dates in words: "created since May", "im Mai erstellt", "publié en 2025", "tickets after 2026-06-01". Pure.

Most dates of a text tell of an event, and are no limits: "mayor since 2021", "what did Anna do in May 2023?". One is
read

- beside a word for a time that documents have, such as *created*, *updated*, *published* or *due*: with a direction
  ("since May") or without one ("in 2025", "last week");
- or, where nothing is asked or told, with *before*, *after* or *between* and a day or month that has its year, and
  where *from* stands before a relative time ("tickets from last week").

A limit by days or months has the unit `date`, and one by years the unit `year`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from operator import itemgetter
from typing import Final, NamedTuple

from operators.text import phrases
from operators.text.dates import DAY, EPOCH
from operators.text.measures import DATE, YEAR, Lexeme, Unit, phrase_at, subjects_of, words_of
from operators.text.periods import Period, day_number, may_begin, names_period, period_at
from operators.text.phrases import WORDS, Bound, Direction

_TIMES: Final = ("created", "updated", "published", "due")
"""Subjects that are times of documents."""

_WORDS: Final[Mapping[str, frozenset[str]]] = {
    kind: frozenset(words.split())
    for kind, words in phrases.read_rows("""
dated: dated datiert datee
noun: creation erstellung update modification aktualisierung anderung release publication veroffentlichung deadline
 falligkeit echeance
latest: last zuletzt
leading: in on at during within over im am vom von aus en le la l' les du de d' des of from the der dem den das die jahr
 year annee a dans au zum :
from: from of von vom aus de du
relative: letzte letzten letzter letztes diese diesen dieser dieses gestern heute vorgestern im in am en
asking: which what welche quel quelle
""")
}
"""`noun`: words that need a direction, for an "update in May" is an event. `leading`: words before a date. `relative`:
words that begin one behind which a word for the time may stand. `asking`: words that ask for documents.
"""

_LEADING: Final = 4
"""Words before a date at most."""

_FURTHER: Final = phrases.Phrases(
    [(each, Direction("lte", "since")) for each in ("by", "on or before")]
    + [("on or after", Direction("gte", "since"))]
)
_NAMING: Final = words_of(_TIMES) | _WORDS["dated"]

_GRAMMAR: Final = WORDS["stop"] | WORDS["filler"]

FIRST_WORDS: Final = _NAMING.union(
    WORDS["opening"], WORDS["range"], *(_WORDS[kind] for kind in ("latest", "from", "relative"))
)
"""Words with which such a limit begins, beside directions."""


class DateLimit(NamedTuple):
    """The token behind its words, the bounds with their unit, and the time of documents that is meant."""

    end: int
    bounds: dict[Bound, float]
    unit: Unit
    about: str


class _Said(NamedTuple):
    """The first and the last period that the bounds are ends of; `led` is the first word where no direction is said.

    The `end` of a period is a token here.
    """

    first: Period
    last: Period
    bounds: tuple[Bound, ...] = ("gte", "lte")
    direction: Direction | None = None
    led: str = ""

    @property
    def precisions(self) -> set[str]:
        return {self.first.precision, self.last.precision}

    def limit(self, end: int, about: str) -> DateLimit:
        ends = {bound: self.first.first if bound in {"gte", "lt"} else self.last.last for bound in self.bounds}
        if self.precisions == {"year"}:
            years: dict[Bound, float] = {each: date.fromordinal(day).year for each, day in ends.items()}
            return DateLimit(end, years, YEAR, about)
        return DateLimit(end, {each: day_number(day) for each, day in ends.items()}, DATE, about)


@dataclass(frozen=True)
class DateReader:
    """Reads the limits by dates of one text; `directions` are its language's, `now` is in Unix seconds."""

    tokens: Sequence[Lexeme]
    directions: phrases.Phrases[Direction]
    now: float | None

    def read(self, at: int) -> DateLimit | None:
        """The limit that begins at a token."""
        if not self._names_period:
            return None
        named, start = self._find_named(at)
        said = self._range(start) or self._read_direction(start) or self._plain(start)
        if said is None or (at and self.tokens[at].glued):
            return None
        end = said.last.end
        if not named:
            named, end = self._find_named(end)
        if not named:
            return said.limit(end, "date") if self._stands_alone(at, said) else None
        about = next((each for each in _TIMES if each in subjects_of(named)), "date")
        is_event = said.direction is None and (
            named in _WORDS["noun"] or ("year" in said.precisions and self._is_word(end))
        )
        # The next one may be meant: "due in March".
        is_open = about == "due" and "guessed" in said.precisions
        return None if is_event or is_open or self._asks_for_event else said.limit(end, about)

    def _stands_alone(self, at: int, said: _Said) -> bool:
        """True where nothing but a date of documents can be meant."""
        if not 0 < at <= self._statement or self._asks or self._text(at - 1) in WORDS["negating"]:
            return False
        if said.led:
            return said.led in _WORDS["from"] and said.precisions == {"relative"}
        in_figures = not self.tokens[said.last.end - 1].text.isalnum()
        # "Since" and "until" tell how long something is so.
        lasts = said.direction is not None and said.direction.strength != "from" and said.bounds[0] in {"gte", "lte"}
        return not lasts and said.precisions <= {"day", "month"} and (in_figures or not self._is_word(said.last.end))

    @cached_property
    def _names_period(self) -> bool:
        return names_period([*map(itemgetter(0), self.tokens)])

    @cached_property
    def _statement(self) -> int:
        """The token from which on something is told; 0 in a question."""
        telling = (at for at, each in enumerate(self.tokens) if each.text in WORDS["auxiliary"])
        return 0 if self._text(len(self.tokens) - 1) == "?" else next(telling, len(self.tokens))

    @cached_property
    def _asks(self) -> bool:
        return self._text(0) in WORDS["question"]

    @cached_property
    def _asks_for_event(self) -> bool:
        return self._asks and (
            self._text(0) not in _WORDS["asking"] or not self._is_word(1) or self._text(1) in _NAMING
        )

    @cached_property
    def _line(self) -> tuple[str, list[int], dict[int, int]]:
        """The folded text, where each token begins in it, and the tokens behind the places where one ends."""
        parts, starts, ends, length = list[str](), list[int](), dict[int, int](), 0
        for at, each in enumerate(self.tokens):
            space = " " if at and not each.glued else ""
            parts.append(space + each.text)
            starts.append(length + len(space))
            length += len(parts[-1])
            ends[length] = at + 1
        return "".join(parts), starts, ends

    def _text(self, at: int) -> str:
        return self.tokens[at].text if 0 <= at < len(self.tokens) else ""

    def _is_word(self, at: int) -> bool:
        """True for a word that is neither a number nor a word of grammar."""
        word = self._text(at)
        return word[:1].isalpha() and word not in _GRAMMAR and self.tokens[at].number is None

    def _find_named(self, at: int) -> tuple[str, int]:
        """The word for a time of documents at a token, and the token behind it; "" if there is none."""
        here = at + (self._text(at) in _WORDS["latest"])
        if (word := self._text(here)) not in _NAMING:
            return "", at
        # "Mis à jour" is one word.
        return word, here + (3 if self._text(here + 2) == "jour" else 1)

    def _period(self, at: int, now: float | None) -> Period | None:
        """The period whose words begin at a token, or behind words that lead to one."""
        for here in range(at, min(at + _LEADING + 1, len(self.tokens))):
            text, starts, ends = self._line
            found = period_at(text, starts[here], now) if may_begin(self._text(here)) else None
            if found is not None:
                end = ends.get(found.end)
                joined = end is not None and end < len(self.tokens) and self.tokens[end].glued
                return (
                    None if end is None or (joined and self._text(end) in {"-", "/", "%"}) else found._replace(end=end)
                )
            if self._text(here) not in _WORDS["leading"]:
                break
        return None

    def _range(self, at: int) -> _Said | None:
        """Two dates: "between March and May 2026", "von März bis Mai"."""
        start = at + (self._text(at) in WORDS["opening"] or self._text(at) in WORDS["range"])
        first = self._period(start, self.now)
        if first is None or self._text(first.end) not in WORDS["ranged"]:
            return None
        last = self._period(first.end + 1, self.now)
        if last is not None and first.precision == "guessed" != last.precision:
            # The year is said once, behind the last.
            again = self._period(start, (last.last - EPOCH) * DAY)
            first = again._replace(precision=last.precision) if again is not None else first
        if last is None or first.first > last.last:
            return None
        return _Said(first, last, led=self._text(at) if start == at else "")

    def _read_direction(self, at: int) -> _Said | None:
        """A direction and a date: "since May", "vor dem 1. Juni 2026", "from 2026-06-01 on"."""
        phrase = phrase_at(self.tokens, at, _FURTHER) or phrase_at(self.tokens, at, self.directions)
        if phrase is None or not (phrase[0].subject == "date" or phrase[0].strength in {"moment", "since", "from"}):
            return None
        said, period = phrase[0], self._period(phrase[1], self.now)
        if period is None:
            return None
        if said.strength == "from":
            onwards = phrase_at(self.tokens, period.end, phrases.ONWARDS)
            if onwards is None:
                return None
            period = period._replace(end=onwards[1])
        return _Said(period, period, (said.bound,), said)

    def _plain(self, at: int) -> _Said | None:
        """A date without a direction: "in 2025", "last week"."""
        period = self._period(at, self.now)
        return _Said(period, period, led=self._text(at)) if period is not None else None
