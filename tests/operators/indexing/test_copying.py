"""Copying: a collection that was copied is the one that the same events would have made."""

import asyncio
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant_edge.shards import Engine
from operators.indexing.copying import Copier
from operators.indexing.document import EventInFlight
from operators.query.collection import Destinations
from schemas.document import LEFT
from tests.operators.indexing.documents import decoder
from tests.operators.indexing.neighbours import TIMEOUT, Index
from tests.operators.indexing.neighbours import settings as configured
from tests.operators.samples import DIMENSION, message
from tests.qdrant_server.transport import ServerTransport
from tests.tiers import sized

Event = dict[str, Any]

_NUMBERS = itertools.count()


class Copied:
    """A collection, and one that is made of it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.before = Index(engine, configured())
        named = configured().model_copy(update={"destinations": {"default": "copied"}})
        self.after = Index(engine, named)
        for each in (self.before, self.after):
            asyncio.run(each.create())

    def clear(self) -> None:
        """Delete all points."""
        for name in ("documents", "copied"):
            asyncio.run(self.after.client(ServerTransport(self.engine)).delete(name, {}, timeout=TIMEOUT))

    def copy(self, **changes: Any) -> int:
        """Copy all pages; the number of documents."""

        async def pages(copier: Copier) -> int:
            copied, offset = await copier.copy_page("documents", "copied", None)
            while offset is not None:
                number, offset = await copier.copy_page("documents", "copied", offset)
                copied += number
            return copied

        client: QdrantClient = self.after.client(ServerTransport(self.engine))
        placing = decoder(destinations=Destinations({"default": "copied"}), **changes)
        return asyncio.run(pages(Copier(client, placing, self.after.stages(client), "dense", TIMEOUT)))

    def write(self, index: Index, events: Sequence[Event]) -> None:
        """Apply events, whose records have the time `at`; a patch may find no document."""
        name = index.settings.destinations["default"]
        read = decoder()
        records = [
            message({name: each[name] for name in each if name != "at"}, timestamp=each.get("at", 1.0))
            for each in events
        ]
        made: list[EventInFlight] = [replace(read(each), collection=name) for each in records]
        client = index.client(ServerTransport(self.engine))

        async def through() -> None:
            for stage in index.stages(client):
                await stage.call("documents", made, TIMEOUT)

        asyncio.run(through())

    def points(self, index: Index, namespace: str) -> list[Mapping[str, Any]]:
        """The points of a namespace's documents.

        Without the mark of documents that left a context: none has left that of a copy. Numbers are rounded: a vector
        that is read and written again may differ in its last digit.
        """
        found = [each for each in index.points() if each["payload"].get("namespace") == namespace]
        for each in found:
            each["payload"].pop(LEFT, None)
        rounded = json.loads(json.dumps(found), parse_float=lambda text: round(float(text), 5))
        return sorted(rounded, key=lambda point: str(point["id"]))


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copied]:
    """Two collections on one engine."""
    with Engine(tmp_path_factory.mktemp("engine")) as engine:
        yield Copied(engine)


FIELDS = st.dictionaries(st.sampled_from(["price", "stock", "turn"]), st.none() | st.integers(0, 9), min_size=1)


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Upserts, patches and deletions of two documents, and deletions of many, with versions in any order."""
    events: list[Event] = []
    for _ in range(draw(st.integers(1, 7))):
        kind = draw(st.sampled_from(["upsert", "upsert", "patch", "patch", "delete", "delete_where"]))
        event: Event = {"op": kind, "at": float(draw(st.integers(1, 9)))}
        if draw(st.booleans()):
            event["updated_at"] = event["at"]
        if kind == "delete_where":
            filters = [[], [{"field": "labels", "op": "any_of", "value": ["old"]}]]
            events.append({**event, "filters": draw(st.sampled_from(filters))})
            continue
        event["id"] = draw(st.sampled_from("ab"))
        if kind == "upsert":
            vector = [float(draw(st.integers(1, 5)))] * DIMENSION
            event |= {"text": draw(st.sampled_from(["blue lantern", "red"])), "vector": vector, "session": "s"}
            event |= {"labels": draw(st.sampled_from([["old"], ["new"]]))}
        if kind != "delete":
            event |= draw(FIELDS)
        events.append(event)
    return events


