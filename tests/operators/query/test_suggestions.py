"""Names that were likely meant."""

import pytest

from operators.query.zero_results import suggest

KNOWN = ["address.city", "brand", "cited", "variants[].size"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("city", "address.city"),
        ("size", "variants[].size"),
        ("brnad", "brand"),
        ("adress.city", "address.city"),
    ],
)
def test_a_name_within_objects_is_known_by_its_end(name: str, meant: str) -> None:
    """The end of a path goes before a name that is only like it, as `cited` is like `city`."""
    assert suggest(name, KNOWN) == f"; did you mean `{meant}`?"


def test_what_is_like_no_name_has_no_suggestion() -> None:
    """Neither by its end, nor by its letters."""
    assert suggest("colour", KNOWN) == ""
