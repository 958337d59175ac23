"""Expiry: from its moment on a document is in no answer, and later it is deleted."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from operators.clients.qdrant_edge.engine import EngineClient
from operators.clients.qdrant_edge.shards import Engine
from operators.collections.catalogue import Catalogue
from operators.indexing.apply import Writer
from operators.indexing.context import ContextWriter
from operators.indexing.decode import DocumentDecoder
from operators.indexing.deletion import Deletion, Expiry
from schemas.errors import DeadLetterClass, InputError
from schemas.settings import DocumentSettings
from tests.operators.indexing.documents import decoder, document, read
from tests.operators.indexing.neighbours import TIMEOUT, Index, contexts, expected
from tests.operators.indexing.neighbours import settings as configured
from tests.operators.samples import DIMENSION, message
from tests.qdrant_server.transport import ServerTransport

VECTOR = [1.0] * DIMENSION


def delete(index: Index, now: float) -> int:
    """Delete what has expired by then; how many documents that were."""
    return asyncio.run(expire(index, now))


async def expire(index: Index, now: float) -> int:
    """The same, in a loop that runs."""
    client = EngineClient(index.engine)
    catalogue = Catalogue(client, index.settings)
    context = ContextWriter(client, index.settings.vectors, index.settings.context, catalogue, TIMEOUT)
    assert await catalogue.refresh(TIMEOUT) == {}
    return await Expiry(Deletion(client, context, TIMEOUT), catalogue, ("documents",), lambda: now).delete("documents")


def left(index: Index) -> set[str]:
    """The ids of the documents that are there."""
    return {point["payload"]["id"] for point in index.points()}


def test_what_has_expired_is_deleted(tmp_path: Path) -> None:
    """A document is deleted once its time is over, in either form of a time; a patch may move the time or take it."""
    with Engine(tmp_path) as engine:
        index = Index(engine, configured())
        asyncio.run(index.create())
        times: dict[str, Any] = {"a": 100, "b": "1970-01-01T00:03:20Z", "c": None, "moved": 100, "kept": 100}
        first = [{"id": id_, "vector": VECTOR, "updated_at": 1.0, "expires_at": at} for id_, at in times.items()]
        patches = [
            {"id": "moved", "op": "patch", "updated_at": 2.0, "expires_at": 300},
            {"id": "kept", "op": "patch", "updated_at": 2.0, "expires_at": None},
        ]
        index.apply([[first, patches]], 0)
        assert delete(index, 99.999) == 0
        assert delete(index, 100.0) == 1
        assert left(index) == {"b", "c", "moved", "kept"}
        assert delete(index, 200.0) == 1
        assert delete(index, 10_000.0) == 1
        assert left(index) == {"c", "kept"}


def test_a_namespace_has_a_default_age(tmp_path: Path) -> None:
    """Without `expires_at` a document expires so long after its version; documents of other namespaces stay."""
    aging = decoder(documents=DocumentSettings(expire_after={"public": 50.0}))
    with Engine(tmp_path) as engine:
        index = Index(engine, configured())
        asyncio.run(index.create())
        events = [
            {"id": "aged", "updated_at": 100.0},
            {"id": "own", "updated_at": 100.0, "expires_at": 400.0},
            {"id": "other", "updated_at": 100.0, "namespace": "acme"},
        ]
        made = [read(aging, message({"text": "x", "vector": VECTOR, **event})) for event in events]
        assert asyncio.run(index.write(made)) == [None] * 3
        assert delete(index, 149.999) == 0
        assert delete(index, 150.0) == 1
        assert left(index) == {"own", "other"}


def test_a_default_age_is_for_what_is_written_from_then_on(tmp_path: Path) -> None:
    """A patch of another field gives no age and takes none away; one of `expires_at` goes by the present age."""
    aging = decoder(documents=DocumentSettings(expire_after={"public": 50.0}))
    with Engine(tmp_path) as engine:
        index = Index(engine, configured())
        asyncio.run(index.create())

        def write(decode: DocumentDecoder, id_: str, **event: Any) -> None:
            made = read(decode, message({"id": id_, **event}))
            assert asyncio.run(index.write([made])) == [None]

        for decode, id_ in ((decoder(), "earlier"), (aging, "aged"), (decoder(), "named")):
            write(decode, id_, text="x", vector=VECTOR, updated_at=100.0)
        for decode, id_ in ((aging, "earlier"), (decoder(), "aged")):
            write(decode, id_, op="patch", updated_at=101.0, price=1)
        write(aging, "named", op="patch", updated_at=101.0, expires_at=None)
        assert delete(index, 149.999) == 0
        assert delete(index, 150.0) == 2
        assert left(index) == {"earlier"}


class Renewing(ServerTransport):
    """Behind the first write of a point, what has expired is deleted."""

    def __init__(self, index: Index) -> None:
        super().__init__(index.engine)
        self.index = index
        self.deleted = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Pass the request on."""
        answer = await super().handle_async_request(request)
        if request.method == "PUT" and not self.deleted:
            self.deleted = await expire(self.index, 200.0)
        return answer


