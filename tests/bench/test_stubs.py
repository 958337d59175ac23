"""The stub backends answer as the real ones do, take the time they are told to, and fail when told to."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import orjson
import pytest
from qdrant_client.http import models

from bench.stubs import DIMENSION, IDS, NAMESPACE, Collection, Stubs, relevance, stub_backends, text
from operators.clients.embedders.bi_encoders import APIS, BiEncoder, dense
from operators.clients.http.backend import Resilient
from operators.clients.http.transport import Endpoint, http_transport
from operators.clients.rerankers import RerankRequest
from operators.clients.rerankers.cross_encoders import COHERE, HttpReranker
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable

pytestmark = pytest.mark.slow

BATCH = "/collections/docs/points/query/batch"


@pytest.fixture(scope="module")
def stubs() -> Iterator[Stubs]:
    """The three, without latency."""
    with stub_backends() as urls:
        yield urls


def call(url: str, method: str, path: str, body: object = None, timeout: float = 5.0) -> Any:
    """One call to a stub."""

    async def scenario() -> Any:
        endpoint = Endpoint("stub", url, http_transport())
        try:
            return await endpoint.call(method, path, body, timeout=timeout)
        finally:
            await endpoint.aclose()

    return asyncio.run(scenario())


def test_searches_answer_as_qdrant_does(stubs: Stubs) -> None:
    """Each search gets `limit` distinct hits of the pool, best first, with a payload if it asked for one."""
    searches = [
        {"query": [0.1] * 4, "using": "dense", "limit": 50, "with_payload": ["_content"]},
        {"query": {"indices": [1], "values": [1.0]}, "using": "bm25", "limit": 7},
        {"query": [0.2] * 4, "using": "dense"},
    ]
    answer = call(stubs.qdrant, "POST", BATCH, {"searches": searches})
    hits = [models.QueryResponse.model_validate(result).points for result in answer["result"]]
    assert [len(points) for points in hits] == [50, 7, 10]
    for points in hits:
        assert sorted(points, key=lambda point: -point.score) == points
        assert len({point.id for point in points}) == len(points)
        assert {point.id for point in points} <= set(IDS)
    assert hits[0][0].payload is not None
    assert IDS[hits[0][0].payload["_content"]] == hits[0][0].id
    assert hits[1][0].payload is None
    assert answer == call(stubs.qdrant, "POST", BATCH, {"searches": searches})


def test_retrieval_answers_the_ids_that_exist(stubs: Stubs) -> None:
    """Retrieval gives the pool's points that were asked for, with a text of about 470 characters."""
    body = {"ids": [IDS[7], "00000000-0000-0000-0000-000000000000", IDS[3]], "with_payload": True}
    result = call(stubs.qdrant, "POST", "/collections/docs/points", body)["result"]
    assert [record["id"] for record in result] == [IDS[7], IDS[3]]
    assert [record["payload"] for record in result] == [
        {"text": text(7), "id": "doc-7", "namespace": NAMESPACE, "_content": 7},
        {"text": text(3), "id": "doc-3", "namespace": NAMESPACE, "_content": 3},
    ]
    assert 400 < len(text(7)) < 540


def test_a_collection_has_the_points_and_texts_of_its_name(stubs: Stubs) -> None:
    """As many different hits, which both legs share in part only, and texts as long as the name says."""
    collection = Collection(points=10_000, characters=200)
    assert Collection.named(collection.name) == collection
    assert Collection.named("docs") == Collection()
    searches = [{"query": [number / 9] * 4, "using": "dense", "limit": 1000} for number in range(2)]
    path = f"/collections/{collection.name}/points"
    found = call(stubs.qdrant, "POST", f"{path}/query/batch", {"searches": searches})["result"]
    first, second = ([point["id"] for point in each["points"]] for each in found)
    assert len({*first}) == len({*second}) == 1000
    assert len({*first, *second}) > 1000
    asked = [*first[:3], IDS[7]]
    records = call(stubs.qdrant, "POST", path, {"ids": asked, "with_payload": True})["result"]
    assert [record["id"] for record in records] == asked
    assert {len(record["payload"]["text"]) for record in records} == {200}
    assert records[-1]["payload"]["text"] == text(7, 200)


def test_collection_info_is_valid(stubs: Stubs) -> None:
    """The collection's info is one that qdrant-client's model takes, and the server is ready."""
    info = models.CollectionInfo.model_validate(call(stubs.qdrant, "GET", "/collections/docs")["result"])
    assert info.points_count == len(IDS)

    assert httpx.get(f"{stubs.qdrant}/readyz", trust_env=False).content == b"all shards are ready"


