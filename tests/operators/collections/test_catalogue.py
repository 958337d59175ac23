"""The catalogue: what each collection is, an alias's target and the limits of a strict mode among it."""

import asyncio
from typing import Any

import httpx
import orjson
import pytest

from operators.collections.catalogue import Catalogue
from operators.collections.notes import collection_metadata
from operators.query.collection import MOST, Capabilities
from schemas.settings import QdrantSettings
from schemas.settings.qdrant import Bm25Settings
from tests.operators.clients.qdrant.transports import qdrant
from tests.operators.samples import OURS, capable

TIMEOUT = 5.0
DESTINATIONS = {"default": "documents", "other": "other"}


class Server(httpx.AsyncBaseTransport):
    """Answers with what a test says each collection is: its configuration, or a status."""

    def __init__(self, **collections: dict[str, Any] | int) -> None:
        self.collections = collections
        self.aliases: dict[str, str] = {}
        self.indexes: dict[str, Any] = {}
        self.points = 1
        self.asked = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Describe the collection that the path names, or list the aliases."""
        self.asked += 1
        if request.url.path == "/aliases":
            named = [{"alias_name": alias, "collection_name": held} for alias, held in self.aliases.items()]
            return _answer(200, {"aliases": named})
        name = request.url.path.removeprefix("/collections/")
        described = self.collections.get(self.aliases.get(name, name), 404)
        if isinstance(described, int):
            return httpx.Response(described, content=b"no")
        return _answer(200, {"points_count": self.points, "config": described, "payload_schema": self.indexes})


def _answer(status: int, result: object) -> httpx.Response:
    return httpx.Response(status, content=orjson.dumps({"result": result, "status": "ok", "time": 0.0}))


def config(shards: int = 1, strict: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
    """The configuration of a collection as rankstream makes it, but for what is given."""
    ours = {
        "vectors": {"dense": {"size": 4}, "tokens": {"size": 4}},
        "sparse_vectors": {"bm25": {"modifier": "idf"}},
        "shard_number": shards,
    }
    return {"params": {**ours, **params}, "strict_mode_config": strict}


def read(server: Server, times: int = 1, **changes: Any) -> Catalogue:
    """The catalogue of the collections `documents` and `other`, read from this server."""
    settings = QdrantSettings(url="http://qdrant", **{"destinations": DESTINATIONS, **changes})
    catalogue = Catalogue(qdrant(server), settings)

    async def ask() -> None:
        for _ in range(times):
            await catalogue.refresh(TIMEOUT)

    asyncio.run(ask())
    return catalogue


def test_a_collection_of_ours_can_do_everything() -> None:
    """One that isn't there yet is taken for such a one; documents expire in none that doesn't say so."""
    catalogue = read(Server(documents=config()))
    assert catalogue.capabilities_of("documents") == Capabilities("documents")
    assert catalogue.capabilities_of("other") == Capabilities("other", expires=True)
    says = config() | {"metadata": collection_metadata(Bm25Settings())}
    assert read(Server(documents=says)).capabilities_of("documents") == Capabilities("documents", expires=True)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"sparse_vectors": None}, capable(sparse=False)),
        ({"sparse_vectors": {"splade": {}}}, capable(sparse=False)),
        ({"vectors": {"dense": {"size": 4}}}, capable(tokens=False)),
        ({"vectors": {"size": 4}}, capable(tokens=False)),
        ({"sparse_vectors": {"bm25": {"modifier": "idf"}, "learned": {}}}, Capabilities("documents")),
        ({"sparse_vectors": {"bm25": {}}}, Capabilities("documents", {**OURS.vectors, "sparse": "none"})),
        (
            {"sparse_vectors": {"bm25": {"modifier": "none"}}},
            Capabilities("documents", {**OURS.vectors, "sparse": "none"}),
        ),
    ],
)
def test_what_a_collection_lacks_is_known(params: dict[str, Any], expected: Capabilities) -> None:
    """Vectors by other names are none of ours."""
    assert read(Server(documents=config(**params))).capabilities_of("documents") == expected


@pytest.mark.parametrize(
    ("strict", "most", "exact"),
    [
        ({"enabled": True, "max_query_limit": 100, "search_allow_exact": False}, 100, False),
        ({"enabled": True, "max_query_limit": 5000, "search_allow_exact": True}, MOST, True),
        ({"enabled": True, "max_query_limit": None}, MOST, True),
        ({"enabled": False, "max_query_limit": 100, "search_allow_exact": False}, MOST, True),
    ],
)
def test_limits_hold_where_strict_mode_is_on(strict: dict[str, Any], most: int, exact: bool) -> None:
    """A limit that isn't set, or of a mode that is off, bounds nothing."""
    found = read(Server(documents=config(strict=strict))).capabilities_of("documents")
    assert (found.most, found.exact) == (most, exact)


