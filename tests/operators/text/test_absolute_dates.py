"""Dates: days, months, seasons and years by hand, what is no date, and the ends of the calendar."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.text.dates import TemporalExpression
from tests.operators.text.times import temporal_expression

TODAY = date(2024, 5, 20)
YEAR_1, YEAR_10000 = -62_135_596_800.0, 253_402_300_800.0
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
SHORT = [name[:3] for name in MONTHS]

DAY, MONTH, SEASON, YEAR = 2, 15, 45, 120

days = st.dates(date(1000, 1, 1))
todays = st.dates(date(20, 1, 1))


def noon(day: date) -> float:
    """The middle of a UTC day, in Unix seconds."""
    return datetime(day.year, day.month, day.day, 12, tzinfo=UTC).timestamp()


def named(query: str, today: date = TODAY) -> tuple[date, int] | None:
    """The date that a query's anchor is, and its tolerance."""
    found = temporal_expression(query, noon(today))
    return (today - timedelta(found.days), found.tolerance) if found else None


@pytest.mark.parametrize(
    ("phrase", "middle", "tolerance"),
    [
        ("on 7 May 2023", date(2023, 5, 7), DAY),
        ("on 7 May, 2023", date(2023, 5, 7), DAY),
        ("on May 7, 2023", date(2023, 5, 7), DAY),
        ("on May 7,2023", date(2023, 5, 7), DAY),
        ("on May 7 2023", date(2023, 5, 7), DAY),
        ("May 7th, 2023", date(2023, 5, 7), DAY),
        ("the 7th of May 2023", date(2023, 5, 7), DAY),
        ("on May the 7th in 2023", date(2023, 5, 7), DAY),
        ("on the 22nd of Sept. 2022", date(2022, 9, 22), DAY),
        ("Jan 3rd 2023", date(2023, 1, 3), DAY),
        ("1 July 1815", date(1815, 7, 1), DAY),
        ("29 February 2020", date(2020, 2, 29), DAY),
        ("2023-05-07", date(2023, 5, 7), DAY),
        ("at 2023-05-07T10:00:00Z", date(2023, 5, 7), DAY),
        ("2023-05-07に", date(2023, 5, 7), DAY),
        ("ماذا حدث في 2023-05-07؟", date(2023, 5, 7), DAY),
        ("Was geschah am 2023-05-07?", date(2023, 5, 7), DAY),
        ("7 May", date(2024, 5, 7), DAY),
        ("on May 7th", date(2024, 5, 7), DAY),
        ("on 20 May", date(2024, 5, 20), DAY),
        ("on 21 May", date(2023, 5, 21), DAY),
        ("on Dec. 24", date(2023, 12, 24), DAY),
        ("on 29 February", date(2024, 2, 29), DAY),
        ("in March 2023", date(2023, 3, 15), MONTH),
        ("in March, 2023", date(2023, 3, 15), MONTH),
        ("in March of 2023", date(2023, 3, 15), MONTH),
        ("as of December 2022", date(2022, 12, 15), MONTH),
        ("in March", date(2024, 3, 15), MONTH),
        ("last March", date(2024, 3, 15), MONTH),
        ("during March", date(2024, 3, 15), MONTH),
        ("since March", date(2024, 3, 15), MONTH),
        ("in May", date(2024, 5, 15), MONTH),
        ("in June", date(2023, 6, 15), MONTH),
        ("last summer", date(2023, 7, 15), SEASON),
        ("in the summer of 2021", date(2021, 7, 15), SEASON),
        ("in summer 2021", date(2021, 7, 15), SEASON),
        ("in spring", date(2024, 4, 15), SEASON),
        ("in the spring", date(2024, 4, 15), SEASON),
        ("since autumn", date(2023, 10, 15), SEASON),
        ("last fall", date(2023, 10, 15), SEASON),
        ("fall of 2022", date(2022, 10, 15), SEASON),
        ("during winter 2022", date(2022, 1, 15), SEASON),
        ("during the winter", date(2024, 1, 15), SEASON),
        ("in 2022", date(2022, 7, 1), YEAR),
        ("since 1900", date(1900, 7, 1), YEAR),
        ("during 2100", date(2100, 7, 1), YEAR),
        ("in 2024", date(2024, 7, 1), YEAR),
        ("on the march in 2022", date(2022, 7, 1), YEAR),
        ("im Mai 2022", date(2022, 5, 15), MONTH),
        ("am 3. März 2023", date(2023, 3, 3), DAY),
        ("en août", date(2023, 8, 15), MONTH),
    ],
)
def test_each_phrase_by_hand(phrase: str, middle: date, tolerance: int) -> None:
    """On 20 May 2024 each phrase names the middle of its period: alone, in a sentence, in capitals, with odd spaces."""
    assert named(phrase) == (middle, tolerance)
    assert named(f"What did Ann say {phrase}?") == (middle, tolerance)
    assert named(phrase.upper()) == (middle, tolerance)
    assert named(phrase.replace(" ", "\n\t ")) == (middle, tolerance)


