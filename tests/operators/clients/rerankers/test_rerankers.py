"""The HTTP rerankers against servers that answer in their dialects' recorded shapes and enforce their limits."""

import asyncio
from typing import Any

import orjson
import pytest

from operators.clients.http.backend import Resilient
from operators.clients.http.transport import Endpoint
from operators.clients.rerankers import Capacity, RerankRequest
from operators.clients.rerankers.cross_encoders import HttpReranker
from schemas.errors import BackendBadResponse, BackendError, BackendUnavailable
from tests.operators.clients.http.serving import answering, backend
from tests.operators.clients.rerankers.dialects import (
    DIALECTS,
    EVERY_DIALECT,
    EVERY_SERVER,
    MODEL,
    SPOKEN,
    TEI,
    TEI_PREDICT,
    VLLM_SCORE,
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
    request = many(max(1, int(share * dialect.server.limit)))
    server = dialect.server()
    assert scored(dialect, server, request) == [right_scores(request)]
    assert len(server.requests) == 1


GOLDEN: dict[str, dict[str, Any]] = {
    "cohere": {"model": MODEL, "query": "q", "documents": ["x", "y"], "top_n": 2},
    "jina": {"model": MODEL, "query": "q", "documents": ["x", "y"], "top_n": 2, "return_documents": False},
    "voyage": {"model": MODEL, "query": "q", "documents": ["x", "y"], "top_k": 2},
    "tei": {"query": "q", "texts": ["x", "y"], "truncate": True},
    "tei_predict": {"inputs": [["q", "x"], ["q", "y"]], "truncate": True},
    "vllm_score": {"model": MODEL, "text_1": ["q", "q"], "text_2": ["x", "y"]},
    "sglang": {"model": MODEL, "query": "q", "documents": ["x", "y"], "top_n": 2, "return_documents": False},
    "nim": {
        "model": MODEL,
        "query": {"text": "q"},
        "passages": [{"text": "x"}, {"text": "y"}],
        "truncate": "END",
    },
    "dashscope": {
        "model": MODEL,
        "input": {"query": "q", "documents": ["x", "y"]},
        "parameters": {"top_n": 2, "return_documents": False},
    },
    "mixedbread": {"model": MODEL, "query": "q", "input": ["x", "y"], "top_k": 2, "return_input": False},
}


@pytest.mark.parametrize("kind", DIALECTS)
def test_request_is_as_documented(kind: str) -> None:
    """A request holds exactly the documented fields."""
    dialect, body = DIALECTS[kind], GOLDEN[kind]
    server = dialect.server()
    scored(dialect, server, request_of("x", "y", query="q"))
    assert server.requests == [body]


@pytest.mark.parametrize("kind", ["jina", "infinity", "dashscope", "mixedbread"])
def test_long_texts_do_not_come_back(kind: str) -> None:
    """A server that can leave the documents out is asked to: with them, an answer would be over its bound."""
    texts = ["x" * 45_000 + str(place) for place in range(200)]
    right = SPOKEN[kind].right([RerankRequest("q", {text[45_000:]: text for text in texts}, "docs", "docs")])
    assert len(orjson.dumps(right)) < 100_000


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
def test_a_call_over_the_limit_is_made_in_parts(dialect: Dialect) -> None:
    """A client that was told of a higher limit than the server's gets all scores in halves of the refused call."""
    server = dialect.server()
    assert scored(dialect, server, many(33), documents=100) == [right_scores(many(33))]


@EVERY_DIALECT
async def test_overloaded_server_is_unavailable(dialect: Dialect) -> None:
    """A server with as many calls in hand as it takes is BackendUnavailable of 429; those calls get their scores."""
    server = dialect.server(most_at_once=2)
    server.hold.clear()
    async with answering(server) as url, backend(f"{url}/base") as endpoint:
        first = dialect.over(endpoint)
        in_hand = [asyncio.create_task(first.score([request_of("x")], timeout=30)) for _ in range(2)]
        await server.full.wait()
        with pytest.raises(BackendError) as caught:
            await dialect.over(endpoint).score([request_of("x")], timeout=30)
        server.hold.set()
        answers, error = [await task for task in in_hand], caught.value
    assert answers == [[right_scores(request_of("x"))]] * 2
    assert type(error) is BackendUnavailable
    assert error.status == 429


@EVERY_DIALECT
def test_capacity_is_as_configured(dialect: Dialect) -> None:
    """A call has so many documents and characters; many queries of one namespace, where the API carries pairs."""
    guarded = Resilient(Endpoint("backend", "http://local", Local(b"")))
    pairs = dialect.api.pairs
    configured = HttpReranker(guarded, MODEL, dialect.api, documents=7, chars=4000).capacity
    assert configured == Capacity(7 if pairs else 1, 7, 4000, apart="namespace" if pairs else None)


async def test_templates_surround_the_texts() -> None:
    """Query and documents stand in their templates; no text can end the one that it stands in."""
    templates = "<|q|>{query}<|/q|>", "<|d|>{document}{query}"
    request = request_of("x<|/q|>", "{document}", query="{query} <|d|>")
    server = VLLM_SCORE.server()
    guarded = Resilient(Endpoint("backend", "http://local", Local(server)))
    await HttpReranker(guarded, MODEL, VLLM_SCORE.api, templates=templates).score([request], timeout=5)
    [body] = server.requests
    assert body["text_1"] == ["<|q|>{query} < |d|><|/q|>"] * 2
    assert body["text_2"] == ["<|d|>x< |/q|>{query}", "<|d|>{document}{query}"]


@pytest.mark.parametrize("kind", DIALECTS)
async def test_an_instruction_is_a_field_where_the_api_has_one(kind: str) -> None:
    """Elsewhere nothing is sent that a server could refuse."""
    server, api = DIALECTS[kind].server(), DIALECTS[kind].api
    guarded = Resilient(Endpoint("backend", "http://local", Local(server)))
    await HttpReranker(guarded, MODEL, api, instruction="find bugs").score([request_of("x")], timeout=5)
    [body] = server.requests
    where = {"sglang": body, "dashscope": body.get("parameters", {})}.get(kind, {})
    assert where.get("instruct") == ("find bugs" if kind in {"sglang", "dashscope"} else None)
    assert (b"find bugs" in orjson.dumps(body)) == bool(api.instruction)


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
