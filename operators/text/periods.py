"""Periods: the days that a text names at one place, by the calendar, in English, German or French. Pure.

Rules:
- A day, a month or a year ("2026-06-01", "1.6.2026", "1. Juni", "mars 2026"), or a relative time: "yesterday", "last
  week", "this month", "in the past 3 months", "Monday". Seasons, quarters and "8/1/2026" are none.
- Without a year it is the latest one that has begun. Relative times and these need a `now`; its day is the UTC
  calendar's. A week begins on Monday.
- "Last month" is the calendar's; "3 weeks ago" is as exact as `times` says.

Source: own.
"""

import re
from collections.abc import Collection, Mapping
from datetime import date
from typing import Final, NamedTuple

from operators.text.dates import MONTH_OF, OF, OF_NOW, OF_OR_IN, YEAR, day_and_month, make_date, today_of
from operators.text.times import HEADS, TELLING, relative_period


class Period(NamedTuple):
    """The place in the text behind the words, and the first and last day, as ordinals."""

    end: int
    first: int
    last: int
    precision: str
    """`day`, `month` or `year` of a date that has its year, `guessed` of one that has none, and `relative`."""


_NAMES: Final = {name: number for names in MONTH_OF for name, number in names.items()}
_PATTERNS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})(?:-(?P<day>[0-9]{2}))?(?![\w-])",
        r"(?P<day>[0-9]{1,2})\.(?P<month>[0-9]{1,2})\.(?P<year>[0-9]{4})(?![\w-])",
        rf"{day_and_month()}(?:{OF_OR_IN}{YEAR})?",
        rf"(?P<name>{'|'.join(sorted(_NAMES, key=len, reverse=True))})\b(?:\.?{OF}{YEAR})?",
        rf"{OF_NOW}\b(?![-/.:][0-9])",
    )
)
_HEADS: Final = HEADS.union(_NAMES)
_TELLING: Final = TELLING.union(_NAMES)

_YEAR: Final = re.compile("[0-9]{4}")

_BACK: Final = 9
"""Years among which there is a 29 February."""

_PHRASE: Final = 80
"""Characters of the longest relative time."""


def names_period(words: Collection[str]) -> bool:
    """False if these are folded words of no period."""
    # Without such a word a period has a year.
    return not _TELLING.isdisjoint(words) or _YEAR.search(" ".join(words)) is not None


def may_begin(word: str) -> bool:
    """False for a folded word with which no period begins."""
    return word[:1].isdigit() or word in _HEADS


def period_at(text: str, at: int, now: float | None) -> Period | None:
    """The period that a folded text names from `at` on, where a word begins; `now` in Unix seconds."""
    today = date.fromordinal(today_of(now)) if now is not None else None
    for pattern in _PATTERNS:
        if found := pattern.match(text, at):
            parts = {name.split("_")[0]: part for name, part in found.groupdict().items() if part}
            return _read_date(found.end(), parts, today)
    relative = relative_period(text[at : at + _PHRASE], today) if today is not None else None
    if relative is None:
        return None
    length, first, last, told = relative
    return Period(at + length, first, last, "relative" if told else "guessed")


def day_number(ordinal: int) -> float:
    """A day as a number in the unit `date`: 20260601."""
    day = date.fromordinal(ordinal)
    return float(day.year * 10_000 + day.month * 100 + day.day)


def _read_date(end: int, parts: Mapping[str, str], today: date | None) -> Period | None:
    month = _NAMES[parts["name"]] if "name" in parts else int(parts.get("month", 1))
    unit = "day" if "day" in parts else "month" if "month" in parts or "name" in parts else "year"
    if "year" in parts:
        first = make_date(int(parts["year"]), month, int(parts.get("day", 1)))
    else:
        years = range(today.year, today.year - _BACK, -1) if today is not None else ()
        days = (make_date(year, month, int(parts.get("day", 1))) for year in years)
        first = next((day for day in days if day is not None and today is not None and day <= today), None)
    if first is None:
        return None
    return Period(end, first.toordinal(), _last_of(unit, first), unit if "year" in parts else "guessed")


def _last_of(unit: str, first: date) -> int:
    """The ordinal of the last day of the unit that begins on this one."""
    if unit == "day":
        return first.toordinal()
    months = first.year * 12 + first.month - 1 + (12 if unit == "year" else 1)
    # The calendar of dates ends with the year 9999.
    return date(months // 12, months % 12 + 1, 1).toordinal() - 1 if months < 120_000 else date.max.toordinal()
