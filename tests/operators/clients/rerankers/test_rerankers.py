"""The HTTP rerankers against servers that answer in their dialects' recorded shapes and enforce their limits."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest
from aiohttp import web

from operators.clients.rerankers import Reranker, RerankRequest, Scores
from operators.clients.rerankers.cohere import CohereReranker
from operators.clients.rerankers.tei import TeiReranker
from operators.clients.transport import Endpoint
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable
from tests.operators.clients.serving import Handler, answering, backend, json_response

Make = Callable[[Endpoint], Reranker]


def relevance(query: str, document: str) -> float:
    """The score that the servers here give `document`: one of its own."""
    return len(query) + sum(map(ord, document)) / 1000


class Server:
    """A reranker that counts its requests and how many of them it had in hand at once."""

    def __init__(self, latency: float = 0.0) -> None:
        self.requests: list[dict[str, Any]] = []
        self.most_at_once = 0
        self._at_once = 0
        self._latency = latency

    async def __call__(self, request: web.Request) -> web.Response:
        """Keep the request and answer it after the latency."""
        assert (request.method, request.path) == ("POST", "/v2/rerank")
        body = await request.json()
        self.requests.append(body)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        await asyncio.sleep(self._latency)
        self._at_once -= 1
        return self.answer(body)

    def answer(self, body: dict[str, Any]) -> web.Response:
        """The dialect's answer to `body`."""
        raise NotImplementedError


def sorted_scores(key: str, query: str, documents: list[str]) -> list[dict[str, Any]]:
    """Entries of index and `key`, best first."""
    entries = [{"index": index, key: relevance(query, document)} for index, document in enumerate(documents)]
    return sorted(entries, key=lambda entry: entry[key], reverse=True)


class Cohere(Server):
    """A Cohere v2 server."""

    def answer(self, body: dict[str, Any]) -> web.Response:
        """The `top_n` best of all documents."""
        results = sorted_scores("relevance_score", body["query"], body["documents"])[: body["top_n"]]
        meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
        return json_response({"id": "07734bd2", "results": results, "meta": meta})


class Tei(Server):
    """A text-embeddings-inference server with its default limit of 32 texts a request."""

    def answer(self, body: dict[str, Any]) -> web.Response:
        """All texts' scores, sorted; 413 above the limit."""
        if len(body["texts"]) > 32:
            error = f"batch size {len(body['texts'])} > maximum allowed batch size 32"
            return json_response({"error": error, "error_type": "Validation"}, 413)
        return json_response(sorted_scores("score", body["query"], body["texts"]))


def cohere(endpoint: Endpoint) -> Reranker:
    """The Cohere-style reranker."""
    return CohereReranker(endpoint, "rerank-v3.5", max_concurrency=4)


def tei(endpoint: Endpoint) -> Reranker:
    """The TEI reranker with its default limit."""
    return TeiReranker(endpoint, "bge-reranker-base", max_concurrency=4)


def unbounded_cohere(endpoint: Endpoint) -> Reranker:
    """The Cohere-style reranker without a bound on its requests."""
    return CohereReranker(endpoint, "rerank-v3.5", max_concurrency=0)


DIALECTS = pytest.mark.parametrize(("make", "server"), [(cohere, Cohere), (tei, Tei)])


def request_of(count: int, query: str = "a query") -> RerankRequest:
    """A request of `count` candidates."""
    return RerankRequest(query, {f"id-{number}": f"document {'x' * number}" for number in range(count)}, "docs")


def right_scores(request: RerankRequest) -> Mapping[str, float]:
    """What a right answer to `request` comes to."""
    return {point: relevance(request.query, document) for point, document in request.documents.items()}


def rerank(
    make: Make, handler: Handler, requests: list[RerankRequest], timeout: float = 5.0
) -> list[Scores | BackendError]:
    """What `make`'s reranker returns for `requests` from a server of `handler`."""

    async def scenario() -> list[Scores | BackendError]:
        async with answering(handler) as url, backend(f"{url}/v2") as endpoint:
            return await make(endpoint).rerank(requests, timeout=timeout)

    return asyncio.run(scenario())