LANTERN: Event = {"id": "a", "op": "upsert", "text": "red", "vector": [1.0] * DIMENSION, "labels": ["new"], "turn": 1}
PATCHED = [{**LANTERN, "at": 2.0}, {"id": "a", "op": "patch", "price": 7, "at": 6.0}]


@settings(max_examples=sized(20, nightly=300), deadline=None)
@given(histories(), histories())
@example(PATCHED, [{**LANTERN, "price": 4, "at": 4.0}])
@example([*PATCHED, {"op": "delete_where", "filters": [], "at": 1.0}], [{**LANTERN, "at": 1.0}])
def test_the_copy_is_what_the_events_would_have_made(copied: Copied, first: list[Event], then: list[Event]) -> None:
    """Points and vectors are equal, and stay equal whatever events follow: versions and tombstones hold."""
    copied.clear()
    namespace = f"n{next(_NUMBERS)}"
    for event in (*first, *then):
        event["namespace"] = namespace
    for event in first:
        copied.write(copied.before, [event])
    copied.copy()
    assert copied.points(copied.after, namespace) == copied.points(copied.before, namespace)
    for event in then:
        copied.write(copied.before, [event])
        copied.write(copied.after, [event])
    assert copied.points(copied.after, namespace) == copied.points(copied.before, namespace)


def test_pages_are_copied_to_the_end(copied: Copied) -> None:
    """More documents than a page has are copied, each once."""
    namespace = f"n{next(_NUMBERS)}"
    vector = [1.0] * DIMENSION
    events = [{"id": f"{each}", "namespace": namespace, "text": "a lantern", "vector": vector} for each in range(150)]
    copied.write(copied.before, events)
    assert copied.copy() >= len(events)
    assert copied.points(copied.after, namespace) == copied.points(copied.before, namespace)


def test_a_patch_that_the_new_settings_refuse_is_named(copied: Copied) -> None:
    """A field that is searched now can't be patched: the log names the document, and the others are copied."""
    namespace = f"n{next(_NUMBERS)}"
    given = {"namespace": namespace, "text": "a lantern", "vector": [1.0] * DIMENSION}
    events = [{**given, "id": "refused"}, {**given, "id": "kept"}]
    copied.write(copied.before, [*events, {"id": "refused", "namespace": namespace, "op": "patch", "sku": "a-1"}])
    with capture_logs() as logs:
        copied.copy(searched=("text", "sku"))
    assert [each["document"] for each in logs if each["event"] == "document not copied"] == ["refused"]
    assert {each["payload"]["id"] for each in copied.points(copied.after, namespace)} == {"refused", "kept"}


@settings(max_examples=sized(20, nightly=300), deadline=None)
@given(histories())
@example([{**LANTERN, "at": 1.0}, {"id": "a", "op": "patch", "price": 7, "at": 2.0}])
@example([{**LANTERN, "at": 1.0}, {"id": "a", "op": "patch", "labels": None, "turn": 2, "at": 2.0}])
def test_a_document_knows_how_many_fields_it_has(copied: Copied, events: list[Event]) -> None:
    """Beside its namespace; also when patches gave it further ones, or removed some: so the fullest copy is found."""
    copied.clear()
    namespace = f"n{next(_NUMBERS)}"
    for event in events:
        copied.write(copied.before, [{**event, "namespace": namespace}])
    for point in copied.points(copied.before, namespace):
        payload = point["payload"]
        if "id" in payload:
            assert payload["_fields"] == sum(not name.startswith("_") for name in payload) - 1
