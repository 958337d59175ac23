"""Dates: a day, a month, a season or a year that a text names, in English, German or French.

Rules:
- The most definite date counts: a day goes before a month, a month before a season, a season before a year.
- A date is the middle of its period. Without a year it is the latest such one that is not after today.
- A date that the calendar does not have names no time.
- Names of months and seasons are the tables below; a further language is further rows.

Source: own.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, NamedTuple

DAY: Final = 86_400.0
"""Seconds of a day."""

EPOCH: Final = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class TemporalExpression:
    """The time of an expected answer: `days` before the query's now, plus or minus `tolerance` days (at least 1)."""

    days: int
    tolerance: int


class NamedTime(NamedTuple):
    """A time that a query names: its phrase, the expression, and the end of the period in Unix seconds."""

    phrase: str
    expression: TemporalExpression
    end: float


def today_of(now: float) -> int:
    """The ordinal of the UTC day of a time in Unix seconds."""
    return int(now // DAY) + EPOCH


class _Calendar(NamedTuple):
    """A pattern of a date, its tolerance in days, and the months from that of its middle to its end; 0: it is a day."""

    pattern: re.Pattern[str]
    tolerance: int
    months: int = 0

    def end(self, middle: date) -> float:
        """The end of the period with that middle, in Unix seconds."""
        months = middle.year * 12 + middle.month - 1 + self.months
        # The calendar of dates ends with the year 9999, and nothing is after it.
        if months >= 10_000 * 12:
            return math.inf
        last = date(months // 12, months % 12 + 1, 1).toordinal() if self.months else middle.toordinal() + 1
        return (last - EPOCH) * DAY


_MONTHS: Final = (
    "january|jan february|feb march|mar april|apr may june|jun july|jul august|aug september|sept|sep october|oct"
    " november|nov december|dec",
    "januar|jan februar|feb marz april|apr mai juni|jun juli|jul august|aug september|sept|sep oktober|okt"
    " november|nov dezember|dez",
    "janvier fevrier mars avril mai juin juillet aout septembre|sept octobre|oct novembre|nov decembre|dec",
)
_SEASONS: Final = (
    "winter spring summer autumn|fall",
    "winter fruhling|fruhjahr sommer herbst",
    "hiver printemps ete automne",
)
"""Months, and seasons by their middles (January, April, July, October), in English, German and French."""

_BEFORE: Final = (
    ("(?:in|during|last|since) ", "(?:the )?"),
    ("(?:im|im letzten|seit|seit letztem|letzten|letztes|vergangenen|vorigen|voriges) ", "(?:dem )?"),
    ("(?:(?:en|depuis|au mois de) |au mois d')", "(?:le |l')?"),
)
_BEHIND: Final = " (?:dernier|passe)"
"""Words before a month without a year in each language, further ones before a season; in French, behind both."""


def _number(table: str, first: int, step: int) -> Mapping[str, int]:
    """The number of each name in a table whose rows are `step` months apart."""
    return {name: first + step * row for row, names in enumerate(table.split()) for name in names.split("|")}


MONTH_OF: Final = [_number(table, 1, 1) for table in _MONTHS]
_SEASON_OF: Final = [_number(table, 1, 3) for table in _SEASONS]
_NUMBER_OF: Final = {name: number for names in (*MONTH_OF, *_SEASON_OF) for name, number in names.items()}

NAMES: Final = frozenset(_NUMBER_OF)
"""Names of months and seasons."""

_LEAP_GAP: Final = 8
"""29 February can be this many years away: no year between 1896 and 1904 has one."""

YEAR: Final = r"(?P<year>[0-9]{4})\b"
OF_NOW: Final = "(?P<year>19[0-9]{2}|20[0-9]{2}|2100)"
# "10:30 May", "1.7 May" and "march 7.5 miles" hold no day.
_DAY: Final = r"(?<![0-9][.,:])(?P<day{}>[0-9]{{1,2}})(?:st|nd|rd|th|er)?\b(?![.:][0-9])"
# Only a day may be "in" its year: people "march in 2022".
OF: Final = "(?: ?, ?| (?:of |de )?)"
OF_OR_IN: Final = "(?: ?, ?| (?:of |de |in )?)"


def day_and_month() -> str:
    """The pattern of a day and its month: its groups are `name` or `name_1` and so on, and `day` likewise."""
    english, german, french = ("|".join(names) for names in MONTH_OF)
    # The number of a day in German has a point.
    before = rf"{_DAY.format('')}(?:\. (?P<name>{german})| (?:of |de )?(?P<name_1>{english}|{german}|{french}))\b\.?"
    return rf"\b(?:{before}|(?P<name_2>{english})\b\.? (?:the )?{_DAY.format('_1')})"


def _periods(tables: Sequence[Mapping[str, int]], tolerance: int, months: int, further: int) -> Iterator[_Calendar]:
    """Months or seasons of a year, and those that stand without one: behind a word, for some are plain words, too."""
    # Short names of months ("mar") need a day.
    whole = [[name for name in names if len(name) > 3 or name in ("may", "mai", "ete")] for names in tables]
    every = "|".join(name for names in whole for name in names)
    yield _Calendar(re.compile(rf"\b(?P<name>{every})\b{OF}{YEAR}"), tolerance, months)
    for names, before in zip(whole, _BEFORE, strict=True):
        pattern = rf"\b{''.join(before[:further])}(?P<name>{'|'.join(names)})\b"
        yield _Calendar(re.compile(pattern), tolerance, months)
    yield _Calendar(re.compile(rf"\b(?P<name>{'|'.join(whole[-1])}){_BEHIND}\b"), tolerance, months)


_CALENDAR: Final = (
    _Calendar(re.compile(r"(?<![0-9])(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})(?![0-9])"), 2),
    _Calendar(re.compile(rf"{day_and_month()}{OF_OR_IN}{YEAR}"), 2),
    _Calendar(re.compile(day_and_month()), 2),
    *_periods(MONTH_OF, 15, 1, 1),
    *_periods(_SEASON_OF, 45, 2, 2),
    _Calendar(re.compile(rf"\b(?:in|during|since|im jahre?|en|depuis|seit) {OF_NOW}\b(?![-/.][0-9])"), 120, 6),
)
"""The first whose pattern matches counts."""

_BARE_YEAR: Final = _Calendar(re.compile(rf"(?<![\w.,:/-]){OF_NOW}(?![\w:/-]|[.,][0-9])"), 120, 6)
_SINCE: Final = ("since", "seit", "depuis")


def named_date(text: str, now: float, *, bare_year: bool) -> NamedTime | None:
    """The most definite date of a folded text in small letters, None without any; with `bare_year` a year by itself is
    one, too: "mayor 2021".

    `now` is in Unix seconds within the years 1 to 9999, and its date is the UTC calendar's. A date after it gives
    negative days. An ISO date is read in a text of any language.
    """
    today = today_of(now)
    for row in (*_CALENDAR, _BARE_YEAR) if bare_year else _CALENDAR:
        if found := row.pattern.search(text):
            parts = {name.split("_")[0]: part for name, part in found.groupdict().items() if part}
            middle = _middle(parts, date.fromordinal(today))
            if middle is None:
                return None
            said = TemporalExpression(today - middle.toordinal(), row.tolerance)
            return NamedTime(found[0], said, math.inf if found[0].startswith(_SINCE) else row.end(middle))
    return None


def _middle(parts: Mapping[str, str], today: date) -> date | None:
    if name := parts.get("name"):
        month, middle = _NUMBER_OF[name], 15
    else:
        month, middle = int(parts.get("month", 7)), 1
    day = int(parts.get("day", middle))
    if year := parts.get("year"):
        return make_date(int(year), month, day)
    past = (make_date(today.year - back, month, day) for back in range(_LEAP_GAP + 1))
    return next((found for found in past if found and found <= today), None)


def make_date(year: int, month: int, day: int) -> date | None:
    """The date, None for one that the calendar does not have."""
    try:
        return date(year, month, day)
    except ValueError:
        return None
