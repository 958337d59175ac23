"""Distances: searches are ordered by them, results have them, and what cannot be ordered or seen is refused."""

from dataclasses import replace
from typing import Any

import pytest

from operators.query.in_flight import InFlight
from operators.stages.fuse import fuse_legs
from operators.stages.rerank import rank
from schemas.errors import DeadLetterClass, InputError
from tests.operators.indexing.documents import decoder
from tests.operators.ranking.pools import vector
from tests.operators.samples import STRICT, admission, message, query
from tests.operators.stages.test_admit import Told
from tests.operators.stages.test_publish import published

BERLIN = {"lat": 52.5, "lon": 13.4}
DEGREE = 111_195.08
"""Metres: 6,371,008.8 * pi / 180."""

SHOPS: dict[str, Any] = {
    "far": {"at": {"lat": 54.5, "lon": 13.4}},
    "none": {},
    "near": {"at": [{"lat": 53.5, "lon": 13.4}, {"lat": 60.5, "lon": 13.4}]},
    "listed": {"shops": [{"at": {"lat": 49.5, "lon": 13.4}}], "at": {"lat": 49.5, "lon": 13.4}},
}


def ranked(**event: Any) -> InFlight:
    """A query that found the shops, ranked to the end, with their payloads."""
    asked = query(now=1_700_000_000, **event)
    asked.outcome.legs = {"vector": vector(*((id_, 0.5) for id_ in SHOPS), payloads=SHOPS)}
    asked = rank(fuse_legs(asked))
    asked.outcome.payloads = {**SHOPS}
    return asked


@pytest.mark.parametrize(
    ("direction", "order"), [("asc", ["near", "far", "listed", "none"]), ("desc", ["near", "listed", "far", "none"])]
)
def test_a_search_is_ordered_by_distance(direction: str, order: list[str]) -> None:
    """Of several points the first in the order counts; results say the distance to the nearest, in metres."""
    asked = ranked(order_by={"geo_distance": {"field": "at", **BERLIN}, "direction": direction})
    hits = published(asked)["results"]
    assert [hit["id"] for hit in hits] == order
    expected = {"near": DEGREE, "far": 2 * DEGREE, "listed": 3 * DEGREE}
    assert {hit["id"]: hit["distance_m"] for hit in hits if "distance_m" in hit} == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize("field", ["shops[].at", "shops.at"])
def test_a_circle_says_the_distance(field: str) -> None:
    """Also in a group, and of the points of the objects in a list; without one, results have none."""
    circle = {"field": field, "op": "geo_radius", "value": {**BERLIN, "radius_m": 1e6}}
    [hit] = [hit for hit in published(ranked(filters=[{"any_of": [circle]}]))["results"] if "distance_m" in hit]
    assert (hit["id"], hit["distance_m"]) == ("listed", pytest.approx(3 * DEGREE, abs=0.1))
    assert not any("distance_m" in hit for hit in published(ranked())["results"])


def test_a_lookup_by_distance_needs_an_index_where_filters_need_one() -> None:
    """It counts documents in circles, which a collection's strict mode refuses without an index."""
    event: dict[str, Any] = {"text": None, "subject": "s", "order_by": {"geo_distance": {"field": "at", **BERLIN}}}
    admission()(query(**event))
    strict: Any = Told(limits=STRICT)
    with pytest.raises(InputError, match=r"order_by\.geo_distance\.field: .*no index of type geo"):
        admission(catalogue=strict)(query(**event))


@pytest.mark.parametrize(
    "event",
    [
        {"order_by": {"geo_distance": {"field": "at", **BERLIN}}},
        {"filters": [{"field": "at", "op": "geo_radius", "value": {**BERLIN, "radius_m": 5}}]},
        {"filters": [{"field": "at[].b", "op": "is_null"}]},
    ],
)
def test_a_hidden_point_is_neither_a_filter_nor_an_order(event: Any) -> None:
    """A source that must not see a field does not learn it by distances."""
    asked = query(**event)
    asked.asked = replace(asked.asked, plan=replace(asked.asked.plan, hidden=("at",)))
    with pytest.raises(InputError, match="the policy of the query's source hides this field"):
        admission()(asked)


@pytest.mark.parametrize("order", [{}, {"field": "a", "geo_distance": {"field": "at", **BERLIN}}])
def test_an_order_is_one(order: Any) -> None:
    """By a field or by a distance."""
    with pytest.raises(InputError, match="order_by: one of field and geo_distance is expected"):
        query(order_by=order)


@pytest.mark.parametrize(
    "value", ["52.5,13.4", [13.4, 52.5], {"lat": 52.5}, {"lat": 91, "lon": 0}, {"lat": 0, "lon": 181}]
)
def test_a_document_whose_place_is_none_is_refused(value: Any) -> None:
    """An index of points wants points; without one, it is a value like any other."""
    event = {"id": "d", "text": "t", "shop": {"at": value}}
    decoder()(message(event))
    with pytest.raises(InputError, match=r"shop\.at: a point \{lat, lon\} is expected") as refused:
        replace(decoder(), geo_fields=("shop.at",))(message(event))
    assert refused.value.kind is DeadLetterClass.INVALID
    for fine in (BERLIN, [BERLIN, BERLIN], [], None):
        replace(decoder(), geo_fields=("shop.at",))(message({**event, "shop": {"at": fine}}))
