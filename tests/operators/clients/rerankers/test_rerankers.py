"""The HTTP rerankers against servers that answer in their dialects' recorded shapes and enforce their limits."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from operators.clients.http.backend import resilient
from operators.clients.http.transport import Endpoint
from operators.clients.rerankers import Capacity
from operators.query.backend_answers import Scores
from schemas.errors import BackendBadResponse, BackendError, BackendUnavailable
from tests.operators.clients.http.serving import answering, backend
from tests.operators.clients.rerankers.dialects import (
    COHERE,
    DIALECTS,
    EVERY_DIALECT,
    EVERY_SERVER,
    MODEL,
    TEI,
    TEI_PREDICT,
    VLLM_SCORE,
    VOYAGE,
    Dialect,
    Local,
    by_dialect,
    failure,
    many,
    request_of,
    right_scores,
    scored,
)


@EVERY_SERVER
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_each_document_gets_its_own_score_in_one_call(dialect: Dialect, share: float) -> None:
    """From one document to the dialect's limit, each gets the score that the server gave its text, in one call."""
    request = many(max(1, int(share * dialect.client.limit)))
    server = dialect.server()
    assert scored(dialect, server, request) == [right_scores(request)]
    assert len(server.requests) == 1


GOLDEN: list[tuple[Dialect, dict[str, Any]]] = [
    (COHERE, {"model": MODEL, "query": "q", "documents": ["x", "y"], "top_n": 2}),
    (VOYAGE, {"model": MODEL, "query": "q", "documents": ["x", "y"], "top_k": 2}),
    (TEI, {"query": "q", "texts": ["x", "y"], "truncate": True}),
    (TEI_PREDICT, {"inputs": [["q", "x"], ["q", "y"]], "truncate": True}),
    (VLLM_SCORE, {"model": MODEL, "text_1": ["q", "q"], "text_2": ["x", "y"]}),
]


@pytest.mark.parametrize(("dialect", "body"), GOLDEN, ids=DIALECTS)
def test_request_is_as_documented(dialect: Dialect, body: dict[str, Any]) -> None:
    """A request holds exactly the documented fields."""
    server = dialect.server()
    scored(dialect, server, request_of("x", "y", query="q"))
    assert server.requests == [body]


@EVERY_DIALECT
def test_texts_are_sent_as_written(dialect: Dialect) -> None:
    """Any text is scored unchanged, whatever it holds, the empty one and repeated ones too."""
    texts = ('quote " slash \\ brace }', "line\nbreak\ttab\x00", "日本語 🙂 \u202e", "", "twice", "twice")
    request = request_of(*texts, query='"; DROP \u2028')
    assert scored(dialect, dialect.server(), request) == [right_scores(request)]


@EVERY_DIALECT
@pytest.mark.parametrize(("query", "text"), [("\ud800", "x"), ("q", "\ud800")])
def test_text_that_json_cannot_hold_is_refused(dialect: Dialect, query: str, text: str) -> None:
    """A lone surrogate, which UTF-8 can't hold, is BackendBadResponse, and nothing is sent."""
    server = dialect.server()
    assert type(failure(lambda: scored(dialect, server, request_of(text, query=query)))) is BackendBadResponse
    assert server.requests == []


@by_dialect({"tei": TEI, "tei_predict": TEI_PREDICT})
def test_tei_refuses_more_than_its_limit(dialect: Dialect) -> None:
    """A call above the server's limit, by a client that was told of a higher one, is BackendBadResponse of 413."""
    error = failure(lambda: scored(dialect, dialect.server(), many(33), documents=100))
    assert type(error) is BackendBadResponse
    assert error.status == 413


@EVERY_DIALECT
def test_overloaded_server_is_unavailable(dialect: Dialect) -> None:
    """A server with as many calls in hand as it takes is BackendUnavailable of 429; those calls get their scores."""

    async def scenario() -> tuple[list[Sequence[Scores | BackendError]], BackendError]:
        server = dialect.server(most_at_once=2)
        server.hold.clear()
        async with answering(server) as url, backend(f"{url}/base") as endpoint:
            first = dialect.over(endpoint)
            in_hand = [asyncio.create_task(first.score([request_of("x")], timeout=30)) for _ in range(2)]
            await server.full.wait()
            with pytest.raises(BackendError) as caught:
                await dialect.over(endpoint).score([request_of("x")], timeout=30)
            server.hold.set()
            return [await task for task in in_hand], caught.value

    answers, error = asyncio.run(scenario())
    assert answers == [[right_scores(request_of("x"))]] * 2
    assert type(error) is BackendUnavailable
    assert error.status == 429


CAPACITIES = [
    (COHERE, Capacity(1, 1000)),
    (VOYAGE, Capacity(1, 1000)),
    (TEI, Capacity(1, 32)),
    (TEI_PREDICT, Capacity(32, 32, apart="namespace")),
    (VLLM_SCORE, Capacity(1000, 1000, apart="namespace")),
]


@pytest.mark.parametrize(("dialect", "capacity"), CAPACITIES, ids=DIALECTS)
def test_capacity_is_the_dialects_unless_configured(dialect: Dialect, capacity: Capacity) -> None:
    """Without configuration a client carries what its dialect's servers take; documents and characters can be set."""
    guarded = resilient(Endpoint("backend", "http://local", Local(b"")))
    assert dialect.client(guarded, MODEL).capacity == capacity
    configured = dialect.client(guarded, MODEL, documents=7, chars=4000).capacity
    assert configured == Capacity(min(7, capacity.queries), 7, 4000, apart=capacity.apart)


@EVERY_DIALECT
def test_client_says_what_it_reads_and_who_it_is(dialect: Dialect) -> None:
    """A cross-encoder reads texts and reports the configured model."""
    reranker = dialect.over(Endpoint("backend", "http://local", Local(b"")))
    assert (reranker.reads, reranker.model) == ("text", MODEL)


@EVERY_DIALECT
def test_closed_client_is_unavailable(dialect: Dialect) -> None:
    """Closing a client closes its connections: a later call is BackendUnavailable."""

    async def scenario() -> None:
        async with answering(dialect.server()) as url, backend(f"{url}/base") as endpoint:
            reranker = dialect.over(endpoint)
            assert await reranker.score([request_of("x")], timeout=5)
            await reranker.aclose()
            await reranker.score([request_of("x")], timeout=5)

    assert type(failure(lambda: asyncio.run(scenario()))) is BackendUnavailable
