"""The time that a query names (its temporal expression), and the stage `temporal`, which ranks by it."""

import math
import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Final, NamedTuple

from operators.ranking.candidate import Candidate, best_first
from operators.ranking.run import DAY, Run, TemporalExpression
from schemas.recipes.stages import Temporal

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


class _Relative(NamedTuple):
    """A phrase, its days and tolerance; where the phrase has a number, the days of one unit. `grows`: the tolerance,
    too, is that of one unit.
    """

    pattern: re.Pattern[str]
    days: int
    tolerance: int
    grows: bool = False

    def expression(self, count: int) -> TemporalExpression:
        """The time of `count` units."""
        return TemporalExpression(self.days * count, self.tolerance * (max(count, 1) if self.grows else 1))


def _relative(phrase: str, days: int, tolerance: int, *, grows: bool = False) -> _Relative:
    return _Relative(re.compile(rf"\b(?:{phrase})\b"), days, tolerance, grows)


_RELATIVE: Final = (
    _relative(f"{_N} days? ago", 1, 2),
    _relative("a couple (?:of )?days? ago", 2, 2),
    _relative("yesterday", 1, 1),
    _relative(f"{_N} weeks? ago", 7, 5),
    _relative("a week ago|last week", 7, 3),
    _relative(f"{_N} years? ago", 365, 30, grows=True),
    _relative("a couple (?:of )?years ago", 730, 60),
    _relative("a few years ago", 1095, 90),
    _relative("a couple (?:of )?weeks ago", 14, 5),
    _relative("a few weeks ago", 21, 5),
    _relative("half a year ago|a half[ -]year ago", 182, 20),
    _relative(f"{_N} months? ago", 30, 10),
    _relative("a month ago|last month", 30, 7),
    _relative("a year ago|last year", 365, 30),
    _relative("a few days ago", 3, 2),
    _relative("a couple (?:of )?months ago", 60, 10),
    _relative("a few months ago", 90, 15),
    _relative("a day ago|last night", 1, 1),
    _relative("a fortnight ago", 14, 3),
    _relative("several days ago", 5, 2),
    _relative("several weeks ago", 35, 14),
    _relative("several months ago", 150, 60),
    _relative("several years ago", 1825, 730),
    _relative("recently", 14, 14),
)

_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_LAST_DAY: Final = re.compile(rf"\blast ({'|'.join(_WEEKDAYS)}|weekend)\b")
_RELATIVE_WORDS: Final = ("ago", "last", "yesterday", "recently")
_HYPHENS: Final = re.compile("[-\u2010\u2011]+")


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
        return (last - _EPOCH) * DAY


class NamedTime(NamedTuple):
    """A time that a query names: its phrase, the expression, and the end of the period in Unix seconds."""

    phrase: str
    expression: TemporalExpression
    end: float


def temporal_expression(query: str, now: float) -> TemporalExpression | None:
    """The time that an English query names: its first relative phrase, else an absolute date; None without either.

    Hyphens join the words of a relative phrase as spaces do.
    `now` is in Unix seconds within the years 1 to 9999 and its date the UTC calendar's; a date after it gives negative
    days. An ISO date is read in a text of any language. The time taken is linear in the text's length.

    Source: memini's `search.RegexAnchorExtractor` for days, weeks, months, one year and recently; number
    words, the other phrases and dates are our own.
    """
    found = _find_time(query, now, _CALENDAR)
    return found and found.expression


def named_time(query: str, now: float) -> NamedTime | None:
    """The same with the end of the period; a year by itself names one, too: "mayor 2021".

    A day, a month, a season and a year end by the calendar, "since" with no day at all, and other times at the end of
    their tolerance. Source: own.
    """
    return _find_time(query, now, (*_CALENDAR, _BARE_YEAR))


