"""Measures: numbers with their units, and words that are alike."""

import pytest

from operators.text.measures import is_alike, measures_of, names, tokenize


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1,5 kg and .5 l", [(1.5, "kg"), (0.5, "l")]),
        (
            "1.200 euro, 1,200.50 euro, 1'200 CHF, 12 500 €",
            [(1200, "EUR"), (1200.5, "EUR"), (1200, "CHF"), (12500, "EUR")],
        ),
        ("€99 or $1k", [(99, "EUR"), (1000, "USD")]),
        ("2 to 4 m, 20-40 cm", [(2, "m"), (4, "m"), (20, "cm"), (40, "cm")]),
        ("m8 5x60 1440p v1.2.3 kt4471b", []),
        ("Windows 11 512 GB", [(11, None), (512, "GB")]),
        ("96 square metres, 80 m², 10 km/h", [(96, "m²"), (80, "m²"), (10, "km/h")]),
        ("four rooms, drei Zimmer", [(4, None), (3, None)]),
        ("04'100 kg, 0.100.250 l, 0 300 cm", [(4.1, "kg"), (0.10025, "l"), (0.3, "cm")]),
    ],
)
def test_measures_by_hand(text: str, numbers: list[tuple[float, str | None]]) -> None:
    """Numbers with their units, in the spellings of three languages."""
    found = [(each.number, each.unit and each.unit.name) for each in measures_of(tokenize(text))]
    assert found == numbers


def test_words_are_alike_by_their_stems() -> None:
    """Endings of inflection make no difference; a compound names its parts, if these are long enough."""
    assert is_alike("onions", "onion")
    assert is_alike("batteries", "battery")
    assert is_alike("oeufs", "oeuf")
    assert not is_alike("car", "card")
    assert not is_alike("rust", "trust")
    assert names("ladekabel", "kabel")
    assert names("rohrzucker", "zucker")
    assert names("walnuts", "nuts")
    assert not names("corner", "corn")
    assert not names("acorn", "corn")
    assert not names("transparent", "rent")
    assert not names("coats", "oats")
    assert not names("hamster", "ham")
    assert not names("minute", "nuts")
    assert not names("nutshell", "nuts")
    assert not names("sugar", "sugarcane")
