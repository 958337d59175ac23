"""A misfit of a collection is logged when a flow starts, in one line each, with the remedy."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.stubs import DIMENSION, stub_backends
from flows.assembly.clients import Clients, InProcess, try_embedder
from flows.assembly.collections import CollectionLog, ensure_collections
from flows.cli.check.command import check_qdrant
from operators.clients.local.minilm import NAMES
from operators.collections.analysers import CURRENT
from operators.collections.catalogue import Catalogue
from operators.runtime.event_loop import EventLoopThread, Wakeup
from schemas.settings import Settings, load
from tests.operators.clients.http.resilience import unused_port
from tests.operators.indexing.asking import PLAIN, Server
from tests.operators.samples import METRICS
from tests.qdrant_server import serve

TIMEOUT = 30.0
ALIEN = {"vectors": {"embedding": {"size": 8, "distance": "Cosine"}}}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server without collections."""
    with serve(tmp_path / "engine") as url:
        yield Server(url)


def settings(url: str, **sections: Any) -> Settings:
    """The collection `docs` of this server, of vectors of length 4."""
    qdrant = {"url": url, "dimension": 4, "destinations": {"default": "docs"}}
    return load(None, {"qdrant": qdrant, "embedder": {"kind": "none"}, **sections})


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The log's lines about fits and misfits since the last call."""
    found = [record.getMessage() for record in caplog.records if "the configuration" in record.getMessage()]
    caplog.clear()
    return found


