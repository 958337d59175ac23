"""Calendar phrases: the days, months, seasons and years that a text names."""

import re
from datetime import date
from typing import Final

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
# "10:30 May", "1.7 May" and "march 7.5 miles" hold no day.
_DAY: Final = r"(?<![0-9][.,:])(?P<{}>[0-9]{{1,2}})(?:st|nd|rd|th)?\b(?![.:][0-9])"
_MONTH: Final = rf"\b(?P<name>{'|'.join(_MONTHS)})\b"
_SEASON: Final = rf"\b(?P<name>{'|'.join(_SEASONS)})\b"
_ANY_MONTH: Final = "|".join([*_MONTHS, *_SHORT])
_DAY_AND_MONTH: Final = (
    rf"\b(?:{_DAY.format('day')} (?:of )?(?P<name>{_ANY_MONTH})\b\.?"
    rf"|(?P<name_before>{_ANY_MONTH})\b\.? (?:the )?{_DAY.format('day_after')})"
)
# "March" and "May" are plain words, too, and so are "spring" and "fall".
_WITHIN: Final = r"\b(?:in|during|last|since)"
# Only a day may be "in" its year: people "march in 2022".
_OF: Final = "(?: ?, ?| (?:of )?)"
_OF_OR_IN: Final = "(?: ?, ?| (?:of |in )?)"

_ROWS: Final = (
    (re.compile(rf"(?<![0-9]){_YEAR}-(?P<month>[0-9]{{2}})-(?P<day>[0-9]{{2}})(?![0-9])"), 2),
    (re.compile(rf"{_DAY_AND_MONTH}{_OF_OR_IN}{_YEAR}\b"), 2),
    (re.compile(_DAY_AND_MONTH), 2),
    (re.compile(rf"{_MONTH}{_OF}{_YEAR}\b"), 15),
    (re.compile(rf"{_WITHIN} {_MONTH}"), 15),
    (re.compile(rf"{_SEASON}{_OF}{_YEAR}\b"), 45),
    (re.compile(rf"{_WITHIN} (?:the )?{_SEASON}"), 45),
    (re.compile(r"\b(?:in|during|since) (?P<year>19[0-9]{2}|20[0-9]{2}|2100)\b(?![-/.][0-9])"), 120),
)
"""Pattern and tolerance in days; the first that matches wins."""


def dated(text: str, today: date) -> tuple[date, int] | None:
    """The middle of the day, month, season or year that a text names, and a tolerance in days.

    The text is lower case with single spaces. Without a year it is the latest such date that isn't after `today`. A
    date that the calendar doesn't have is None, as is a text that names none. Source: own.
    """
    for pattern, tolerance in _ROWS:
        found = pattern.search(text)
        if found:
            middle = _middle(found.groupdict(), today)
            return (middle, tolerance) if middle else None
    return None


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
