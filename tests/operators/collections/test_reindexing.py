"""Reindexing: when a new index has caught up, and what differs between two."""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import orjson
from hypothesis import given
from hypothesis import strategies as st

from operators.collections.notes import Generation, collection_metadata
from operators.collections.reindexing import CLOSE, CatchUp, differing
from operators.collections.survey import Choice, resolve_collection
from schemas.settings.qdrant import Bm25Settings
from tests.operators.clients.qdrant.transports import qdrant

OFFSETS = st.dictionaries(st.integers(0, 3), st.integers(0, 50), min_size=1)


@given(looks=st.lists(st.tuples(OFFSETS, OFFSETS, st.floats(0, 2 * CLOSE))))
def test_it_has_caught_up_with_what_the_topic_had_a_moment_ago(looks: list[tuple[Any, Any, float]]) -> None:
    """Whenever it says so, all is committed that an earlier look, at most CLOSE seconds ago, found in the topic."""
    catching_up, now = CatchUp(), 0.0
    earlier: list[tuple[float, Mapping[int, int]]] = []
    for ends, committed, later in looks:
        now += later
        if catching_up.observe(ends, committed, now):
            assert any(
                now - moment <= CLOSE and all(committed.get(number, 0) >= end for number, end in goal.items())
                for moment, goal in earlier
            )
        earlier.append((now, ends))


def test_what_stays_behind_is_not_caught_up_with() -> None:
    """Events that are not applied keep the switch back, however often it looks; the second look without any ends it."""
    catching_up = CatchUp()
    assert not any(catching_up.observe({0: 10}, {0: 9}, each) for each in range(20))
    assert not catching_up.observe({0: 10}, {0: 10}, 21.0)
    assert catching_up.observe({0: 10}, {0: 10}, 21.5)


def test_counts_differ_by_namespace() -> None:
    """A namespace that lost documents is named although another one gained as many, apart from unread events."""
    assert differing({"a": 3, "b": 3}, {"a": 2, "b": 4}, 0) == {"a": (3, 2), "b": (3, 4)}
    assert differing({"a": 3}, {"b": 1}, 1) == {"a": (3, 0)}


def _note(settings: str, generation: Generation | None = None) -> Mapping[str, Any]:
    return collection_metadata(Bm25Settings(), making=settings, generation=generation)


def _used(config: str, present: str | None, aliases: Mapping[str, str], **noted: Mapping[str, Any]) -> str:
    """The collection that a flow of these settings uses for `documents`, where these collections note so."""

    class Server(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            name = request.url.path.removeprefix("/collections/").replace("-", "_")
            if name not in noted:
                return httpx.Response(404, json={"status": {"error": "Not found: Collection"}})
            described = {"config": {"params": {}, "metadata": noted[name]}}
            return httpx.Response(200, content=orjson.dumps({"result": described, "status": "ok", "time": 0.0}))

    choice = Choice(lambda _: config, *(("g2", "g1") if config == "indexing" else (None, None)))
    return asyncio.run(resolve_collection(qdrant(Server()), "documents", aliases, choice, 5.0, present)).physical


def test_a_flow_uses_the_generation_of_its_settings() -> None:
    """It follows the alias to a collection of its own settings, and else stays, or finds the one that was made so."""
    there = {"documents": _note("old"), "documents_2": _note("new", Generation("g", "documents"))}
    switched = {"documents.rankstream": "documents-2"}
    assert _used("old", None, {}, **there) == "documents"
    assert _used("new", "documents", switched, **there) == "documents-2"
    assert _used("old", "documents", switched, **there) == "documents"
    assert _used("old", None, switched, **there) == "documents"
    assert _used("other", None, switched, **there) == "documents-2"
    assert _used("old", "documents", switched, documents_2=there["documents_2"]) == "documents-2"
    assert _used("new", "documents-2", {}, **there) == "documents-2"


def test_an_indexing_flow_stays_with_the_collection_of_its_group() -> None:
    """Settings that fit are not enough: another group's offsets do not stand for what it has read."""
    there = {"documents_2": _note("indexing", Generation("g2")), "documents_3": _note("indexing", Generation("g3"))}
    assert _used("indexing", "documents-2", {"documents": "documents-3"}, **there) == "documents-2"
    assert _used("indexing", "documents-3", {"documents": "documents-2"}, **there) == "documents-2"
