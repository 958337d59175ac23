"""Late interaction over the engine, against numpy."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray
from qdrant_client.http import models

from operators.clients.embedders import Embedding
from operators.clients.qdrant.answers import Hits
from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant.engine import EngineTransport
from operators.clients.qdrant.shards import Engine
from operators.clients.rerankers import Reranker, RerankRequest
from operators.clients.rerankers.late_interaction import LateInteraction
from operators.clients.transport import Endpoint
from schemas.errors import BackendBadResponse, BackendError

T = TypeVar("T")
DIMENSION = 384
DOCUMENTS = 30
RANDOM = np.random.default_rng(7)


def unit_rows(count: int) -> NDArray[np.float32]:
    """Random token vectors of unit length."""
    rows: NDArray[np.float32] = RANDOM.normal(size=(count, DIMENSION)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


TOKENS = {str(uuid.UUID(int=number + 1)): unit_rows(1 + number % 12) for number in range(DOCUMENTS)}
BARE = str(uuid.UUID(int=999))
"""A point without token vectors."""


def query(tokens: NDArray[np.float32] | None, ids: Sequence[str], collection: str = "docs") -> RerankRequest:
    """A request for these documents, whose texts nobody reads here."""
    embedding = Embedding(np.zeros(DIMENSION, np.float32), tokens)
    return RerankRequest("words", dict.fromkeys(ids, "text"), collection, embedding)


def brute_force(tokens: NDArray[np.float32], ids: Sequence[str]) -> dict[str, float]:
    """The definition: the mean over the query's tokens of the best dot product with a token of the document."""
    return {identity: float((tokens @ TOKENS[identity].T).max(axis=1).mean()) for identity in ids}


class Counting:
    """The Qdrant client, counting its requests."""

    def __init__(self, client: QdrantClient) -> None:
        self.client = client
        self.requests: list[tuple[str, int]] = []

    async def query_batch(
        self, collection: str, searches: Sequence[Mapping[str, Any]], *, timeout: float
    ) -> list[Hits | BackendError]:
        """Count and pass on."""
        self.requests.append((collection, len(searches)))
        return await self.client.query_batch(collection, searches, timeout=timeout)


Run = Callable[[Callable[[Counting], Awaitable[T]]], T]