def _find_time(query: str, now: float, calendar: Sequence[_Calendar]) -> NamedTime | None:
    # Upper case first: it turns ligatures and long s into plain letters, which lower case alone doesn't.
    text = query.upper().lower()
    # No relative phrase lacks one of these words, and looking for them costs less.
    relative = any(word in text for word in _RELATIVE_WORDS)
    phrases = _phrases(_fold_spaces(_HYPHENS.sub(" ", text)), now) if relative else iter(())
    first = min(phrases, key=lambda found: found[0], default=None)
    return first[1] if first is not None else _absolute(_fold_spaces(text), now, calendar)


def _fold_spaces(text: str) -> str:
    return " ".join(text.split())


def _phrases(text: str, now: float) -> Iterator[tuple[int, NamedTime]]:
    """The first place of each kind of relative phrase in a text, and the time that it names."""
    for row in _RELATIVE:
        for found in row.pattern.finditer(text):
            count = _number(found[1]) if row.pattern.groups else 1
            if count is not None:
                yield found.start(), _until_tolerance(found[0], row.expression(count), now)
                break
    if last := _LAST_DAY.search(text):
        days = ("saturday", "sunday") if last[1] == "weekend" else (last[1],)
        said = TemporalExpression(min(_days_since(day, now) for day in days), 1)
        yield last.start(), _until_tolerance(last[0], said, now)


def _until_tolerance(phrase: str, said: TemporalExpression, now: float) -> NamedTime:
    return NamedTime(phrase, said, now - (said.days - said.tolerance) * DAY)


def _days_since(weekday: str, now: float) -> int:
    """To the latest such day before today, 1 to 7."""
    today = date.fromordinal(_today(now)).weekday()
    return (today - _WEEKDAYS.index(weekday) - 1) % len(_WEEKDAYS) + 1


def _number(words: str) -> int | None:
    return int(words) if words.isdigit() else _NUMBERS.get(words)


def _absolute(text: str, now: float, calendar: Sequence[_Calendar]) -> NamedTime | None:
    today = _today(now)
    for row in calendar:
        if found := row.pattern.search(text):
            middle = _middle(found.groupdict(), date.fromordinal(today))
            if middle is None:
                return None
            said = TemporalExpression(today - middle.toordinal(), row.tolerance)
            return NamedTime(found[0], said, math.inf if found[0].startswith("since") else row.end(middle))
    return None


