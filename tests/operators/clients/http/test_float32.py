"""Numbers of 32 bits, told by the column."""

import math

from hypothesis import given
from hypothesis import strategies as st

from operators.clients.http.dialect import fit_float32
from schemas.fields import MAX_FLOAT32

NUMBERS = st.lists(st.floats() | st.integers(-(2**63), 2**64 - 1))


@given(NUMBERS | st.lists(st.sampled_from([math.nan, math.inf, -math.inf, MAX_FLOAT32, -MAX_FLOAT32, 1e39, -1e39, 0])))
def test_a_column_fits_if_each_of_its_numbers_does(numbers: list[float]) -> None:
    """One that is no number, endless or too large is enough, wherever it stands."""
    assert fit_float32(numbers) == all(math.isfinite(number) and abs(number) <= MAX_FLOAT32 for number in numbers)