def test_days_are_counted_from_nows_date() -> None:
    """Days are whole UTC calendar days to now's date, whatever the hour, and negative for a year to come."""
    midnight = datetime(2024, 5, 20, tzinfo=UTC).timestamp()
    for now in (midnight, midnight + 86_399.999):
        assert temporal_expression("on 19 May 2024", now) == TemporalExpression(1, DAY)
        assert temporal_expression("on 20 May", now) == TemporalExpression(0, DAY)
        assert temporal_expression("on 22 May 2024", now) == TemporalExpression(-2, DAY)
    assert temporal_expression("on 20 May", midnight - 0.001) == TemporalExpression(365, DAY)
    assert temporal_expression("on 31 December 1969", -1.0) == TemporalExpression(0, DAY)


@pytest.mark.parametrize(
    ("query", "middle", "tolerance"),
    [
        ("in March, or was it on 7 May", date(2024, 5, 7), DAY),
        ("in 2022, in the summer", date(2023, 7, 15), SEASON),
        ("last summer, in March", date(2024, 3, 15), MONTH),
        ("on 1 June, that is 2023-05-07", date(2023, 5, 7), DAY),
        ("between August 11 and August 15 2023", date(2023, 8, 15), DAY),
        ("in March or in January 2022", date(2022, 1, 15), MONTH),
        ("on 1 June or 2 April", date(2023, 6, 1), DAY),
        ("on March 7 may we meet", date(2024, 3, 7), DAY),
        ("in 2019 or in 2020", date(2019, 7, 1), YEAR),
    ],
)
def test_the_most_definite_date_wins(query: str, middle: date, tolerance: int) -> None:
    """A day beats a month, a month a season, a season a year, and a stated year none; of equals the first counts."""
    assert named(query) == (middle, tolerance)


@pytest.mark.parametrize(
    "query",
    [
        "31 February 2023",
        "on 31 February",
        "February 30th, 2023",
        "29 February 2023",
        "on 0 May 2023",
        "on 32 May 2023",
        "in the week of 99 March",
        "2023-13-01",
        "in 2023-13-01",
        "in 2023-02-31",
        "2023-02-29",
        "2023-00-10",
        "0000-01-01",
        "on 7 May 0000",
        "in March 0000",
        "in summer 0000",
    ],
)
def test_an_impossible_date_is_no_anchor(query: str) -> None:
    """A date that the calendar doesn't have names nothing: not its month or year, either."""
    assert named(query) is None


