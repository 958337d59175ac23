"""Points in time: what is read, what is refused, and that every time read can be written."""

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.fields import rfc3339, unix_seconds

YEAR_1, YEAR_10000 = -62_135_596_800, 253_402_300_800


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("1970-01-01T02:00:00+02:00", 0.0),
        ("1969-12-31T16:00:00-08:00", 0.0),
        ("2024-02-29T12:34:56.789Z", 1_709_210_096.789),
        ("2023-11-14T22:13:20.123456Z", 1_700_000_000.123456),
        ("1970-01-01t00:00:00z", 0.0),
        ("1970-01-01 00:00:00.5z", 0.5),
        ("2016-12-31T23:59:60Z", 1_483_228_800.0),
        ("2016-12-31t15:59:60.25-08:00", 1_483_228_800.25),
        ("2023-11-14T22:13:20.123456789Z", 1_700_000_000.123456),
        (1_700_000_000, 1_700_000_000.0),
        (1_700_000_000.5, 1_700_000_000.5),
        (-1, -1.0),
        ("0001-01-01T00:00:00Z", float(YEAR_1)),
        ("9999-12-31T23:59:59Z", float(YEAR_10000 - 1)),
    ],
)
def test_both_forms_by_hand(written: object, seconds: float) -> None:
    """RFC 3339 with any offset, and Unix seconds, are the same moments."""
    assert unix_seconds(written) == seconds


@pytest.mark.parametrize(
    "written",
    [
        pytest.param("2024-01-01T00:00:00", id="naive"),
        pytest.param("2024-01-01", id="a naive date"),
        pytest.param("yesterday", id="words"),
        pytest.param("", id="empty"),
        pytest.param("1700000000", id="seconds as a string"),
        pytest.param("2024-13-01T00:00:00Z", id="a thirteenth month"),
        pytest.param("2023-02-29T00:00:00Z", id="no leap year"),
        pytest.param("2016-12-31T23:59:61Z", id="a second 61"),
        pytest.param("2016-12-31T23:60:00Z", id="a minute 60"),
        pytest.param("2016-12-31T23:59:60", id="a naive leap second"),
        pytest.param("9999-12-31T23:59:60Z", id="the year 10000 by its leap second"),
        pytest.param(True, id="a boolean"),
        pytest.param(None, id="null"),
        pytest.param([0], id="a list"),
        pytest.param(math.nan, id="NaN"),
        pytest.param(math.inf, id="infinity"),
        pytest.param(-math.inf, id="minus infinity"),
        pytest.param(YEAR_10000, id="the year 10000"),
        pytest.param(YEAR_1 - 1, id="the year 0"),
        pytest.param(10**400, id="a number beyond floats"),
        pytest.param("9999-12-31T23:59:59.999999Z", id="a last microsecond that a float rounds into the year 10000"),
        pytest.param("0001-01-01T00:00:00+14:00", id="the year 0 by its offset"),
        pytest.param("9999-12-31T23:59:59-14:00", id="the year 10000 by its offset"),
    ],
)
def test_what_is_no_time(written: object) -> None:
    """A naive, unreadable or unreachable time is a ValueError and nothing else."""
    with pytest.raises(ValueError, match="time"):
        unix_seconds(written)


@given(st.floats() | st.integers() | st.text(max_size=30) | st.datetimes(timezones=st.just(UTC)).map(str))
def test_whatever_is_read_can_be_written(written: object) -> None:
    """Every time that is accepted can be written as RFC 3339 and read again, to the millisecond."""
    try:
        seconds = unix_seconds(written)
    except ValueError:
        return
    again = unix_seconds(rfc3339(seconds))
    assert seconds - 0.0011 < again <= seconds + 1e-4


@given(
    st.datetimes(
        timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45)), timezone(timedelta(hours=-9))])
    )
)
def test_an_offset_does_not_change_the_moment(moment: datetime) -> None:
    """Written with any offset, a moment is the same seconds as in UTC."""
    try:
        universal = moment.astimezone(UTC)
    except OverflowError:
        return
    assert _read(moment.isoformat()) == _read(universal.isoformat())


def _read(written: str) -> float | None:
    try:
        return unix_seconds(written)
    except ValueError:
        return None


def test_times_are_written_in_utc_to_the_millisecond() -> None:
    """By hand: a trailing Z, three digits, cut and not rounded."""
    assert rfc3339(0) == "1970-01-01T00:00:00.000Z"
    assert rfc3339(1_700_000_000.1239) == "2023-11-14T22:13:20.123Z"