@pytest.mark.parametrize(("enabled", "bound"), [(True, 64), (False, None)])
def test_a_bound_on_the_candidates_of_a_search_is_known(enabled: bool, bound: int | None) -> None:
    """So that the vector leg asks for no more; none is known where the mode is off."""
    strict = {"enabled": enabled, "search_max_hnsw_ef": 64}
    assert (
        read(Server(documents=config(strict=strict))).capabilities_of("documents").limits.get("search_max_hnsw_ef")
        == bound
    )


def test_an_alias_is_the_collection_that_it_stands_for() -> None:
    """And the next reading finds out that it was given to another one."""
    server = Server(blue=config(), green=config(shards=2))
    server.aliases = {"documents": "blue"}
    catalogue = read(server)
    assert catalogue.capabilities_of("documents") == Capabilities("blue")
    server.aliases = {"documents": "green"}
    asyncio.run(catalogue.refresh(TIMEOUT))
    assert catalogue.capabilities_of("documents") == Capabilities("green")


def test_who_misses_a_collection_has_the_aliases_read() -> None:
    """At once, and once for all; a collection without an alias, and one that is unknown, have no successor."""
    server = Server(blue=config(), green=config(), other=config())
    server.aliases = {"documents": "blue"}
    catalogue = read(server)
    server.aliases = {"documents": "green"}
    asked = server.asked

    async def scenario() -> list[str | None]:
        names = ["blue"] * 20 + ["other", "documents", "unknown"]
        found = await asyncio.gather(*(catalogue.successor(name, TIMEOUT) for name in names))
        return [*found, await catalogue.successor("green", TIMEOUT), await catalogue.successor("blue", TIMEOUT)]

    assert asyncio.run(scenario()) == ["green"] * 20 + [None] * 4 + ["green"]
    assert server.asked - asked <= 3
    assert catalogue.capabilities_of("documents").name == "green"


def test_a_collection_that_was_made_again_is_told_apart() -> None:
    """One that was away, and one that is described otherwise, is another making; one that is as before is the same."""
    server = Server(documents=config())
    catalogue = read(server, 2)
    makings = [catalogue.capabilities_of("documents").making]
    for described in (404, config(), config(shards=2), config(shards=2)):
        server.collections["documents"] = described
        asyncio.run(catalogue.refresh(TIMEOUT))
        makings.append(catalogue.capabilities_of("documents").making)
    assert makings[0] == 0
    assert makings == sorted(makings)
    assert len(set(makings[:4])) == 4
    assert makings[3] == makings[4]


@pytest.mark.parametrize(("changes", "noticed"), [({"fields": {"text": "body"}}, True), ({}, False)])
def test_fewer_points_are_another_making_of_another_tools_collection(changes: dict[str, Any], noticed: bool) -> None:
    """Its contents have no fingerprints; those of rankstream's own have, and a deletion there is nothing new."""
    server = Server(documents=config())
    server.points = 9
    catalogue = read(server, **changes)
    server.points = 10
    asyncio.run(catalogue.refresh(TIMEOUT))
    assert catalogue.capabilities_of("documents").making == 0
    server.points = 3
    asyncio.run(catalogue.refresh(TIMEOUT))
    assert bool(catalogue.capabilities_of("documents").making) == noticed