def test_a_collection_is_told_when_it_begins_not_to_fit_and_when_it_fits(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """Once for all readings: that it isn't there, then what is wrong with it, then that all is well."""
    caplog.set_level(logging.INFO)
    given = settings(server.url)
    seen: list[list[str]] = []

    async def scenario() -> None:
        client = Clients.of(given, InProcess(given), METRICS).qdrant
        catalogue = Catalogue(client, given.qdrant, CollectionLog(given).seen)

        async def read() -> None:
            for _ in range(2):
                await catalogue.refresh(TIMEOUT)
            seen.append(lines(caplog))

        await read()
        await asyncio.to_thread(server.put, "docs", ALIEN)
        await read()
        await asyncio.to_thread(server.put, "docs", {}, "DELETE")
        await asyncio.to_thread(server.ensure, destinations={"default": "docs"})
        await read()
        await client.aclose()

    asyncio.run(scenario())
    absent, alien, well = seen
    [missing] = absent
    assert all(word in missing for word in ("docs", "does not exist", "rankstream collections --create"))
    dense, sparse, tokens = alien
    assert all(word in dense for word in ("the vector dense isn't there", "embedding (8)", "qdrant.vectors"))
    assert "the keyword leg finds nothing" in sparse
    assert "late interaction is off" in tokens
    [fits] = well
    assert "collection fits the configuration now" in fits


def test_a_collection_that_fits_is_no_news(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """Another program's, too, if no reranker reads token vectors."""
    caplog.set_level(logging.INFO)
    server.put("docs", PLAIN)
    given = settings(server.url, rerank={"kind": "none"})

    async def scenario() -> None:
        client = Clients.of(given, InProcess(given), METRICS).qdrant
        await Catalogue(client, given.qdrant, CollectionLog(given).seen).refresh(TIMEOUT)
        await client.aclose()

    asyncio.run(scenario())
    assert lines(caplog) == []


@pytest.mark.parametrize(("noted", "firewall", "told"), [(True, True, 0), (False, True, 1), (False, False, 0)])
def test_contexts_that_know_no_firewall_are_told_and_not_searched(
    server: Server, caplog: pytest.LogCaptureFixture, noted: bool, firewall: bool, told: int
) -> None:
    """Those of an index that an earlier version made; at the start, and by `check`, with the cure."""
    caplog.set_level(logging.INFO)
    section = {"url": server.url, "dimension": 4, "destinations": {"default": "docs"}, "context": {"order_by": "turn"}}
    given = settings(server.url, qdrant=section, rerank={"kind": "none"}, firewall={"enabled": firewall})
    server.ensure(destinations={"default": "docs"}, context={"order_by": "turn"})
    if not noted:
        made = server.config("docs")
        server.put("docs", {}, "DELETE")
        params = {name: made["params"][name] for name in ("vectors", "sparse_vectors")}
        ours = {name: each for name, each in made["metadata"]["rankstream"].items() if name != "contexts"}
        server.put("docs", {**params, "metadata": {"rankstream": ours}})

    async def scenario() -> bool:
        client = Clients.of(given, InProcess(given), METRICS).qdrant
        catalogue = Catalogue(client, given.qdrant, CollectionLog(given).seen, hides=firewall)
        before = catalogue.capabilities_of("docs").has("dense_context")
        await catalogue.refresh(TIMEOUT)
        await client.aclose()
        assert before is not firewall
        able = catalogue.capabilities_of("docs")
        assert able.has("dense_context") is able.has("sparse_context")
        return able.has("dense_context")

    assert asyncio.run(scenario()) is not bool(told)
    logged = lines(caplog)
    found = [each for each in check_qdrant(given, InProcess(given)) if "with their neighbours" in each.what]
    assert (len(logged), len(found)) == (told, told)
    for said in (*logged, *(f"{each.what} {each.remedy}" for each in found)):
        assert "neighbours of another classification" in said
        assert "Index all documents again" in said


def tried(given: Settings) -> None:
    """The settings' embedder, tried to the end."""
    calls = EventLoopThread(Wakeup())
    embedder = Clients.of(given, InProcess(given), METRICS).embedder
    assert embedder is not None
    try:
        try_embedder(embedder, given, calls).result(TIMEOUT)
        calls.run(embedder.aclose(), TIMEOUT)
    finally:
        calls.close()


def test_an_embedder_of_another_dimension_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """One line with both lengths, and what to correct; nothing where they are the same, or nobody answers."""

    def asking(url: str, dimension: int) -> Settings:
        sections = {"embedder": {"kind": "openai", "url": url}, "rerank": {"kind": "none"}}
        return load(None, {"qdrant": {"url": "http://127.0.0.1:9", "dimension": dimension}, **sections})

    with stub_backends() as stubs:
        tried(asking(stubs.embed, 4))
        [line] = lines(caplog)
        tried(asking(stubs.embed, DIMENSION))
    tried(asking(f"http://127.0.0.1:{unused_port()}", 4))
    assert lines(caplog) == []
    assert all(word in line for word in ("dimension than 4: 384", "qdrant.dimension", "rankstream check"))


def test_the_model_in_this_process_has_one_dimension(caplog: pytest.LogCaptureFixture) -> None:
    """MiniLM's, which a configuration may contradict."""
    cache = str(Path(__file__).parents[3] / ".cache" / "rankstream")
    tried(settings("http://127.0.0.1:9", embedder={"kind": "minilm"}, cache_dir=cache))
    [line] = lines(caplog)
    assert "its vectors have 384 components, and qdrant.dimension is 4" in line


@pytest.mark.parametrize(
    ("noted", "lacks"), [({}, "joined part numbers"), ({"analysis": CURRENT - 1}, "sizes in one spelling")]
)
def test_the_terms_that_an_earlier_version_did_not_make_are_told(
    server: Server, caplog: pytest.LogCaptureFixture, noted: dict[str, Any], lacks: str
) -> None:
    """The start and `check` say that the keyword leg finds less, of what, and to index the documents again."""
    given = settings(server.url)
    server.put("docs", {**PLAIN, "metadata": {"rankstream": noted}})

    async def read() -> None:
        client = Clients.of(given, InProcess(given), METRICS).qdrant
        await Catalogue(client, given.qdrant, CollectionLog(given).seen).refresh(TIMEOUT)
        await client.aclose()

    asyncio.run(read())
    [logged] = [line for line in lines(caplog) if "the keyword leg finds less" in line]
    [found] = [each for each in check_qdrant(given, InProcess(given)) if "the keyword leg finds less" in each.what]
    assert found.level == "warning"
    for said in (logged, f"{found.what} {found.remedy}"):
        assert lacks in said
        assert "Index all documents again" in said


def test_other_prompts_than_the_indexs_are_told(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """A collection notes the prompts that it was created with; the start and `check` warn of others, and only then."""
    embedder = {"kind": "tei", "url": "http://e", "prompts": "e5"}
    rerank = {"kind": "none"}
    same = settings(server.url, embedder=embedder, rerank=rerank)
    other = settings(server.url, embedder={**embedder, "prompts": "nomic"}, rerank=rerank)
    ensure_collections(same, InProcess(same))

    async def read(given: Settings) -> None:
        client = Clients.of(given, InProcess(given), METRICS).qdrant
        await Catalogue(client, given.qdrant, CollectionLog(given).seen).refresh(TIMEOUT)
        await client.aclose()

    for given, warns in ((same, False), (other, True)):
        asyncio.run(read(given))
        assert [("prompts differ" in line, "passage: " in line) for line in lines(caplog)] == [(True, True)] * warns
        found = [each for each in check_qdrant(given, InProcess(given)) if "prompts differ" in each.what]
        assert [each.level for each in found] == ["warning"] * warns


@pytest.mark.parametrize("precision", ["int8", "float32"])
def test_an_index_of_either_precision_fits_and_says_which_it_has(server: Server, precision: str) -> None:
    """The metadata of a new collection name the embedder; a configuration of the other precision has no misfit."""

    def configured(chosen: str) -> Settings:
        qdrant = {"url": server.url, "destinations": {"default": "docs"}}
        return load(None, {"qdrant": qdrant, "embedder": {"precision": chosen}})

    made = configured(precision)
    ensure_collections(made, InProcess(made))
    noted = server.info("docs").metadata["rankstream"]
    assert noted["embedder"] == NAMES["int8" if precision == "int8" else "float32"]
    other = configured("float32" if precision == "int8" else "int8")
    assert {each.level for each in check_qdrant(other, InProcess(other))} == {"ok"}
