"""Relative times as sums: a number times its unit, number words, and weekdays on the calendar."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.text.dates import TemporalExpression
from tests.operators.text.times import temporal_expression

NOW = datetime(2024, 5, 20, 15, 30, tzinfo=UTC).timestamp()

SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


def spelled(number: int) -> str:
    """An English number word, 0 to 100, with a hyphen."""
    if number == 100:
        return "one hundred"
    if number < 20:
        return SMALL[number]
    tens, ones = divmod(number, 10)
    return TENS[tens - 2] + (f"-{SMALL[ones]}" if ones else "")


@given(st.integers(0, 9999), st.sampled_from([("day", 1, 2), ("week", 7, 5), ("month", 30, 10)]), st.booleans())
def test_n_units_ago_is_n_units(number: int, unit: tuple[str, int, int], plural: bool) -> None:
    """Digits times the unit's days, singular or plural."""
    name, days, tolerance = unit
    found = temporal_expression(f"{number} {name}{'s' if plural else ''} ago", NOW)
    assert found == TemporalExpression(number * days, tolerance)


@pytest.mark.parametrize("unit", ["day", "weeks", "months", "years"])
def test_number_words_are_their_digits(unit: str) -> None:
    """Every word from zero to one hundred, hyphen or space, in each row with a number."""
    for number in range(101):
        for written in (spelled(number), spelled(number).replace("-", " ")):
            assert temporal_expression(f"{written} {unit} ago", NOW) == temporal_expression(f"{number} {unit} ago", NOW)


@given(st.floats(-62_135_596_800.0, 253_402_300_799.0))
def test_a_relative_time_does_not_depend_on_now(now: float) -> None:
    """Days before now are the same for any now."""
    assert temporal_expression("three weeks ago", now) == TemporalExpression(21, 5)


@given(st.datetimes(datetime(1, 1, 8), datetime(9999, 12, 31), timezones=st.just(UTC)), st.integers(0, 6))
def test_last_weekday_is_the_latest_such_day_before_today(now: datetime, weekday: int) -> None:
    """The named day lies 1 to 7 days back on the calendar, and is of that name."""
    name = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")[weekday]
    found = temporal_expression(f"what was decided last {name}?", now.timestamp())
    assert found is not None
    assert 1 <= found.days <= 7
    assert (now - timedelta(days=found.days)).weekday() == weekday
    assert found.tolerance == 1


@given(st.integers(0, 9999))
def test_the_tolerance_of_years_grows_with_them(number: int) -> None:
    """N years ago is 365 N days, plus or minus 30 days a year."""
    found = temporal_expression(f"{number} years ago", NOW)
    assert found == TemporalExpression(365 * number, 30 * max(number, 1))
