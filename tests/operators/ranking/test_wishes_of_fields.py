"""The stage `wishes`: words of the query name the fields that decide, and a number of nothing is an amount."""

from typing import Any

import pytest

from operators.ranking.run import Wording
from operators.ranking.wishes import UNKNOWN
from tests.operators.ranking.pools import ids
from tests.operators.ranking.test_wishes import fails, judge

ACQUIRED: list[dict[str, Any]] = [
    {"created_at": "2021-05-01", "painted": 2019},
    {"created_at": "2019-05-01", "painted": 2022},
]


@pytest.mark.parametrize(
    ("text", "documents", "expected"),
    [
        ("flat under 900 valencia", [{"rent": 850}, {"rent": 950}, {"city": "Valencia"}], [0, 1, 0.5]),
        ("flat below 1000 dates", [{"rent": 850, "dates": 2000}, {"rent": 950, "dates": 20}], [1, 0]),
        ("flat with up to 500 euros", [{"rent": 400}, {"rent": 600}], [0, 1]),
        ("hall below 500 valencia", [{"rent": 850}, {"rent": 950}], [0, 0]),
        ("salad with max 3 ingredients", [{"ingredients": ["a", "b", "c"]}, {"ingredients": [*"abcd"]}], [0, 1]),
        ("salad with max 3 ingredients", [{"ingredients": "a, b, c, d"}, {"ingredients": 2}], [UNKNOWN, 0]),
        ("sleeps at least 6", [{"sleeps": 6, "rent": 5}, {"sleeps": 4, "rent": 50}], [0, 1]),
        ("house serves at least 6", [{"sleeps": 6, "rent": 5}, {"sleeps": 4, "rent": 50}], [0, 1]),
        ("flat with at least 3 bedrooms", [{"beds": 3}, {"beds": 2}, "Three bedrooms"], [0, 1, 0]),
        ("portraits acquired after 2020", [{"acquired": "2021-02-03", "painted": 1642}, {"acquired": 2019}], [0, 1]),
        ("portraits painted before 1900", [{"acquired": "2021-02-03", "painted": 1642}, {"painted": 1932}], [0, 1]),
        (
            "pages published after 2018",
            [{"pages": 2019, "published": 2001}, {"pages": 1500, "published": 2022}],
            [1, 0],
        ),
    ],
)
def test_a_limit_is_one_of_the_named_field(text: str, documents: list[Any], expected: list[float]) -> None:
    """Without such a field or text it is a price, if that divides the documents."""
    assert fails(text, *documents) == expected


@pytest.mark.parametrize(("text", "expected"), [("acquired after 2020", [0, 1]), ("painted after 2020", [1, 0])])
def test_a_time_of_the_index_is_named_as_in_documents(text: str, expected: list[float]) -> None:
    """The verb names the field, also that which is the documents' time in the index."""
    wording = Wording(own_name=lambda name: {"created_at": "acquired"}.get(name, name))
    assert fails(f"portraits {text}", *ACQUIRED, wording=wording) == expected


@pytest.mark.parametrize(
    ("text", "documents", "expected"),
    [
        ("flat, no pets", [{"pets": "no"}, {"pets": "allowed"}, {"pets": False}, {"pets_allowed": True}], [0, 1, 0, 1]),
        (
            "flat without fees",
            [{"fees": 0}, {"fees": 150}, {"offer": {"fee_eur": 0.0}}, {"fees": [0, 9]}],
            [0, 1, 0, 1],
        ),
        ("jam without sugar", [{"sugar_free": True}, {"sugar_free": "yes"}, {"sugar_free": "false"}], [0, 0, 1]),
        ("flat without fees", [{"fees": 150, "title": "Flat, no fees"}, {"length_of_fees": 3}], [0, UNKNOWN]),
        ("camera without battery", [{"battery": None}, {"battery": ""}, {"battery": "AA"}], [UNKNOWN, 0, 1]),
    ],
)
def test_a_field_of_the_excluded_name_tells(text: str, documents: list[Any], expected: list[float]) -> None:
    """By its value: nothing of it, or something; a name of more words is about something else."""
    assert fails(text, *documents) == expected


@pytest.mark.parametrize(
    ("text", "documents", "expected"),
    [
        ("lasagne without meat", ["Lasagne with minced beef", "Vegan lasagne", "Lasagne"], [1, 0, UNKNOWN]),
        ("Nudeln ohne Fleisch", ["Nudeln mit Schinken", "Vegetarische Nudeln", "Nudeln mit Lachs"], [1, 0, UNKNOWN]),
        ("gâteau sans noix", ["Gâteau aux amandes", "Gâteau aux pommes"], [1, UNKNOWN]),
        ("punch without alcohol", ["Punch with red wine", "Alcohol-free punch", "Punch with tea"], [1, 0, UNKNOWN]),
        ("soup without dairy", ["Soup with cream", "Soup, no cream", "Soup, dairy-free", "Vegan"], [1, UNKNOWN, 0, 0]),
        ("soup without dairy", ["Soup with coconut milk", "Soup with coconut milk and butter"], [UNKNOWN, 1]),
        ("stew without meat", ["Stew, no beef, with pork", "Stew without beef"], [1, UNKNOWN]),
        ("salad without milk", ["Vegan salad", "Vegetarian salad", "Salad with butter"], [0, UNKNOWN, UNKNOWN]),
    ],
)
def test_a_kind_of_the_excluded_thing_is_in_it(text: str, documents: list[Any], expected: list[float]) -> None:
    """Beef is meat; what is vegan is without; and one kind that is left out says nothing of the others."""
    assert fails(text, *documents) == expected


GUITARS: dict[str, dict[str, Any]] = {
    "a": {"title": "Guitar", "category": "Music > Guitars", "price": 250, "year": 2001},
    "b": {"title": "Guitar strap", "category": "Accessories", "price": 25, "year": 2020},
    "c": {"title": "Blue guitar", "category": "Guitars", "price": 90, "color": "blue"},
    "d": {"title": "Guitar book, blue", "color": "dark blue", "price": 10},
}


@pytest.mark.parametrize(
    ("text", "first"),
    [("cheapest guitar", "c"), ("most expensive guitars", "a"), ("cheapest strap", "d"), ("newest music", "a")],
)
def test_an_order_is_of_the_kind_that_is_named(text: str, first: str) -> None:
    """By whole values of a field; otherwise all that are about as relevant are ordered."""
    assert ids(judge(text, GUITARS)[0].candidates)[0] == first


def test_a_hidden_kind_orders_nothing() -> None:
    """Fields that the source may not see say nothing."""
    seen = lambda payload: {name: value for name, value in payload.items() if name != "category"}  # noqa: E731
    assert ids(judge("cheapest guitar", GUITARS, visible=seen)[0].candidates)[0] == "d"


def test_the_field_of_an_order_is_one_that_its_documents_have() -> None:
    """Though more candidates of another kind have another one."""
    books = {id_: {"title": "Python", "category": "Book", "year": year} for id_, year in (("a", 2020), ("b", 2024))}
    events = {id_: {"title": "Event", "category": "Concert", "date": "2026-12-01"} for id_ in "cde"}
    assert ids(judge("newest book", {**books, **events})[0].candidates)[0] == "b"
