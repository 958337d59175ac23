"""Numbers and sizes: one spelling for each value."""

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.text.folding import NUMBER, UNITS, normal_number, sizes

UNIT = st.sampled_from(sorted(UNITS))
METRIC = {
    "mm": "m",
    "cm": "m",
    "dm": "m",
    "mg": "kg",
    "g": "kg",
    "ml": "l",
    "cl": "l",
    "dl": "l",
    **dict.fromkeys(("kib", "gib", "tib"), "mib"),
}
DECIMALS = st.decimals(0, 10**6, places=3)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        *[("2,5 2.5 .5", ["2.5", "2.5", "5"]), ("1.299,00 1,299.00", ["1299.00", "1299.00"])],
        *[("1.299 1,299 1299", ["1.299", "1.299", "1299"]), ("12.345.678,9", ["12345678.9"])],
        *[("1/2 3/4/5 123/4", ["1/2", "3", "4", "5", "123", "4"]), ("1,2,3", ["1", "2", "3"])],
        *[("1,299,000", ["1", "299", "000"]), ("v1.10 1.2.3", ["1.10", "1.2.3"]), ("12:30", ["12", "30"])],
        *[("007 1. 2, 3", ["007", "1", "2", "3"])],
    ],
)
def test_the_numbers_of_a_text(text: str, numbers: list[str]) -> None:
    """With their decimals, and without separators of thousands where a text has both; lists are no decimals."""
    assert [normal_number(found) for found in re.findall(NUMBER, text)] == numbers


@given(DECIMALS)
def test_a_number_is_the_same_in_each_spelling(value: Decimal) -> None:
    """English, German and without separators; its value stays."""
    english = f"{value:,.3f}"
    german = english.translate(str.maketrans(".,", ",."))
    bare = f"{value:.3f}"
    assert {normal_number(each) for each in (english, german, bare, bare.replace(".", ","))} == {bare}
    assert all(re.fullmatch(NUMBER, each) for each in (english, german, bare))


@pytest.mark.parametrize(
    ("number", "unit", "found"),
    [
        *[("2.50", "kg", ["2.5kg"]), ("2500", "g", ["2500g", "2.5kg"]), ("0", "mm", ["0mm", "0m"])],
        *[("6.7", "inches", ["6.7in"]), ("10", "litres", ["10l"]), ("1000", "w", ["1000w"]), ("5", "qm", ["5m2"])],
        *[("1/2", "inch", ["1/2in"]), ("1.2.3", "kg", []), ("1" * 19, "kg", []), ("5", "men", [])],
        *[("48", "stunden", ["48h"]), ("1.50", "hours", ["1.5h"]), ("5", "degrees", ["5deg"])],
    ],
)
def test_sizes_by_hand(number: str, unit: str, found: list[str]) -> None:
    """The value with the sign of its unit, and lengths, weights and volumes in m, kg and l, too."""
    assert list(sizes(number, unit)) == found


@given(DECIMALS, UNIT, st.integers(0, 3))
def test_a_value_has_one_spelling(value: Decimal, unit: str, zeros: int) -> None:
    """Zeros at the end and names of the unit say nothing; other values have other spellings."""
    written = f"{value:f}"
    found = list(sizes(written + "0" * zeros, unit))
    assert found == list(sizes(written, UNITS[unit]))
    assert len(found) == 1 + (UNITS[unit] in METRIC)
    number = found[0].removesuffix(UNITS[unit])
    assert Decimal(number) == value
    assert number == (number.rstrip("0").rstrip(".") if "." in number else number)
    other = list(sizes(f"{value + 1:f}", unit))
    assert set(found).isdisjoint(other)


@pytest.mark.parametrize(("part", "whole"), METRIC.items())
def test_metric_units_meet_in_their_base(part: str, whole: str) -> None:
    """A size in parts is found by the whole: 500 ml by .5 l."""
    (_, found) = sizes("2500", part)
    value = Decimal(found.removesuffix(whole))
    assert list(sizes(str(value), whole)) == [found]


@given(st.text("0123456789.,/", max_size=40))
def test_any_digits_and_signs_are_read(text: str) -> None:
    """Each digit is in one number, and no number makes an error."""
    found = re.findall(NUMBER, text)
    assert re.sub(r"\D", "", "".join(found)) == re.sub(r"\D", "", text)
    for number in map(normal_number, found):
        assert "," not in number
        assert all(each.endswith(("g", "kg")) for each in sizes(number, "g"))
