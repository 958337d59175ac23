"""Analysers: a collection's own parameters, noted when it was made, before the configured ones."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from operators.clients.qdrant.answers import CollectionInfo
from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant_edge.engine import EngineClient
from operators.clients.qdrant_edge.shards import Engine
from operators.collections.analysers import CURRENT, PLAIN, Bm25
from operators.collections.catalogue import Catalogue
from operators.collections.making import configuration, ensure
from operators.collections.notes import collection_metadata
from operators.indexing.apply import Writer
from operators.indexing.document import DocumentInFlight
from schemas.document import DocumentEvent, point_id
from schemas.errors import BackendError
from schemas.settings import QdrantSettings
from schemas.settings.qdrant import Bm25Settings
from tests.operators.clients.qdrant.transports import Answer, Faulty, answering, qdrant, raising
from tests.operators.samples import DIMENSION, message

GERMAN = Bm25Settings(k=1.5, b=0.5, avg_len=64.5, language="german")
TEXT = "the running houses"
OLD, NEW = (point_id("default", "public", name) for name in ("old", "new"))
TIMEOUT = 30.0


def configured(path: Path, **changes: Any) -> QdrantSettings:
    """Settings of the collections `documents` and `other`."""
    destinations = {"default": "documents", "other": "other"}
    return QdrantSettings(path=path, dimension=DIMENSION, destinations=destinations, **changes)


def on_engine(path: Path, ask: Callable[[QdrantClient], Awaitable[Any]]) -> Any:
    """The outcome of `ask` with a client of the engine in this directory."""

    async def scenario() -> Any:
        with Engine(path) as engine:
            return await ask(EngineClient(engine))

    return asyncio.run(scenario())


def created(path: Path, settings: QdrantSettings, metadata: dict[str, Any] | None) -> None:
    """Make the collection `documents` with these metadata."""
    config = configuration(settings) | ({"metadata": metadata} if metadata is not None else {})
    on_engine(path, lambda client: client.create_collection("documents", config, timeout=TIMEOUT))


def read(path: Path, settings: QdrantSettings, times: int = 1) -> Catalogue:
    """The catalogue after it asked Qdrant."""

    async def ask(client: QdrantClient) -> Catalogue:
        catalogue = Catalogue(client, settings)
        for _ in range(times):
            await catalogue.refresh(TIMEOUT)
        return catalogue

    made: Catalogue = on_engine(path, ask)
    return made


def parameters(of: Bm25) -> tuple[Bm25Settings, int]:
    """The parameters of an analyser."""
    return of.settings, of.analysis


def test_a_collection_keeps_its_parameters(tmp_path: Path) -> None:
    """The indexer notes them at its creation, each collection its own, and after a change of the configuration they
    still are what terms are made with.
    """
    before = configured(tmp_path, analysers={"other": GERMAN})
    on_engine(tmp_path, lambda client: ensure(client, before, TIMEOUT))
    with capture_logs() as lines:
        same = read(tmp_path, before)
    assert lines == []
    assert parameters(same.analyser("documents")) == (Bm25Settings(), CURRENT)
    assert parameters(same.analyser("other")) == (GERMAN, CURRENT)
    assert same.analyser("other").document(TEXT) == Bm25(GERMAN, CURRENT).document(TEXT)
    after = read(tmp_path, configured(tmp_path, bm25=GERMAN), times=2)
    assert parameters(after.analyser("documents")) == (Bm25Settings(), CURRENT)
    assert parameters(after.analyser("other")) == (GERMAN, CURRENT)


def test_a_description_has_the_metadata_back(tmp_path: Path) -> None:
    """As they were given at the creation, after the engine was opened again; without any there are none."""
    noted = {**collection_metadata(GERMAN), "owner": {"team": ["a", 1]}}
    created(tmp_path, configured(tmp_path), noted)
    assert on_engine(tmp_path, lambda client: client.collection_info("documents", timeout=TIMEOUT)).metadata == noted
    bare = {"vectors": {"size": 2, "distance": "Dot"}}
    on_engine(tmp_path, lambda client: client.create_collection("bare", bare, timeout=TIMEOUT))
    assert on_engine(tmp_path, lambda client: client.collection_info("bare", timeout=TIMEOUT)).metadata == {}


@pytest.mark.parametrize("noted", [None, {"owner": "me"}, {"rankstream": {}}])
def test_a_collection_that_says_nothing_gets_the_configured_parameters(
    tmp_path: Path, noted: dict[str, Any] | None
) -> None:
    """Others fill it, with Qdrant's own terms, or it isn't there yet: nothing to warn of."""
    settings = configured(tmp_path, bm25=GERMAN)
    created(tmp_path, settings, noted)
    with capture_logs() as lines:
        catalogue = read(tmp_path, settings)
    assert parameters(catalogue.analyser("documents")) == (GERMAN, PLAIN)
    assert parameters(catalogue.analyser("other")) == (GERMAN, CURRENT)
    assert lines == []


@pytest.mark.parametrize(
    "noted",
    [
        "x",
        {"bm25": None},
        {"bm25": {"k": "1.2"}},
        {"bm25": {"k": -1}},
        {"bm25": {"language": "klingon"}},
        {"bm25": {"model": "bm26"}},
        {"analysis": CURRENT + 1},
        {"fields": ["title"]},
        {"fields": {"title": "1"}},
        {"analysis": "2"},
    ],
)
def test_metadata_that_cannot_be_used_are_left(tmp_path: Path, noted: Any) -> None:
    """The configured parameters are used."""
    settings = configured(tmp_path, bm25=GERMAN)
    # An object that is null goes for one that is absent.
    created(tmp_path, settings, {"rankstream": {"bm25": 0} if noted == {"bm25": None} else noted})
    assert parameters(read(tmp_path, settings, times=2).analyser("documents")) == (GERMAN, PLAIN)


@pytest.mark.parametrize("answer", [raising(httpx.ConnectError("refused")), answering(503, b""), answering(403, b"")])
def test_a_server_that_does_not_say_leaves_what_is_configured(tmp_path: Path, answer: Answer) -> None:
    """Each collection's error comes back, and its terms are made as configured."""
    settings = configured(tmp_path, analysers={"other": GERMAN})
    catalogue = Catalogue(qdrant(Faulty(answer)), settings)
    assert list(asyncio.run(catalogue.refresh(TIMEOUT))) == ["documents", "other"]
    assert parameters(catalogue.analyser("other")) == (GERMAN, CURRENT)
    assert parameters(catalogue.analyser("documents")) == (Bm25Settings(), CURRENT)


