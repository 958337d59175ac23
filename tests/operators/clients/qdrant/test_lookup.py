"""Ordered lookups over the real engine: whatever order it gives to equals, pages hold each record once."""

import asyncio
import itertools
import random
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant_edge.engine import EngineClient
from operators.clients.qdrant_edge.shards import Engine
from operators.collections.making import ensure
from operators.query.collection import Capabilities, Destinations
from operators.query.cursor import After, Cursor
from operators.query.legs import Searches
from operators.query.lookup import by_id, find_page, look_up
from operators.query.search import Search
from schemas.errors import BackendError
from schemas.settings import QdrantSettings
from tests.operators.samples import DIMENSION, capable, query, searches

pytestmark = pytest.mark.slow

KINDS = {"size": "integer", "price": "float", "due": "datetime"}
VALUES: dict[str, list[Any]] = {
    "size": [-3, 0, 1, 2**53],
    "price": [-0.5, 0.0, 1.0, 1.5],
    "due": ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000001Z", "1969-12-31T23:59:59.5Z", "2026-07-01T00:00:00Z"],
}
PLACES = Destinations({"default": "documents"})
FREE = Capabilities("documents")
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine with the collection `documents`, fields of every kind indexed."""
    path = tmp_path_factory.mktemp("engine")
    with Engine(path) as engine:
        names = QdrantSettings.model_validate({"path": path, "dimension": DIMENSION, "indexes": KINDS})
        asyncio.run(ensure(EngineClient(engine), names, 30))
        yield engine


async def pages(
    client: QdrantClient, written: Searches, event: dict[str, Any], able: Capabilities = FREE
) -> list[list[str]]:
    """Every page of the event's lookup, as ids."""
    asked = query(**event, text=None)
    asked.retrieval.capabilities = able
    found = []
    following: After | None = After(None, 0)
    while following is not None:
        asked.asked = replace(asked.asked, cursor=Cursor(b"", None, 0.0, following))
        [answer] = await client.run("documents", [written.write(asked)["structured"]], 30)
        assert not isinstance(answer, BackendError)
        page = find_page(answer.values, asked.asked.after, asked.asked.limit)
        found.append([answer.hits.ids[index] for index in page.indexes])
        following = page.ends[-1] if page.more else None
    return found


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=120),
    st.sampled_from(sorted(KINDS)),
    st.sampled_from(["asc", "desc"]),
    st.integers(1, 40),
    st.integers(1, 50),
    st.randoms(use_true_random=False),
)
def test_pages_hold_each_record_once(
    engine: Engine, drawn: list[int], field: str, direction: str, size: int, most: int, chance: random.Random
) -> None:
    """In the order of the field, those of one value by id, on pages of any size: as one page that holds them all.

    However few records the collection gives at a time. Of more than four times as many the ids are those of the points.
    """
    space = f"space-{next(numbers)}"
    ids = [str(uuid.uuid4()) for _ in drawn]
    names = dict(zip(ids, (f"n{number}" for number in chance.sample(range(100, 999), len(ids))), strict=True))
    points = [
        {"id": id_, "vector": {}, "payload": {"namespace": space, "id": names[id_], field: VALUES[field][value]}}
        for id_, value in zip(ids, drawn, strict=True)
    ]
    written = searches(destinations=PLACES, kinds=KINDS)
    there = {"field": field, "op": "exists", "value": True}
    order = {"field": field, "direction": direction}
    event = {"namespace": space, "filters": [there], "order_by": order, "limit": size}

    async def scenario() -> list[list[str]]:
        client = EngineClient(engine)
        await client.upsert("documents", points, timeout=30)
        return await pages(client, written, event, capable(FREE, max_query_limit=most))

    found = asyncio.run(scenario())
    values = sorted(VALUES[field]) if field != "due" else [VALUES[field][each] for each in (2, 0, 1, 3)]
    place = {id_: values.index(VALUES[field][value]) for id_, value in zip(ids, drawn, strict=True)}
    few = {value for value in place.values() if list(place.values()).count(value) <= 4 * most}
    by_names = sorted(ids, key=lambda id_: names[id_] if place[id_] in few else id_)
    expected = sorted(by_names, key=place.__getitem__, reverse=direction == "desc")
    assert [id_ for page in found for id_ in page] == expected
    assert [len(page) for page in found[:-1]] == [size] * (len(found) - 1)


async def test_times_of_any_year_are_paged(engine: Engine) -> None:
    """Qdrant has years that Python's calendar hasn't: those that are equal are asked for again all the same."""
    times = [f"{year}-02-28T23:59:59.000001Z" for year in ("-0500", "0000", "1969", "9999", "+12000")]
    points: list[dict[str, Any]] = [
        {"id": str(uuid.uuid4()), "vector": {}, "payload": {"namespace": "aeons", "due": time}}
        for time in times
        for _ in range(3)
    ]
    written = searches(destinations=PLACES, kinds=KINDS)
    there = [{"field": "due", "op": "exists", "value": True}]
    event = {"namespace": "aeons", "filters": there, "order_by": {"field": "due", "direction": "asc"}, "limit": 2}
    client = EngineClient(engine)
    await client.upsert("documents", points, timeout=30)
    found = await pages(client, written, event)
    ids = [point["id"] for point in points]
    expected = [id_ for start in range(0, len(ids), 3) for id_ in sorted(ids[start : start + 3])]
    assert [id_ for page in found for id_ in page] == expected


def test_integers_come_before_uuids() -> None:
    """Ids go as Qdrant has them: integers by value, then UUIDs."""
    high, low = "ffffffff-0000-4000-8000-000000000000", "00000000-0000-4000-8000-000000000000"
    assert sorted([high, "10", "9", low], key=by_id) == ["9", "10", low, high]


async def test_a_lookup_that_fails_is_an_error(tmp_path: Path) -> None:
    """Nothing of a lookup is kept if one of its requests fails."""
    with Engine(tmp_path) as engine:
        body = {"order_by": {"key": "x"}, "filter": {"must": []}, "with_payload": False, "limit": 1}
        search = Search(lambda: look_up(body, 1), query().trace)
        [found] = await EngineClient(engine).run("nowhere", [search], 30)
        assert isinstance(found, BackendError)