def test_reranker_reads_the_stub(stubs: Stubs) -> None:
    """The Cohere-style client gets the stub's scores."""
    documents = {point: text(number) for number, point in enumerate(IDS[:50])}

    async def scenario() -> Any:
        reranker = HttpReranker(Resilient(Endpoint("stub", stubs.rerank, http_transport())), "m", COHERE)
        try:
            return await reranker.score([RerankRequest("q", documents, "docs", "n")], timeout=5)
        finally:
            await reranker.aclose()

    (scores,) = asyncio.run(scenario())
    assert scores == {point: relevance("q", document) for point, document in documents.items()}
    assert len(set(scores.values())) == 50


def test_rerank_answers_the_best_first(stubs: Stubs) -> None:
    """The results are sorted by their scores and cut to `top_n`."""
    documents = [text(number) for number in range(20)]
    body = {"query": "q", "documents": documents, "top_n": 5}
    scores = [result["relevance_score"] for result in call(stubs.rerank, "POST", "/rerank", body)["results"]]
    assert scores == sorted((relevance("q", document) for document in documents), reverse=True)[:5]


def test_embedder_reads_the_stub(stubs: Stubs) -> None:
    """The OpenAI-compatible client gets unit vectors of 384 dimensions, the same for the same text."""

    async def scenario() -> Any:
        embedder = BiEncoder(
            Resilient(Endpoint("stub", stubs.embed, http_transport())), "m", dense(DIMENSION), APIS["openai"]
        )
        try:
            return await embedder.embed(["a", "b", "a"], purpose="query", timeout=5)
        finally:
            await embedder.aclose()

    first, second, third = asyncio.run(scenario())
    assert np.array_equal(first.vector, third.vector)
    assert abs(float(first.vector @ second.vector)) < 0.5


def test_latency_is_what_it_was_told() -> None:
    """A search takes the latency and little more, and searches don't queue for it."""
    with stub_backends(qdrant_latency=0.2) as stubs:

        async def scenario() -> float:
            endpoint = Endpoint("stub", stubs.qdrant, http_transport())
            search = {"searches": [{"query": [1.0], "limit": 1}]}
            started = time.monotonic()
            await asyncio.gather(*(endpoint.call("POST", BATCH, search, timeout=5) for _ in range(20)))
            took = time.monotonic() - started
            await endpoint.aclose()
            return took

        took = [asyncio.run(scenario()) for _ in range(3)]
        assert min(took) >= 0.2
        # The best of them: whatever else runs may make any one late.
        assert min(took) < 1.0


FAULTS = {
    "hang": BackendTimeout,
    "garbage": BackendBadResponse,
    "500": BackendUnavailable,
    "429": BackendUnavailable,
    "slow": BackendTimeout,
    "nan": BackendBadResponse,
}
REQUESTS = {
    "qdrant": (BATCH, {"searches": [{"query": [1.0], "limit": 10}]}),
    "rerank": ("/rerank", {"query": "q", "documents": ["a", "b"]}),
    "embed": ("/embeddings", {"input": ["a"]}),
}


@pytest.mark.parametrize("backend", REQUESTS)
@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_switched_on_and_off(stubs: Stubs, backend: str, fault: str) -> None:
    """A fault makes each backend fail as it says until it is switched off."""
    url = getattr(stubs, backend)
    path, body = REQUESTS[backend]
    call(url, "POST", "/control", {"fault": fault})
    with pytest.raises(BackendError) as caught:
        call(url, "POST", path, body, timeout=0.3 if FAULTS[fault] is BackendTimeout else 10)
    assert type(caught.value) is FAULTS[fault]
    call(url, "POST", "/control", {"fault": None})
    assert call(url, "POST", path, body)


def test_unknown_fault_is_refused(stubs: Stubs) -> None:
    """A fault that doesn't exist is refused, and nothing changes."""
    with pytest.raises(BackendBadResponse):
        call(stubs.rerank, "POST", "/control", {"fault": "explode"})
    assert call(stubs.rerank, "POST", *REQUESTS["rerank"])


def test_command_serves_until_terminated() -> None:
    """`python -m bench.stubs` prints its URLs, serves them, and ends with 0 on SIGTERM."""
    command = [sys.executable, "-m", "bench.stubs", "--rerank-latency-ms", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            urls = dict(process.stdout.readline().decode().split() for _ in range(3))
            results = call(urls["rerank"], "POST", *REQUESTS["rerank"])["results"]
        finally:
            process.terminate()
        assert process.wait(10) == 0
    assert sorted(result["index"] for result in results) == [0, 1]
    assert orjson.dumps(results)