def answer_with(body: bytes) -> Handler:
    """A server that always answers `body`."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    return answer


@DIALECTS
@pytest.mark.parametrize("count", [2, 31, 32, 33, 64, 65, 150])
def test_each_document_gets_its_own_score(make: Make, server: Callable[[], Server], count: int) -> None:
    """However many candidates, each gets the score that the server gave its text."""
    request = request_of(count)
    assert rerank(make, server(), [request]) == [right_scores(request)]


@DIALECTS
def test_outcomes_follow_the_requests(make: Make, server: Callable[[], Server]) -> None:
    """Many queries' outcomes come in the order of their requests."""
    requests = [request_of(count, "q" * count) for count in (5, 40, 2, 7, 1, 33)]
    expected = [right_scores(request) if len(request.documents) > 1 else {"id-0": 1.0} for request in requests]
    assert rerank(make, server(), requests) == expected


def test_cohere_request_is_as_documented() -> None:
    """A Cohere-style request holds the model, query, documents and as many results as documents."""
    server = Cohere()
    rerank(cohere, server, [RerankRequest("q", {"a": "x", "b": "y"}, "docs")])
    assert server.requests == [{"model": "rerank-v3.5", "query": "q", "documents": ["x", "y"], "top_n": 2}]


def test_tei_request_is_as_documented() -> None:
    """A TEI request holds the query and texts and asks for truncation."""
    server = Tei()
    rerank(tei, server, [RerankRequest("q", {"a": "x", "b": "y"}, "docs")])
    assert server.requests == [{"query": "q", "texts": ["x", "y"], "truncate": True}]


@DIALECTS
def test_one_candidate_or_none_needs_no_call(make: Make, server: Callable[[], Server]) -> None:
    """One candidate scores 1 and none is no score, without a request."""
    asked = server()
    assert rerank(make, asked, [request_of(1), request_of(0)]) == [{"id-0": 1.0}, {}]
    assert rerank(make, asked, []) == []
    assert asked.requests == []


def test_cohere_omission_is_a_verdict() -> None:
    """A document that a Cohere-style answer leaves out has no score: it was judged irrelevant."""
    body = b'{"results":[{"index":2,"relevance_score":0.9}]}'
    assert rerank(cohere, answer_with(body), [request_of(3)]) == [{"id-2": 0.9}]


def test_tei_omission_is_a_bad_response() -> None:
    """A text that a TEI answer leaves out is BackendBadResponse: TEI scores every text."""
    (outcome,) = rerank(tei, answer_with(b'[{"index":2,"score":0.9}]'), [request_of(3)])
    assert type(outcome) is BackendBadResponse


WRONG = [
    b"null",
    b"1",
    b"[]",
    b"{}",
    b'{"results":null}',
    b'{"results":[]}',
    b'{"results":{}}',
    b'{"data":[{"index":0,"relevance_score":1}]}',
    b"%(open)s{%(index)s:0,%(score)s:0.5},{%(index)s:0,%(score)s:0.5}%(close)s",
    b"%(open)s{%(index)s:0,%(score)s:0.5},{%(index)s:2,%(score)s:0.5}%(close)s",
    b"%(open)s{%(index)s:0,%(score)s:0.5},{%(index)s:-1,%(score)s:0.5}%(close)s",
    b"%(open)s{%(index)s:0,%(score)s:0.5},{%(index)s:true,%(score)s:0.5}%(close)s",
    b"%(open)s{%(index)s:0,%(score)s:0.5},{%(index)s:1,%(score)s:NaN}%(close)s",
    b"%(open)s{%(index)s:0,%(score)s:0.5},{%(index)s:1,%(score)s:1e999}%(close)s",
    b"%(open)s{%(index)s:0,%(score)s:0.5},{%(index)s:1,%(score)s:null}%(close)s",
    b'%(open)s{%(index)s:0,%(score)s:0.5},{%(index)s:1,%(score)s:"0.5"}%(close)s',
    b"%(open)s{%(index)s:0,%(score)s:0.5},{%(index)s:1,%(score)s:true}%(close)s",
    b"%(open)s{%(index)s:0,%(score)s:0.5},{%(index)s:1}%(close)s",
    b"%(open)s{%(index)s:0,%(score)s:0.5},{%(index)s:1,%(score)s:0.5}%(close)s" + b" " * 8 * 1024 * 1024,
]
SHAPES: dict[Make, dict[bytes, bytes]] = {
    cohere: {b"open": b'{"results":[', b"close": b"]}", b"index": b'"index"', b"score": b'"relevance_score"'},
    tei: {b"open": b"[", b"close": b"]", b"index": b'"index"', b"score": b'"score"'},
}