@pytest.fixture(scope="module")
def on_engine(tmp_path_factory: pytest.TempPathFactory) -> Run[Any]:
    """Run a scenario over the engine, where the collections `docs` and `more` hold TOKENS and the bare point."""
    path = tmp_path_factory.mktemp("engine")

    def run(scenario: Callable[[Counting], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            with Engine(path) as engine:
                client = QdrantClient(Endpoint("qdrant", "http://engine", EngineTransport(engine)))
                if not await client.exists("docs", timeout=30):
                    await _fill(client)
                return await scenario(Counting(client))

        return asyncio.run(main())

    return run


async def _fill(client: QdrantClient) -> None:
    config = models.CreateCollection(
        vectors={
            "tokens": models.VectorParams(
                size=DIMENSION,
                distance=models.Distance.DOT,
                multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
                hnsw_config=models.HnswConfigDiff(m=0),
                datatype=models.Datatype.FLOAT16,
            )
        }
    )
    points: list[dict[str, Any]] = [{"id": key, "vector": {"tokens": rows}} for key, rows in TOKENS.items()]
    for collection in ("docs", "more"):
        await client.create_collection(collection, config, timeout=30)
        await client.upsert(collection, [*points, {"id": BARE, "vector": {}}], timeout=30)


def test_scores_are_those_of_the_definition(on_engine: Run[Any]) -> None:
    """Qdrant's MaxSim over the candidates equals numpy to 1e-3, for queries of one token and of many."""
    ids = list(TOKENS)
    wanted = [(unit_rows(1), ids[:2]), (unit_rows(9), ids[5:25]), (unit_rows(20), ids)]

    async def scenario(client: Counting) -> list[Any]:
        reranker: Reranker = LateInteraction(client, "all-MiniLM-L6-v2")
        return await reranker.rerank([query(*each) for each in wanted], timeout=30)

    for found, (tokens, documents) in zip(on_engine(scenario), wanted, strict=True):
        assert found == pytest.approx(brute_force(tokens, documents), abs=1e-3)


def test_many_queries_are_one_request_a_collection(on_engine: Run[Any]) -> None:
    """Queries share a request, outcomes keep the requests' order, and the collections' queries don't mix."""
    ids = list(TOKENS)[:4]
    queries = [unit_rows(3) for _ in range(6)]

    async def scenario(client: Counting) -> tuple[list[Any], list[tuple[str, int]]]:
        requests = [query(tokens, ids, "more" if n % 3 else "docs") for n, tokens in enumerate(queries)]
        return await LateInteraction(client, "m").rerank(requests, timeout=30), client.requests

    found, requests = on_engine(scenario)
    assert sorted(requests) == [("docs", 2), ("more", 4)]
    for scores, tokens in zip(found, queries, strict=True):
        assert scores == pytest.approx(brute_force(tokens, ids), abs=1e-3)


def test_one_document_or_none_needs_no_call(on_engine: Run[Any]) -> None:
    """What can't be reordered scores 1, whatever the query has."""
    (one, *_) = TOKENS

    async def scenario(client: Counting) -> tuple[list[Any], list[tuple[str, int]]]:
        requests = [query(unit_rows(2), [one]), query(None, []), query(None, [BARE])]
        return await LateInteraction(client, "m").rerank(requests, timeout=30), client.requests

    assert on_engine(scenario) == ([{one: 1.0}, {}, {BARE: 1.0}], [])


def test_a_failure_is_its_own_querys_alone(on_engine: Run[Any]) -> None:
    """No token vectors, of the query or of a document, an unknown document or collection: each fails by itself."""
    ids = list(TOKENS)[:3]
    tokens = unit_rows(4)

    async def scenario(client: Counting) -> list[Any]:
        requests = [
            query(None, ids),
            query(np.zeros((0, DIMENSION), np.float32), ids),
            RerankRequest("words", dict.fromkeys(ids, "text"), "docs"),
            query(tokens, [*ids, BARE]),
            query(tokens, [*ids, str(uuid.UUID(int=12345)), BARE]),
            query(tokens[:, :8], ids),
            query(tokens, ids, "nowhere"),
            query(tokens, ids),
        ]
        return await LateInteraction(client, "m").rerank(requests, timeout=30)

    *failed, scores = on_engine(scenario)
    assert all(isinstance(outcome, BackendBadResponse) for outcome in failed)
    messages = [str(outcome) for outcome in failed]
    assert messages[:3] == ["late interaction: the query has no token vectors"] * 3
    assert messages[3] == "late interaction: 1 of 4 documents have no token vectors"
    assert messages[4] == "late interaction: 2 of 5 documents have no token vectors"
    assert scores == pytest.approx(brute_force(tokens, ids), abs=1e-3)


def test_axis_aligned_tokens_are_sent_as_floats(on_engine: Run[Any]) -> None:
    """Whole numbers reach Qdrant as a multivector too, not as the sparse vector that integers would be."""
    tokens = np.eye(2, DIMENSION, dtype=np.float32)
    ids = list(TOKENS)[:5]

    async def scenario(client: Counting) -> list[Any]:
        return await LateInteraction(client, "m").rerank([query(tokens, ids)], timeout=30)

    (found,) = on_engine(scenario)
    assert found == pytest.approx(brute_force(tokens, ids), abs=1e-3)


def test_provenance_names_the_method_and_the_model(on_engine: Run[Any]) -> None:
    """The model's name says that it is the embedder's own vectors that rank."""

    async def scenario(client: Counting) -> str:
        return LateInteraction(client, "all-MiniLM-L6-v2").model

    assert on_engine(scenario) == "late-interaction:all-MiniLM-L6-v2"