def test_a_document_that_is_renewed_while_its_earlier_version_is_deleted_stays(tmp_path: Path) -> None:
    """Its first write is refused for the patches of the earlier version; then this one is deleted."""
    with Engine(tmp_path) as engine:
        index = Index(engine, configured())
        asyncio.run(index.create())
        earlier = {"id": "d", "vector": VECTOR, "updated_at": 1.0, "expires_at": 100.0}
        index.apply([[[earlier], [{"id": "d", "op": "patch", "updated_at": 2.0, "price": 1}]]], 0)
        renewing = Renewing(index)
        made = [document(vector=VECTOR, updated_at=6.0)]
        assert asyncio.run(index.writer(renewing).call("documents", made, TIMEOUT)) == [None]
        assert renewing.deleted == 1
        assert left(index) == {"d"}


def test_an_expired_document_leaves_the_contexts_of_its_neighbours(tmp_path: Path) -> None:
    """Once it is deleted, no context has its words."""
    with Engine(tmp_path) as engine:
        index = Index(engine, configured(before=1, after=1))
        asyncio.run(index.create())
        turns: list[dict[str, Any]] = [
            {"id": f"t{turn}", "session": "s", "turn": turn, "text": f"word{turn}", "vector": VECTOR, "updated_at": 1.0}
            for turn in range(4)
        ]
        turns[1]["expires_at"] = 100.0
        index.apply([[turns]], 0)
        assert delete(index, 100.0) == 1
        points = index.points()
        found = contexts(points)
        assert len(found) == 3
        for name, window, _, terms in expected(points, 1, 1):
            assert (found[name][0], found[name][2]) == (window, terms)


def test_a_time_that_is_none_is_refused(tmp_path: Path) -> None:
    """A value that is no time is `invalid`; an earlier version beside it is written."""
    with Engine(tmp_path) as engine:
        index = Index(engine, configured())
        asyncio.run(index.create())
        made = [document(vector=VECTOR, expires_at=value) for value in ("tomorrow", "2026-01-01T00:00:00", True)]
        outcomes = asyncio.run(index.write(made))
        assert all(isinstance(outcome, InputError) for outcome in outcomes)
        assert {(outcome.kind, outcome.field) for outcome in outcomes if isinstance(outcome, InputError)} == {
            (DeadLetterClass.INVALID, "expires_at")
        }
        assert index.points() == []
        good = document(vector=VECTOR, expires_at=100.0, updated_at=1.0)
        bad = document(vector=VECTOR, expires_at="soon", updated_at=2.0)
        assert asyncio.run(index.write([good, bad]))[0] is None
        assert left(index) == {"d"}


@pytest.mark.parametrize("value", ["tomorrow", 100.0, ["x"]])
def test_in_a_collection_of_an_earlier_version_it_is_a_field(tmp_path: Path, value: object) -> None:
    """`expires_at` may be anything there: it is payload, and nothing is deleted."""
    with Engine(tmp_path) as engine:
        index = Index(engine, configured())
        asyncio.run(index.create())
        (collection,) = (engine.collection(name) for name in engine.names())
        del collection.created["metadata"]["rankstream"]["expiry"]
        client = EngineClient(engine)
        catalogue = Catalogue(client, index.settings)
        assert asyncio.run(catalogue.refresh(TIMEOUT)) == {}
        assert not catalogue.capabilities_of("documents").expires
        writer = Writer(client, index.settings.vectors, index.settings.context, catalogue, TIMEOUT)
        made = [document(vector=VECTOR, expires_at=value)]
        assert asyncio.run(writer.call("documents", made, TIMEOUT)) == [None]
        (point,) = index.points()
        assert point["payload"]["expires_at"] == value
        assert delete(index, 10_000.0) == 0
        assert left(index) == {"d"}


def test_a_defect_of_one_collection_leaves_the_others_to_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is raised behind their turn, so that the log tells of it."""
    looked_at: list[str] = []

    async def delete(_: Expiry, collection: str) -> int:
        looked_at.append(collection)
        if collection == "first":
            raise KeyError("a defect")
        return 1

    monkeypatch.setattr(Expiry, "delete", delete)
    nobody: Any = None
    with pytest.raises(KeyError, match="a defect"):
        asyncio.run(Expiry(nobody, nobody, ("first", "second")).delete_all())
    assert looked_at == ["first", "second"]
