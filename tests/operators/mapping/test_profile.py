"""Profiles: the kinds of fields, by the forms of their values."""

import pytest

from operators.mapping.profile import IDENTIFIER, MEASURE, SHORT, TIME, Kind, profile


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["ab 3.200 EUR", "ab 2.400 EUR"], MEASURE),
        (["approx. 1.2 kg", "ca. 38 kg", "0.5 kg"], MEASURE),
        (["up to 24 sheets", "from 12.50 €", "120 pcs", "3 vols.", "9 Std."], MEASURE),
        (["PT30M", "PT1H"], MEASURE),
        (["iPhone 13 mini", "Galaxy 21 ultra"], SHORT),
        (["Room 12 left", "Hall 7 right"], SHORT),
        (["KI-1042-ES", "KI-1043-EN"], IDENTIFIER),
        (["5. Oktober 2026", "Montag, 3. März 2025"], TIME),
    ],
)
def test_a_kind_is_known_by_the_values(values: list[str], kind: Kind) -> None:
    """An amount between words is a measure and no identifier, so nobody searches for its words."""
    [found] = profile([{"a": value} for value in values])
    assert found.kind is kind


@pytest.mark.parametrize(("values", "weight"), [(("jon", "mia", "ann"), 1), (("EUR", "USD", "CHF"), 0)])
def test_short_names_are_searched_and_codes_are_not(values: tuple[str, ...], weight: float) -> None:
    """A colour or the author of a message may have three letters."""
    [found] = profile([{"by": values[number % 3]} for number in range(60)])
    assert found.weight == weight
