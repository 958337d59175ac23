"""The distance of transactions: as the interval says, and further the more records come."""

from hypothesis import given
from hypothesis import strategies as st

from operators.delivery.sink import COMMON, LONGEST, stretch

RATES = st.floats(0, 1e6)


@given(st.floats(0.001, 1), RATES)
def test_the_interval_is_kept_and_stretched_within_bounds(interval: float, rate: float) -> None:
    """It is never shorter than configured, and beyond itself at most LONGEST; up to COMMON records it is itself."""
    spacing = stretch(interval, rate)
    assert interval <= spacing <= max(interval, LONGEST)
    assert rate > COMMON or spacing == interval


@given(st.floats(0.001, 1), RATES, RATES)
def test_more_records_never_bring_transactions_closer(interval: float, one: float, other: float) -> None:
    """Of two rates the higher one has the longer interval, or the same."""
    low, high = sorted((one, other))
    assert stretch(interval, low) <= stretch(interval, high)