@pytest.mark.parametrize("make", [cohere, tei])
@pytest.mark.parametrize("template", WRONG, ids=range(len(WRONG)))
def test_wrong_answer_is_rejected_whole(make: Make, template: bytes) -> None:
    """One wrong entry, another shape, no results or a body over 8 MiB is BackendBadResponse as the outcome."""
    (outcome,) = rerank(make, answer_with(template % SHAPES[make]), [request_of(2)])
    assert type(outcome) is BackendBadResponse


@pytest.mark.parametrize("make", [cohere, tei])
def test_right_answer_in_the_same_shape_is_read(make: Make) -> None:
    """The template that the wrong answers are made of is right when nothing in it is wrong."""
    template = b"%(open)s{%(index)s:1,%(score)s:0.5},{%(index)s:0,%(score)s:-3}%(close)s"
    assert rerank(make, answer_with(template % SHAPES[make]), [request_of(2)]) == [{"id-0": -3.0, "id-1": 0.5}]


@pytest.mark.parametrize(
    ("status", "kind"), [(429, BackendUnavailable), (503, BackendUnavailable), (413, BackendBadResponse)]
)
@DIALECTS
def test_one_querys_failure_leaves_the_others(
    make: Make, server: Callable[[], Server], status: int, kind: type[BackendError]
) -> None:
    """A refused request is that query's outcome; the others keep their scores."""
    right = server()

    async def refuse_one(request: web.Request) -> web.Response:
        if b"refuse" in await request.read():
            return json_response({}, status)
        return await right(request)

    requests = [request_of(3), request_of(3, "refuse"), request_of(4)]
    first, second, third = rerank(make, refuse_one, requests)
    assert first == right_scores(requests[0])
    assert type(second) is kind
    assert third == right_scores(requests[2])


def test_one_failed_part_fails_the_query() -> None:
    """When one request of a split is refused, the whole query's outcome is that failure."""
    right = Tei()

    async def refuse_the_short(request: web.Request) -> web.Response:
        if len((await request.json())["texts"]) < 32:
            return json_response({}, 429)
        return await right(request)

    split, whole = rerank(tei, refuse_the_short, [request_of(33), request_of(32)])
    assert type(split) is BackendUnavailable
    assert whole == right_scores(request_of(32))


def test_tei_splits_by_its_limit() -> None:
    """Candidates above the limit go out in as few requests as hold them."""
    server = Tei()
    rerank(tei, server, [request_of(70)])
    assert sorted(len(body["texts"]) for body in server.requests) == [6, 32, 32]


@pytest.mark.parametrize(
    ("make", "server", "most"), [(cohere, Cohere, 4), (tei, Tei, 4), (unbounded_cohere, Cohere, 12)]
)
def test_requests_in_flight_are_bounded(make: Make, server: Callable[[float], Server], most: int) -> None:
    """As many requests are in flight as `max_concurrency` allows, over calls too, and no more; 0 is no bound."""
    asked = server(0.05)

    async def scenario() -> None:
        async with answering(asked) as url, backend(f"{url}/v2") as endpoint:
            reranker = make(endpoint)
            calls = (reranker.rerank([request_of(2)] * 6, timeout=5) for _ in range(2))
            await asyncio.gather(*calls)

    asyncio.run(scenario())
    assert asked.most_at_once == most
    assert len(asked.requests) == 12


