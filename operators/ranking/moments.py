"""The measures and dates that single values of payloads say: ISO 8601, Unix seconds or milliseconds, years alone."""

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from operators.ranking.run import number as clamp
from operators.ranking.run import stamp
from operators.text.dates import DAY, EPOCH, today_of
from operators.text.measures import Measure, is_year, measures_of, tokenize
from operators.text.periods import day_number, period_at
from schemas.fields import read_time
from schemas.query import Limit

MOST: Final = 1e300
"""The greatest number of a payload that is compared."""

DATE_IN_FIGURES: Final = re.compile(
    r"(?P<day>[0-9]{1,2}\.[0-9]{1,2}\.)?(?P<year>[0-9]{4})(?(day)|-[0-9]{2}(?:-[0-9]{2})?)(?![0-9])"
)
_EPOCH: Final = 1970
_MONTH: Final = len("2021-05")
_SECONDS_OF_YEAR: Final = 31_556_952
_SECONDS: Final = 1e8
_MILLISECONDS: Final = 1e11


@lru_cache(4096)
def short_measures(value: str) -> tuple[Measure, ...]:
    """The measures of a short value; documents share many of these: brands, categories, sizes."""
    return tuple(measures_of(tokenize(value))) if len(value) <= 64 else ()


def year_of(value: Any) -> float | None:
    """The year of a date: of ISO 8601, Unix seconds or milliseconds, or a year alone."""
    if isinstance(value, str):
        found = DATE_IN_FIGURES.match(value)
        if found is not None:
            return float(found["year"])
        numbers = [each.number for each in short_measures(value) if is_year(each.number, 1000)]
        return numbers[0] if len(numbers) == 1 else None
    number = clamp(value, -MOST, MOST)
    if number is None:
        return None
    if is_year(number, 1000):
        return number
    seconds = _seconds(number)
    return float(datetime.fromtimestamp(seconds, UTC).year) if seconds is not None else None


def _seconds(number: float) -> float | None:
    """Unix seconds of such, or of milliseconds, of our time."""
    seconds = number / 1000 if number >= _MILLISECONDS else number
    return seconds if _SECONDS <= seconds < _MILLISECONDS else None


def day_of(value: Any, limit: Limit | None) -> float | None:
    """The day of a date in the unit `date`; of a month or year alone the one that comes nearest to fitting a limit."""
    year = year_of(value)
    if year is None:
        return None
    written = isinstance(value, str) and DATE_IN_FIGURES.match(value)
    if written and len(value) == _MONTH:
        first = (year * 100 + int(value[-2:])) * 100
        first, last = first + 1, first + 31
    elif written or (not isinstance(value, str) and not is_year(value, 1000)):
        moment = moment_of(value) if written else _seconds(value)
        return day_number(max(1, today_of(moment))) if moment is not None else None
    else:
        first, last = year * 10_000 + 101, year * 10_000 + 1231
    if limit is None or limit.high is None:
        return last
    return max(first, min(last, limit.low if limit.low is not None else first))


def moment_of(value: Any) -> float | None:
    """The time of a date, in Unix seconds; of a day, month or year alone its beginning."""
    if isinstance(value, str) and (found := DATE_IN_FIGURES.match(value)) is not None:
        try:
            return read_time(value).timestamp()
        except ValueError:
            period = period_at(found[0], 0, None)
            return (period.first - EPOCH) * DAY if period is not None else None
    year = year_of(value)
    if year is None or (not isinstance(value, str) and not is_year(value, 1000)):
        return stamp(value)
    return (year - _EPOCH) * _SECONDS_OF_YEAR
