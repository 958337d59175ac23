"""Places: each destination and each part of it in its collection, and nobody's documents among another's."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.assembly import query as assembly
from operators.query.collection import Destinations
from schemas.errors import DeadLetterClass, InputError
from schemas.settings import QdrantSettings

PLACES = Destinations(
    {"default": "documents", "diary": "documents", "shop": "goods"},
    {"default": {"notes": "notes"}, "shop": {"old": "notes", "gone": "archive"}},
)


@pytest.mark.parametrize(
    ("destination", "part", "collection"),
    [
        ("default", None, "documents"),
        ("diary", None, "documents"),
        ("default", "notes", "notes"),
        ("shop", "old", "notes"),
        ("shop", "gone", "archive"),
    ],
)
def test_a_place_is_a_collection(destination: str, part: str | None, collection: str) -> None:
    """The destination's own collection, or that of its part."""
    assert PLACES.collection(destination, part) == collection


@pytest.mark.parametrize(
    ("destination", "part", "said"),
    [
        ("moon", None, "destination: not configured ('moon')"),
        ("moon", "notes", "destination: not configured ('moon')"),
        ("default", "old", "collection: not configured for this destination ('old')"),
        ("diary", "notes", "collection: not configured for this destination ('notes')"),
    ],
)
def test_another_place_is_an_error(destination: str, part: str | None, said: str) -> None:
    """A destination that isn't configured is refused by name; a part of one destination is none of another."""
    with pytest.raises(InputError) as caught:
        PLACES.collection(destination, part)
    assert (caught.value.kind, str(caught.value)) == (DeadLetterClass.INVALID, said)


@pytest.mark.parametrize(
    ("destination", "collection", "shared"),
    [("default", "documents", True), ("shop", "goods", False), ("shop", "notes", True), ("shop", "archive", False)],
)
def test_documents_are_told_apart_where_they_must_be(destination: str, collection: str, shared: bool) -> None:
    """A collection of several destinations is searched for one's own; a collection of one needs no condition."""
    conditions = [{"key": "destination", "match": {"value": destination}}]
    assert PLACES.conditions(destination, collection) == (conditions if shared else [])


COLLECTIONS = st.sampled_from("abcd")
PARTS = st.dictionaries(st.sampled_from("xyz"), COLLECTIONS, max_size=3)


@given(st.dictionaries(st.sampled_from("DEF"), st.tuples(COLLECTIONS, PARTS), min_size=1))
def test_no_two_places_look_alike(configured: dict[str, Any]) -> None:
    """However destinations and parts share collections, as far as the settings take it, no two are searched alike."""
    destinations = {name: collection for name, (collection, _) in configured.items()}
    collections = {name: parts for name, (_, parts) in configured.items()}
    try:
        settings = QdrantSettings(url="http://q", destinations=destinations, collections=collections)
    except ValueError:
        return
    held_by = assembly.destinations(settings)
    searched = [
        (held, str(held_by.conditions(name, held)))
        for name in destinations
        for held in (held_by.collection(name, part) for part in (None, *collections[name]))
    ]
    assert len(set(searched)) == len(searched)
