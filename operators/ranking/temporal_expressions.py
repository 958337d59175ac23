"""Temporal expressions: the time that a query names for its answer."""

import re
from dataclasses import dataclass
from datetime import date
from typing import Final

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


def _row(phrase: str, days: int, tolerance: int) -> tuple[re.Pattern[str], int, int]:
    return re.compile(rf"\b(?:{phrase})\b"), days, tolerance


_ROWS: Final = (
    _row(f"{_N} days? ago", 1, 2),
    _row("a couple (?:of )?days? ago", 2, 2),
    _row("yesterday", 1, 1),
    _row(f"{_N} weeks? ago", 7, 5),
    _row("a week ago|last week", 7, 3),
    _row(f"{_N} months? ago", 30, 10),
    _row("a month ago|last month", 30, 7),
    _row("a year ago|last year", 365, 30),
    _row("recently", 14, 14),
)
"""Pattern, days (of one unit where the pattern takes a number) and tolerance; the first that matches wins."""


def temporal_expression(query: str, now: float) -> TemporalExpression | None:
    """The time that an English query names, relative phrases before absolute dates; None where it names none.

    `now` is in Unix seconds within the years 1 to 9999 and its date the UTC calendar's; a date after it gives negative
    days. An ISO date is read in a text of any language. The time taken is linear in the text's length.

    Source: memini's `search.RegexAnchorExtractor` for the relative phrases; number words and dates are our own.
    """
    # Upper case first: it turns ligatures and long s into plain letters, which lower case alone doesn't.
    text = " ".join(query.upper().lower().split())
    for pattern, unit, tolerance in _ROWS:
        found = pattern.search(text)
        if found is None:
            continue
        count = _number(found[1]) if pattern.groups else 1
        if count is not None:
            return TemporalExpression(count * unit, tolerance)
    return _absolute(text, now)


def _number(words: str) -> int | None:
    return int(words) if words.isdigit() else _NUMBERS.get(words)


def _absolute(text: str, now: float) -> TemporalExpression | None:
    today = int(now // _DAY) + _EPOCH
    found = dated(text, date.fromordinal(today))
    return found and TemporalExpression(today - found[0].toordinal(), found[1])
