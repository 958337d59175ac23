"""Lookups by distance beside a naive reading, on the embedded Qdrant and on a server."""

import asyncio
import itertools
import uuid
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.access.indexes import Ask
from operators.clients.http.transport import Endpoint, http_transport
from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant.server import ServerClient
from operators.clients.qdrant_edge.engine import EngineClient
from operators.clients.qdrant_edge.shards import Engine
from operators.collections.making import ensure
from operators.query.collection import Capabilities
from operators.query.lookup import by_id
from schemas.geo import Coordinates
from schemas.settings import QdrantSettings
from tests import qdrant_server
from tests.operators.clients.qdrant.test_lookup import PLACES, pages
from tests.operators.samples import DIMENSION, capable, searches
from tests.tiers import sized

pytestmark = pytest.mark.slow

Connect = Callable[[], QdrantClient]
INDEXED = Capabilities("documents", fields={name: frozenset({Ask.GEO}) for name in ("g", "v[].g")})
numbers = itertools.count(1)

# Many are at one place, and some at two or at none.
LATITUDES = st.integers(-2, 2) | st.floats(-89, 89)
LONGITUDES = st.integers(-2, 2) | st.sampled_from([-180, -179.5, 180]) | st.floats(-180, 180)
POINTS = st.fixed_dictionaries({"lat": LATITUDES, "lon": LONGITUDES})
PAYLOADS = st.one_of(
    st.fixed_dictionaries({"g": POINTS | st.lists(POINTS, max_size=2)}),
    st.fixed_dictionaries({"v": st.lists(st.fixed_dictionaries({"g": POINTS}), max_size=2)}),
)


@pytest.fixture(scope="module", params=["engine", "server"])
def connect(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connect]:
    """A Qdrant with the collection `documents`."""
    path = tmp_path_factory.mktemp("nearest")
    names = QdrantSettings.model_validate(
        {"path": path, "dimension": DIMENSION, "indexes": {"g": "geo", "v[].g": "geo"}}
    )

    async def make(client: QdrantClient) -> None:
        async with aclosing(client):
            await ensure(client, names, 30)

    if request.param == "engine":
        with Engine(path) as engine:
            asyncio.run(make(EngineClient(engine)))
            yield lambda: EngineClient(engine)
        return
    with qdrant_server.running(path / "server") as url:
        endpoint = Endpoint("qdrant", url, http_transport())
        asyncio.run(make(ServerClient(endpoint)))
        yield lambda: ServerClient(Endpoint("qdrant", url, http_transport()))


def distances(payload: dict[str, Any], field: str, here: Coordinates) -> list[float]:
    """Metres to each point of a document's field."""
    values = [payload.get("g")] if field == "g" else [each.get("g") for each in payload.get("v", [])]
    points = [each for value in values for each in (value if isinstance(value, list) else [value]) if each]
    return [here.distance(Coordinates(**each)) for each in points]


@settings(max_examples=sized(15, nightly=200))
@given(
    st.lists(PAYLOADS, max_size=40),
    POINTS,
    st.sampled_from(["g", "v[].g", "v.g"]),
    st.sampled_from(["asc", "desc"]),
    st.integers(1, 20),
    st.integers(1, 50),
)
def test_pages_are_in_the_order_of_distances(
    connect: Connect,
    drawn: list[dict[str, Any]],
    here: dict[str, float],
    field: str,
    direction: str,
    size: int,
    most: int,
) -> None:
    """Each document with a point once, by its nearest point or its farthest one, and those of one distance by id.

    Also where the collection gives few records at a time, so that circles are counted.
    """
    space = f"space-{next(numbers)}"
    points: list[dict[str, Any]] = [
        {
            "id": str(uuid.uuid4()),
            "vector": {},
            "payload": {"namespace": space, "subject": "s", "id": f"d{number}", **payload},
        }
        for number, payload in enumerate(drawn)
    ]
    order = {"geo_distance": {"field": field, **here}, "direction": direction}
    event = {"namespace": space, "subject": "s", "order_by": order, "limit": size}
    written = searches(destinations=PLACES)

    async def scenario() -> list[list[str]]:
        async with aclosing(connect()) as client:
            await client.upsert("documents", points, timeout=30)
            return await pages(client, written, event, capable(INDEXED, max_query_limit=most))

    found = asyncio.run(scenario())
    there = Coordinates(**here)
    first = min if direction == "asc" else max
    known = {each["id"]: distances(each["payload"], field, there) for each in points}
    expected = sorted(
        (each for each in points if known[each["id"]]),
        key=lambda each: (
            first(known[each["id"]]) * (1 if direction == "asc" else -1),
            *by_id(each["payload"]["id"]),
        ),
    )
    assert sorted(id_ for page in found for id_ in page) == sorted(each["id"] for each in expected)
    assert [len(page) for page in found[:-1]] == [size] * (len(found) - 1)
    metres = [first(known[id_]) for page in found for id_ in page]
    assert metres == pytest.approx([first(known[each["id"]]) for each in expected], abs=0.2)
    if direction == "asc":
        assert [id_ for page in found for id_ in page] == [each["id"] for each in expected]