@DIALECTS
def test_waiting_for_a_slot_counts_for_the_timeout(make: Make, server: Callable[[float], Server]) -> None:
    """All requests of a call share its time-out: those that get no slot in time are BackendTimeout and are not sent."""
    asked = server(0.3)
    started = time.monotonic()
    outcomes = rerank(make, asked, [request_of(2)] * 12, timeout=0.45)
    assert time.monotonic() - started < 1.5
    assert [type(outcome) for outcome in outcomes] == [dict] * 4 + [BackendTimeout] * 8
    assert len(asked.requests) == 8


def test_waiting_for_anothers_slot_ends_in_time() -> None:
    """A call that waits for slots which a longer call holds is BackendTimeout when its own time is up."""

    async def scenario() -> tuple[list[Scores | BackendError], float]:
        async with answering(Cohere(1.0)) as url, backend(f"{url}/v2") as endpoint:
            reranker = cohere(endpoint)
            longer = asyncio.create_task(reranker.rerank([request_of(2)] * 4, timeout=5))
            await asyncio.sleep(0.1)
            started = time.monotonic()
            outcomes = await reranker.rerank([request_of(2)], timeout=0.1)
            took = time.monotonic() - started
            await longer
            return outcomes, took

    outcomes, took = asyncio.run(scenario())
    assert [type(outcome) for outcome in outcomes] == [BackendTimeout]
    assert took < 0.6


@pytest.mark.parametrize("make", [cohere, tei])
def test_hanging_server_is_a_timeout(make: Make) -> None:
    """A server that doesn't answer costs the time-out and is BackendTimeout for each query."""

    async def hang(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    outcomes = rerank(make, hang, [request_of(2), request_of(40)], timeout=0.2)
    assert [type(outcome) for outcome in outcomes] == [BackendTimeout] * 2


@pytest.mark.parametrize("make", [cohere, tei])
def test_slots_come_free_after_failures_and_cancellation(make: Make) -> None:
    """Neither failed nor cancelled calls keep their slots."""
    hanging = True
    right = Cohere() if make is cohere else Tei()

    async def hang_at_first(request: web.Request) -> web.Response:
        if hanging:
            await asyncio.Event().wait()
        return await right(request)

    async def scenario() -> list[Scores | BackendError]:
        nonlocal hanging
        async with answering(hang_at_first) as url, backend(f"{url}/v2") as endpoint:
            reranker = make(endpoint)
            await reranker.rerank([request_of(2)] * 6, timeout=0.1)
            cancelled = asyncio.create_task(reranker.rerank([request_of(2)] * 6, timeout=5))
            await asyncio.sleep(0.1)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            hanging = False
            return await reranker.rerank([request_of(2)] * 6, timeout=2)

    assert asyncio.run(scenario()) == [right_scores(request_of(2))] * 6


def test_a_reranker_outlives_its_loop() -> None:
    """A reranker whose slots were waited for on one event loop works on the next."""
    endpoints: list[Endpoint] = []

    async def scenario(reranker: Reranker | None) -> tuple[Reranker, list[Scores | BackendError]]:
        async with answering(Cohere(0.01)) as url, backend(f"{url}/v2") as endpoint:
            if reranker is None:
                reranker = CohereReranker(endpoint, "m", max_concurrency=1)
            else:
                assert isinstance(reranker, CohereReranker)
                reranker.endpoint = endpoint
            endpoints.append(endpoint)
            return reranker, await reranker.rerank([request_of(2)] * 3, timeout=5)

    reranker, first = asyncio.run(scenario(None))
    _, second = asyncio.run(scenario(reranker))
    assert first == second == [right_scores(request_of(2))] * 3


def test_documents_are_sent_as_written() -> None:
    """Any text goes through unchanged, whatever it holds."""
    server = Cohere()
    texts = {"a": 'quote " slash \\ brace }', "b": "line\nbreak\ttab\x00", "c": "日本語 🙂"}
    rerank(cohere, server, [RerankRequest("q", texts, "docs")])
    assert server.requests[0]["documents"] == orjson.loads(orjson.dumps(list(texts.values())))
