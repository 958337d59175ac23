"""The HTTP rerankers against servers that answer in their dialects' recorded shapes and enforce their limits."""

from collections.abc import Callable

import orjson
import pytest
from aiohttp import web

from operators.clients.rerankers import RerankRequest
from schemas.errors import BackendBadResponse, BackendError, BackendUnavailable
from tests.operators.clients.rerankers.dialects import (
    DIALECTS,
    Cohere,
    Make,
    Server,
    Tei,
    cohere,
    request_of,
    rerank,
    right_scores,
    tei,
)
from tests.operators.clients.serving import Handler, json_response


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


def test_documents_are_sent_as_written() -> None:
    """Any text goes through unchanged, whatever it holds."""
    server = Cohere()
    texts = {"a": 'quote " slash \\ brace }', "b": "line\nbreak\ttab\x00", "c": "日本語 🙂"}
    rerank(cohere, server, [RerankRequest("q", texts, "docs")])
    assert server.requests[0]["documents"] == orjson.loads(orjson.dumps(list(texts.values())))
