"""The stage `wishes` where the fields of documents have other names than in the index."""

from typing import Any

import pytest

from operators.ranking.run import Wording
from tests.operators.ranking.test_wishes import fails


@pytest.mark.parametrize(
    ("text", "called", "documents", "expected"),
    [
        ("lamp under 100 euro", {"a": "Preis (€)"}, [{"a": 80}, {"a": 120}], [0, 1]),
        ("lamp under 100 euro", {"a": "Price [$]"}, [{"a": 80}, {"a": 120}], [0, 0]),
        ("Wohnung ab 80 qm", {"a": "Wohnfläche (m²)"}, [{"a": 96}, {"a": 60}], [0, 1]),
        ("car with more than 200 km/h", {"a": "top speed (km/h)"}, [{"a": 220}, {"a": 190}], [0, 1]),
        ("welder from 40000 euro", {"a": "Gehalt von", "b": "Gehalt bis"}, [{"a": 1, "b": 45_000}, {"b": 1}], [0, 1]),
        ("lamp under 50", {"price": "Budget"}, [{"price": 30}, {"price": 70}], [0, 1]),
        ("tickets csat under 3", {"a": "CSAT"}, [{"a": 2}, {"a": 4}], [0, 1]),
        ("lamp under 50", {}, [{"a": 30}, {"a": 70}], [0, 0]),
    ],
)
def test_a_field_is_known_by_its_name_in_documents(
    text: str, called: dict[str, str], documents: list[Any], expected: list[float]
) -> None:
    """And by that in the index; the signs of units in either count, and the ends of a range."""
    wording = Wording(own_name=lambda name: called.get(name, name))
    assert fails(text, *documents, wording=wording) == expected