def _today(now: float) -> int:
    return int(now // DAY) + _EPOCH


_MONTHS: Final = {
    "january": 1,
    "february": 2,
    "march": 3,
    "april": 4,
    "may": 5,
    "june": 6,
    "july": 7,
    "august": 8,
    "september": 9,
    "october": 10,
    "november": 11,
    "december": 12,
}
_SEASONS: Final = {"spring": 4, "summer": 7, "autumn": 10, "fall": 10, "winter": 1}
_SHORT: Final = {"sept": 9, **{name[:3]: number for name, number in _MONTHS.items()}}
_NUMBER_OF: Final = {**_SHORT, **_MONTHS, **_SEASONS}

_LEAP_GAP: Final = 8
"""29 February can be this many years away: no year between 1896 and 1904 has one."""

_YEAR: Final = r"(?P<year>[0-9]{4})"
_OF_NOW: Final = "(?P<year>19[0-9]{2}|20[0-9]{2}|2100)"
# "10:30 May", "1.7 May" and "march 7.5 miles" hold no day.
_DAY_OF_MONTH: Final = r"(?<![0-9][.,:])(?P<{}>[0-9]{{1,2}})(?:st|nd|rd|th)?\b(?![.:][0-9])"
_MONTH: Final = rf"\b(?P<name>{'|'.join(_MONTHS)})\b"
_SEASON: Final = rf"\b(?P<name>{'|'.join(_SEASONS)})\b"
_ANY_MONTH: Final = "|".join([*_MONTHS, *_SHORT])
_DAY_AND_MONTH: Final = (
    rf"\b(?:{_DAY_OF_MONTH.format('day')} (?:of )?(?P<name>{_ANY_MONTH})\b\.?"
    rf"|(?P<name_before>{_ANY_MONTH})\b\.? (?:the )?{_DAY_OF_MONTH.format('day_after')})"
)
# "March" and "May" are plain words, too, and so are "spring" and "fall".
_WITHIN: Final = r"\b(?:in|during|last|since)"
# Only a day may be "in" its year: people "march in 2022".
_OF: Final = "(?: ?, ?| (?:of )?)"
_OF_OR_IN: Final = "(?: ?, ?| (?:of |in )?)"

_CALENDAR: Final = (
    _Calendar(re.compile(rf"(?<![0-9]){_YEAR}-(?P<month>[0-9]{{2}})-(?P<day>[0-9]{{2}})(?![0-9])"), 2),
    _Calendar(re.compile(rf"{_DAY_AND_MONTH}{_OF_OR_IN}{_YEAR}\b"), 2),
    _Calendar(re.compile(_DAY_AND_MONTH), 2),
    _Calendar(re.compile(rf"{_MONTH}{_OF}{_YEAR}\b"), 15, 1),
    _Calendar(re.compile(rf"{_WITHIN} {_MONTH}"), 15, 1),
    _Calendar(re.compile(rf"{_SEASON}{_OF}{_YEAR}\b"), 45, 2),
    _Calendar(re.compile(rf"{_WITHIN} (?:the )?{_SEASON}"), 45, 2),
    _Calendar(re.compile(rf"\b(?:in|during|since|im jahre?|en) {_OF_NOW}\b(?![-/.][0-9])"), 120, 6),
)
"""The first whose pattern matches wins. Without a year it is the latest such date that isn't after today; a date that
the calendar doesn't have names no time. Source: own.
"""

_BARE_YEAR: Final = _Calendar(re.compile(rf"(?<![\w.,:/-]){_OF_NOW}(?![\w:/-]|[.,][0-9])"), 120, 6)


def _middle(parts: dict[str, str | None], today: date) -> date | None:
    name = parts.get("name") or parts.get("name_before")
    day = parts.get("day") or parts.get("day_after")
    year = parts.get("year")
    if name:
        month, middle = _NUMBER_OF[name], 15
    else:
        month, middle = int(parts.get("month") or 7), 1
    if day:
        middle = int(day)
    if year:
        return _date(int(year), month, middle)
    past = (_date(today.year - back, month, middle) for back in range(_LEAP_GAP + 1))
    return next((found for found in past if found and found <= today), None)


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def temporal(candidates: Sequence[Candidate], stage: Temporal, run: Run) -> list[Candidate]:
    """Add boost * proximity to each score; without a temporal expression or a boost nothing changes.

    A date after now is as far from the time named as any other.
    Source: memini's `search.RerankTemporal`, with its boost of 0.40.
    """
    temporal_expression = run.facts.temporal_expression
    if temporal_expression is None or stage.boost <= 0:
        return list(candidates)
    now = run.now(stage)
    before = [candidate.score for candidate in candidates]
    ages = run.ages(candidates, now, "created_at", ahead=True)
    near = [proximity(age, temporal_expression) if age is not None else 0.0 for age in ages]
    for candidate, share in zip(candidates, near, strict=True):
        candidate.score += stage.boost * share
    named = {"days": temporal_expression.days, "tolerance": temporal_expression.tolerance}
    run.explain(stage, candidates, before, {"age_days": ages, "proximity": near}, named)
    return best_first(candidates)


def proximity(age: float, temporal_expression: TemporalExpression) -> float:
    """1 within the tolerance of the time named, falling linearly to 0 at three times the tolerance; `age` in days.

    Source: memini's `search.RerankTemporal`.
    """
    away = abs(age - temporal_expression.days)
    if away <= temporal_expression.tolerance:
        return 1.0
    return max(0.0, (3 * temporal_expression.tolerance - away) / (2 * temporal_expression.tolerance))