def test_documents_are_written_with_the_terms_of_their_collection(tmp_path: Path) -> None:
    """Of two collections each has its own, whatever the batch."""
    settings = configured(tmp_path, analysers={"other": GERMAN})

    def made(collection: str) -> DocumentInFlight:
        event = DocumentEvent(id="d", text=TEXT)
        place = point_id("default", "public", "d")
        return DocumentInFlight(message(), event, "default", "public", collection, place, 1)

    async def ask(client: QdrantClient) -> list[int]:
        await ensure(client, settings, TIMEOUT)
        writer = Writer(client, settings.vectors, settings.context, Catalogue(client, settings), TIMEOUT)
        assert await writer.call("documents", [made("documents"), made("other")], 0.0) == [None, None]
        counts = []
        for collection in ("documents", "other"):
            terms = Bm25().query("running")
            assert terms is not None
            search = {"query": {"indices": terms.indices, "values": terms.values}, "using": "bm25", "limit": 10}
            (hits,) = await client.query_batch(collection, [search], timeout=TIMEOUT)
            assert not isinstance(hits, BackendError)
            counts.append(len(hits.ids))
        return counts

    # English makes "run" of it, German leaves it as it is.
    assert on_engine(tmp_path, ask) == [1, 0]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"columns": {"body": "content"}}, "columns: body: not one of search_fields"),
        ({"columns": {"my title": "title"}}, "columns: my title: a name is one word"),
        ({"columns": {"Title": "title", "title": "text"}}, "columns: two names differ in their case only"),
    ],
)
def test_what_the_configuration_must_be(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    """Columns are those of documents under names that a query can hold."""
    with pytest.raises(ValidationError, match=problem):
        configured(tmp_path, **changes)


def described(path: Path) -> CollectionInfo:
    """The collection `documents`, as it is there."""
    info: CollectionInfo = on_engine(path, lambda client: client.collection_info("documents", timeout=TIMEOUT))
    return info


def test_a_collection_of_an_earlier_version_is_searched_as_before(tmp_path: Path) -> None:
    """Its metadata name no analysis: its terms are Qdrant's, in documents and queries, and that is said."""
    noted = collection_metadata(GERMAN)
    del noted["rankstream"]["analysis"]
    settings = configured(tmp_path, bm25=GERMAN)
    created(tmp_path, settings, noted)
    with capture_logs() as lines:
        analyser = read(tmp_path, settings).analyser("documents")
    assert lines == []
    assert parameters(analyser) == (GERMAN, PLAIN)
    assert analyser.query("WH-1000XM5") == Bm25(GERMAN, PLAIN).query("wh 1000xm5")


def test_a_collection_of_the_version_before_is_searched_and_written(tmp_path: Path) -> None:
    """With the terms of today: its documents of before are found but by decimals, and what they lack is said."""
    noted = collection_metadata(Bm25Settings())
    noted["rankstream"]["analysis"] = CURRENT - 1
    settings = configured(tmp_path)
    created(tmp_path, settings, noted)

    async def ask(client: QdrantClient) -> dict[str, set[str]]:
        catalogue = Catalogue(client, settings)
        with capture_logs() as lines:
            await catalogue.refresh(TIMEOUT)
        assert lines == []
        analyser = catalogue.analyser("documents")
        assert parameters(analyser) == (Bm25Settings(), CURRENT - 1)
        # The terms that the version before made of the text.
        terms = Bm25().document("wh 1000xm5 wh1000xm5 weighs 2 50 kg 50kg")
        sparse = {"bm25": {"indices": terms.indices, "values": terms.values}}
        await client.upsert("documents", [{"id": OLD, "vector": sparse, "payload": {}}], timeout=TIMEOUT)
        event = DocumentEvent(id="new", text="The WH-1000XM5 weighs 2.50 kg.")
        made = DocumentInFlight(message(), event, "default", "public", "documents", NEW, 1)
        writer = Writer(client, settings.vectors, settings.context, catalogue, TIMEOUT)
        assert await writer.call("documents", [made], 0.0) == [None]
        found = {}
        for text in ("weighing", "wh 1000 xm5", "WH1000XM5", "2,50"):
            asked = analyser.query(text)
            assert asked is not None
            search = {"query": {"indices": asked.indices, "values": asked.values}, "using": "bm25", "limit": 10}
            (hits,) = await client.query_batch("documents", [search], timeout=TIMEOUT)
            assert not isinstance(hits, BackendError)
            found[text] = set(hits.ids)
        return found

    both = {OLD, NEW}
    assert on_engine(tmp_path, ask) == {"weighing": both, "wh 1000 xm5": both, "WH1000XM5": both, "2,50": {NEW}}


def test_a_collection_keeps_its_languages(tmp_path: Path) -> None:
    """They are in its metadata where they were configured, and nowhere else: an earlier version does not know them."""
    mixed = Bm25Settings(languages={"de": "german"}, accents="fold")
    settings = configured(tmp_path, bm25=mixed)
    created(tmp_path, settings, collection_metadata(mixed))
    found = read(tmp_path, configured(tmp_path)).analyser("documents").settings
    assert (found.languages, found.accents) == ({"de": "german"}, "fold")
    assert not {"languages", "accents"} & collection_metadata(GERMAN)["rankstream"]["bm25"].keys()