def test_an_alias_that_comes_back_finds_its_collection() -> None:
    """An alias given to another collection in between is that collection, and no making of this one."""
    server = Server(blue=config(), green=config(shards=2))
    seen = []
    catalogue = read(server)
    for name in ("blue", "green", "blue"):
        server.aliases = {"documents": name}
        asyncio.run(catalogue.refresh(TIMEOUT))
        seen.append((catalogue.capabilities_of("documents").name, catalogue.capabilities_of("documents").making))
    assert seen[0] == seen[2]
    assert seen[0][0] != seen[1][0]


@pytest.mark.parametrize("status", [401, 403, 500, 503])
def test_a_collection_that_cannot_be_read_takes_nothing_from_the_others(status: int) -> None:
    """An earlier reading of it stays, and the others are read."""
    server = Server(
        documents=config(strict={"enabled": True, "max_query_limit": 2}),
        other=config(strict={"enabled": True, "max_query_limit": 3}),
    )
    catalogue = read(server)
    server.collections = {"documents": status, "other": config(strict={"enabled": True, "max_query_limit": 4})}
    errors = asyncio.run(catalogue.refresh(TIMEOUT))
    assert {name: error.status for name, error in errors.items()} == {"documents": status}
    assert (catalogue.capabilities_of("documents").most, catalogue.capabilities_of("other").most) == (2, 4)


def test_without_token_vectors_in_the_configuration_there_are_none() -> None:
    """Before Qdrant has said what the collection holds, and after."""
    catalogue = read(Server(documents=config()), vectors={"tokens": None})
    assert not catalogue.capabilities_of("documents").has("tokens")
    assert not catalogue.capabilities_of("other").has("tokens")


@pytest.mark.parametrize(
    ("vector", "able"),
    [
        ({"distance": "Cosine"}, True),
        ({"distance": "Dot", "datatype": "float16"}, True),
        ({"distance": "Cosine", "datatype": "uint8"}, False),
        ({"distance": "Dot", "datatype": "uint8"}, False),
        ({"distance": "Euclid"}, False),
        ({"distance": "Manhattan", "datatype": "uint8"}, False),
    ],
)
def test_no_vector_is_ranked_by_what_does_not_rank(vector: dict[str, Any], able: bool) -> None:
    """By a distance, or by numbers without fractions: neither the dense vector, nor token vectors, nor contexts."""
    vectors = {name: {"size": 4, **vector} for name in ("dense", "tokens", "dense_context")}
    found = read(Server(documents=config(vectors=vectors))).capabilities_of("documents")
    assert [found.has(key) for key in ("dense", "tokens", "dense_context")] == [able] * 3


@pytest.mark.parametrize("leg", ["learned", "fuzzy"])
@pytest.mark.parametrize(
    ("sparse", "able"),
    [
        ({}, False),
        ({"learned": {}, "fuzzy": {}}, False),
        ({"splade": {}}, True),
        ({"splade": {"modifier": None}}, True),
        ({"splade": {"modifier": "none"}}, True),
        ({"splade": {"modifier": "idf"}}, False),
    ],
)
def test_a_vector_is_searched_as_it_was_weighed(leg: str, sparse: dict[str, Any], able: bool) -> None:
    """By the configured name; not where Qdrant would weigh its terms by all documents, those of others among them."""
    ours = {"bm25": {"modifier": "idf"}, **sparse}
    catalogue = read(Server(documents=config(sparse_vectors=ours)), vectors={leg: "splade"})
    assert catalogue.capabilities_of("documents").has(leg) is able
    assert catalogue.capabilities_of("other").has(leg)


def test_the_fields_to_group_by_are_those_with_an_index_that_tells_values_apart() -> None:
    """As configured, but for strict mode and other tools' collections, of which the indexes are read."""
    kinds = {"parent": "keyword", "page": "integer", "price": "float", "title": "text", "_title": "keyword"}
    described = {name: {"data_type": kind, "points": 1} for name, kind in kinds.items()}
    strict = config(strict={"enabled": True, "unindexed_filtering_retrieve": False})
    found = []
    for configured, ids in ((config(), "payload"), (strict, "payload"), (config(), "integer")):
        server = Server(documents=configured)
        server.indexes = described
        found.append(read(server, ids=ids).capabilities_of("documents").groups)
    assert found == [None, {"parent", "page", "title"}, {"parent", "page", "title"}]