@pytest.mark.parametrize(
    "query",
    [
        "you may go",
        "soldiers march on",
        "how may I march in time",
        "who did march, in time",
        "they fall in the water",
        "spring water",
        "this summer",
        "next March",
        "in the second week of November",
        "in Mar",
        "marching in mayor Mayer's summertime",
        "12023-05-07",
        "2023-05-071",
        "2023-5-7",
        "2022",
        "in 1899",
        "in 2101",
        "in 20222",
        "in 2022s",
        "in 2022-05",
        "at 10:30 may we go",
        "we march 7.5 miles",
        "room 1.7 may be free",
        "of 5,12 may be read",
        "2022年",
    ],
)
def test_what_is_no_date(query: str) -> None:
    """Plain words, numbers that are no date, years out of range and other languages name no time."""
    assert named(query) is None


@pytest.mark.parametrize(
    ("query", "today", "middle"),
    [
        ("on 29 February", date(2024, 2, 28), date(2020, 2, 29)),
        ("on 29 February", date(1904, 2, 28), date(1896, 2, 29)),
        ("on 29 February", date(2023, 12, 31), date(2020, 2, 29)),
        ("last winter", date(2024, 1, 14), date(2023, 1, 15)),
        ("last winter", date(2024, 1, 15), date(2024, 1, 15)),
        ("in December", date(2024, 1, 1), date(2023, 12, 15)),
        ("on 1 January", date(1, 1, 1), date(1, 1, 1)),
        ("on 31 December", date(9999, 12, 31), date(9999, 12, 31)),
    ],
)
def test_the_latest_past_one_without_a_year(query: str, today: date, middle: date) -> None:
    """Without a year it is the latest that isn't after today; a leap day is the latest leap year's."""
    found = named(query, today)
    assert found is not None
    assert found[0] == middle


@pytest.mark.parametrize("query", ["on 2 January", "on 29 February", "in March", "last summer", "in winter"])
def test_before_the_first_year_there_is_nothing(query: str) -> None:
    """On the calendar's first day nothing that comes later in a year has been yet."""
    assert temporal_expression(query, YEAR_1) is None


@pytest.mark.parametrize("now", [YEAR_1, -0.5, 0.0, YEAR_10000 - 0.001])
@pytest.mark.parametrize("query", ["9999-12-31", "1 January 0001", "in 1900", "in 2100", "last fall", "29 Feb"])
def test_the_ends_of_the_calendar_are_answered(query: str, now: float) -> None:
    """The first and the last moment of the years 1 to 9999 give an answer to dates at both ends."""
    found = temporal_expression(query, now)
    assert found is None or abs(found.days) < 3_652_060


@given(days, todays, st.integers(0, 5))
def test_a_stated_day_is_that_day(day: date, today: date, form: int) -> None:
    """Any day of a four-digit year, written any of six ways, is that day, past or to come."""
    month, short = MONTHS[day.month - 1], SHORT[day.month - 1]
    written = (
        f"{day.day} {month} {day.year}",
        f"{month} {day.day}, {day.year}",
        f"{short}. {day.day:02}th {day.year}",
        f"the {day.day}th of {short}, {day.year}",
        day.isoformat(),
        f"on {month} the {day.day}rd of {day.year}",
    )[form]
    assert temporal_expression(f"what was {written}?", noon(today)) == TemporalExpression((today - day).days, DAY)


@given(days, todays)
def test_a_day_without_a_year_is_the_latest(day: date, today: date) -> None:
    """It has that day and month, isn't after today, and a year later comes after today (leap days: in eight years)."""
    found = named(f"on {day.day} {MONTHS[day.month - 1]}", today)
    assert found is not None
    assert (found[0].day, found[0].month) == (day.day, day.month)
    wait = timedelta(366 if (day.month, day.day) != (2, 29) else 8 * 366)
    assert timedelta(0) <= today - found[0] < wait


@given(st.integers(1900, 2100), st.integers(1, 12), todays)
def test_a_stated_month_and_year_is_its_middle(year: int, month: int, today: date) -> None:
    """A month of a year is its day 15, and a year alone its 1 July."""
    assert named(f"in {MONTHS[month - 1]} {year}", today) == (date(year, month, 15), MONTH)
    assert named(f"in {year}", today) == (date(year, 7, 1), YEAR)
