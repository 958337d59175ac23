"""Areas against a plain reading of points, on the embedded Qdrant and on a server, with an index and without one."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing
from math import acos, cos, radians, sin
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from operators.access.filters import condition, matches_filter
from operators.clients.http.transport import Endpoint, http_transport
from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant.server import ServerClient
from operators.clients.qdrant_edge.engine import EngineClient
from operators.clients.qdrant_edge.shards import Engine
from schemas.geo import EARTH_RADIUS, Coordinates, GeoBox
from tests import qdrant_server
from tests.operators.access.test_filters import read
from tests.operators.access.test_filters_engine import DOCUMENTS, found
from tests.operators.clients.qdrant_edge.engine_requests import CREATED, done
from tests.tiers import sized

pytestmark = pytest.mark.slow

Connect = Callable[[], QdrantClient]
INDEXES = ("plain", "geo")
EDGE = 1e-4
"""Metres: points that are nearer to a circle are left out, for the sines of two libraries differ."""


def width(west: float, east: float) -> float:
    """The degrees of longitude from one to the other, towards the east: from -180 to 180 it is all of the earth."""
    return east - west if west <= east else east - west + 360


# Small whole degrees lie on borders and corners. At the poles themselves, an index misses points of other longitudes.
LATITUDES = st.integers(-4, 4) | st.floats(-89, 89)
LONGITUDES = st.integers(-4, 4) | st.sampled_from([-180, -179.5, 179.5, 180]) | st.floats(-180, 180)
POINTS = st.fixed_dictionaries({"lat": LATITUDES, "lon": LONGITUDES})
BOXED = st.fixed_dictionaries({"lat": LATITUDES | st.sampled_from([-90, 90]), "lon": LONGITUDES})
CORNERS = st.lists(
    st.fixed_dictionaries({"lat": st.integers(-4, 4), "lon": st.integers(-4, 4)}), min_size=3, max_size=7
)
EDGES = st.sampled_from([-180, -90, 0, 90, 180]), st.sampled_from([-90, -45, 0, 45, 90])
WIDE = st.builds(
    lambda lons, lats: [{"lat": lats[at // 2 % 2], "lon": lons[(at + 1) // 2 % 2]} for at in range(4)],
    *(st.lists(each, min_size=2, max_size=2, unique=True) for each in EDGES),
)
NO_POINT = st.sampled_from([None, 1, "0,0", [1, 2], {"lat": 1}, {"lat": "1", "lon": 2}, {"lat": True, "lon": 2}, []])
VALUES = POINTS | st.lists(POINTS | NO_POINT, max_size=3) | NO_POINT
PAYLOADS = st.fixed_dictionaries({}, optional={"g": VALUES, "v": st.lists(st.fixed_dictionaries({"g": VALUES}))})
AREAS = st.one_of(
    st.builds(lambda at, metres: ("geo_radius", {**at, "radius_m": metres}), POINTS, st.floats(1, 2.1e7)),
    st.builds(lambda one, other: ("geo_box", {"top_left": one, "bottom_right": other}), BOXED, BOXED).filter(
        lambda box: width(box[1]["top_left"]["lon"], box[1]["bottom_right"]["lon"]) <= 180
    ),
    st.builds(
        lambda ring, holes: ("geo_polygon", {"exterior": ring, "interiors": holes}), CORNERS | WIDE, st.lists(CORNERS)
    ),
)


@pytest.fixture(scope="module", params=["engine", "server"])
def connect(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connect]:
    """A Qdrant with a collection without an index, and one with it."""
    indexes = [{"field_name": name, "field_schema": "geo"} for name in ("g", "v[].g")]
    path = tmp_path_factory.mktemp("areas")
    if request.param == "engine":
        with Engine(path) as engine:
            for collection in INDEXES:
                done(engine, "PUT", f"/collections/{collection}", CREATED)
            for index in indexes:
                done(engine, "PUT", "/collections/geo/index", index)
            yield lambda: EngineClient(engine)
        return
    with qdrant_server.running(path / "server") as url, httpx.Client(base_url=url) as http:
        for collection in INDEXES:
            http.put(f"/collections/{collection}", json=CREATED).raise_for_status()
        for index in indexes:
            http.put("/collections/geo/index?wait=true", json=index).raise_for_status()
        yield lambda: ServerClient(Endpoint("qdrant", url, http_transport()))


def points(value: Any) -> list[tuple[float, float]]:
    """The points of a value."""
    elements = value if isinstance(value, list) else [value]
    found = [each for each in elements if isinstance(each, dict) and {"lat", "lon"} == each.keys()]
    return [(at["lat"], at["lon"]) for at in found if {type(at["lat"]), type(at["lon"])} <= {int, float}]


def metres(one: tuple[float, float], other: tuple[float, float]) -> float:
    """The distance by the spherical law of cosines."""
    (a, b), (c, d) = (map(radians, each) for each in (one, other))
    return EARTH_RADIUS * acos(max(-1.0, min(1.0, sin(a) * sin(c) + cos(a) * cos(c) * cos(b - d))))


def on_edge(op: str, area: dict[str, Any], payload: dict[str, Any]) -> bool:
    """True if a point is so near to a circle that two libraries may differ."""
    values = [payload.get("g"), *(each["g"] for each in payload.get("v", ()))]
    centre = Coordinates(area["lat"], area["lon"]) if op == "geo_radius" else None
    found = [Coordinates(*at) for each in values for at in points(each)]
    return centre is not None and any(abs(centre.distance(at) - area["radius_m"]) < EDGE for at in found)


@pytest.mark.parametrize("collection", INDEXES)
@settings(max_examples=sized(20, nightly=200))
@given(data=st.data())
def test_an_area_has_the_same_points_for_qdrant_and_the_check(
    connect: Connect, collection: str, data: st.DataObject
) -> None:
    """Circles, boxes and polygons with holes, on borders and corners, over the poles and the 180th meridian."""
    documents = data.draw(st.lists(PAYLOADS, min_size=DOCUMENTS, max_size=DOCUMENTS))
    areas = data.draw(st.lists(AREAS, min_size=6, max_size=6))
    fields = data.draw(st.lists(st.sampled_from(["g", "v[].g", "v.g"]), min_size=6, max_size=6))
    wanted = [read({"field": name, "op": op, "value": area}) for name, (op, area) in zip(fields, areas, strict=True)]

    async def ask() -> list[set[int]]:
        async with aclosing(connect()) as client:
            return await found(client, collection, documents, [[each] for each in wanted])

    for each, (op, area), numbers in zip(wanted, areas, asyncio.run(ask()), strict=True):
        clear = {index for index, payload in enumerate(documents) if not on_edge(op, area, payload)}
        checked = {index for index, payload in enumerate(documents) if matches_filter(each, payload)}
        assert numbers & clear == checked & clear, each


@pytest.mark.parametrize(("west", "east"), [(3, 0), (-180, 180), (-180, 1), (179, 0)])
def test_a_box_is_half_the_earth_at_most(west: float, east: float) -> None:
    """Of a wider one, an index finds a part or nothing."""
    with pytest.raises(ValidationError, match="ask for two boxes"):
        GeoBox.model_validate({"top_left": {"lat": 4, "lon": west}, "bottom_right": {"lat": -50, "lon": east}})


@given(POINTS, POINTS)
def test_a_distance_is_that_of_the_sphere(one: dict[str, float], other: dict[str, float]) -> None:
    """As the law of cosines has it, but for its own rounding: a metre at most."""
    here, there = ((each["lat"], each["lon"]) for each in (one, other))
    assert abs(Coordinates(*here).distance(Coordinates(*there)) - metres(here, there)) < 1


SQUARE = [{"lat": lat, "lon": lon} for lat, lon in ((0, 0), (0, 9), (9, 9), (9, 0))]
HOLE = [{"lat": lat, "lon": lon} for lat, lon in ((3, 3), (3, 6), (6, 6), (6, 3))]


@pytest.mark.parametrize(
    ("op", "area", "lat", "lon", "inside"),
    [
        # One degree of a meridian is EARTH_RADIUS * pi / 180 = 111,195.08 m.
        ("geo_radius", {"lat": 50, "lon": 8, "radius_m": 111_195}, 51, 8, False),
        ("geo_radius", {"lat": 50, "lon": 8, "radius_m": 111_196}, 51, 8, True),
        ("geo_radius", {"lat": 0, "lon": 180, "radius_m": 20_000}, 0, -179.9, True),
        ("geo_box", {"top_left": SQUARE[3], "bottom_right": SQUARE[1]}, 5, 5, True),
        ("geo_box", {"top_left": SQUARE[3], "bottom_right": SQUARE[1]}, 9, 5, False),
        ("geo_box", {"top_left": {"lat": 1, "lon": 179}, "bottom_right": {"lat": -1, "lon": -179}}, 0, 180, True),
        ("geo_box", {"top_left": {"lat": 1, "lon": 179}, "bottom_right": {"lat": -1, "lon": -179}}, 0, 0, False),
        ("geo_polygon", {"exterior": SQUARE}, 4, 4, True),
        ("geo_polygon", {"exterior": SQUARE, "interiors": [HOLE]}, 4, 4, False),
        ("geo_polygon", {"exterior": SQUARE, "interiors": [HOLE]}, 3, 4, False),
        ("geo_polygon", {"exterior": [*SQUARE, SQUARE[0]]}, 9, 9, False),
    ],
)
def test_an_area_has_no_border(op: str, area: Any, lat: float, lon: float, inside: bool) -> None:
    """Worked by hand."""
    assert matches_filter(read({"field": "g", "op": op, "value": area}), {"g": {"lat": lat, "lon": lon}}) is inside
    assert set(condition(read({"field": "g", "op": op, "value": area}))) >= {"key"}
