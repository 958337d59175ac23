"""Temporal expressions: the time that a query names for its answer."""

import re
from dataclasses import dataclass
from datetime import date
from typing import Final, NamedTuple

from operators.ranking.calendar_phrases import dated

_DAY: Final = 86_400
_EPOCH: Final = date(1970, 1, 1).toordinal()

_ONES: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS: Final = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen")
_TENS: Final = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SINGLE: Final = ("zero", *_ONES, *_TEENS, "nineteen")
_NUMBERS: Final = {
    **{word: value for value, word in enumerate(_SINGLE)},
    **{word: value for value, word in zip(range(20, 100, 10), _TENS, strict=True)},
    **{
        f"{tens}{joint}{ones}": value + unit
        for value, tens in zip(range(20, 100, 10), _TENS, strict=True)
        for unit, ones in enumerate(_ONES, 1)
        for joint in " -"
    },
    "a hundred": 100,
    "one hundred": 100,
}

# The end of a larger number ("a hundred and five", "1,000", "1.5") is not a number of its own: number words match with
# the words before them, which are then not in _NUMBERS; such digits don't match.
_N: Final = (
    r"((?<![0-9][.,])[0-9]{1,4}"
    r"|(?:(?:hundred|thousand) (?:and )?)?"
    rf"(?:(?:{'|'.join(_TENS)})(?:[ -](?:{'|'.join(_ONES)}))?|{'|'.join(_SINGLE)})"
    r"|(?:a|one) hundred)"
)


@dataclass(frozen=True, slots=True)
class TemporalExpression:
    """The time of an expected answer: `days` before the query's now, plus or minus `tolerance` days (at least 1)."""

    days: int
    tolerance: int


class _Row(NamedTuple):
    """A phrase, its days and tolerance; where the phrase has a number, the days of one unit. `grows`: the tolerance,
    too, is that of one unit.
    """

    pattern: re.Pattern[str]
    days: int
    tolerance: int
    grows: bool = False

    def expression(self, count: int) -> "TemporalExpression":
        """The time of so many units."""
        return TemporalExpression(self.days * count, self.tolerance * (max(count, 1) if self.grows else 1))


def _row(phrase: str, days: int, tolerance: int, *, grows: bool = False) -> _Row:
    return _Row(re.compile(rf"\b(?:{phrase})\b"), days, tolerance, grows)


_ROWS: Final = (
    _row(f"{_N} days? ago", 1, 2),
    _row("a couple (?:of )?days? ago", 2, 2),
    _row("yesterday", 1, 1),
    _row(f"{_N} weeks? ago", 7, 5),
    _row("a week ago|last week", 7, 3),
    _row(f"{_N} years? ago", 365, 30, grows=True),
    _row("a couple (?:of )?years ago", 730, 60),
    _row("a few years ago", 1095, 90),
    _row("a couple (?:of )?weeks ago", 14, 5),
    _row("a few weeks ago", 21, 5),
    _row("half a year ago|a half[ -]year ago", 182, 20),
    _row(f"{_N} months? ago", 30, 10),
    _row("a month ago|last month", 30, 7),
    _row("a year ago|last year", 365, 30),
    _row("a few days ago", 3, 2),
    _row("a couple (?:of )?months ago", 60, 10),
    _row("a few months ago", 90, 15),
)
"""The first that matches wins."""

_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_LAST_WEEKDAY: Final = re.compile(rf"\blast ({'|'.join(_WEEKDAYS)})\b")
_LATELY: Final = re.compile(r"\brecently\b")


def temporal_expression(query: str, now: float) -> TemporalExpression | None:
    """The time that an English query names, relative phrases before absolute dates; None where it names none.

    `now` is in Unix seconds within the years 1 to 9999 and its date the UTC calendar's; a date after it gives negative
    days. An ISO date is read in a text of any language. The time taken is linear in the text's length.

    Source: memini's `search.RegexAnchorExtractor` for days, weeks, months, one year and recently; number
    words, the other phrases and dates are our own.
    """
    # Upper case first: it turns ligatures and long s into plain letters, which lower case alone doesn't.
    text = " ".join(query.upper().lower().split())
    for row in _ROWS:
        found = row.pattern.search(text)
        if found is None:
            continue
        count = _number(found[1]) if row.pattern.groups else 1
        if count is not None:
            return row.expression(count)
    if found := _LAST_WEEKDAY.search(text):
        return TemporalExpression(_days_since(found[1], now), 1)
    return TemporalExpression(14, 14) if _LATELY.search(text) else _absolute(text, now)


def _days_since(weekday: str, now: float) -> int:
    """To the latest such day before today, 1 to 7."""
    today = date.fromordinal(_today(now)).weekday()
    return (today - _WEEKDAYS.index(weekday) - 1) % len(_WEEKDAYS) + 1


def _number(words: str) -> int | None:
    return int(words) if words.isdigit() else _NUMBERS.get(words)


def _absolute(text: str, now: float) -> TemporalExpression | None:
    today = _today(now)
    found = dated(text, date.fromordinal(today))
    return found and TemporalExpression(today - found[0].toordinal(), found[1])


def _today(now: float) -> int:
    return int(now // _DAY) + _EPOCH
