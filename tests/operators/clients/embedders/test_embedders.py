"""The HTTP embedders against servers that answer in their dialects' recorded shapes and enforce their limits."""

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from operators.clients.embedders import Embedder, Purpose
from operators.clients.embedders.bi_encoders import APIS, BiEncoder, dense
from operators.clients.http.backend import Resilient
from operators.clients.http.transport import Endpoint
from operators.query.backend_answers import Embedding
from schemas.errors import BackendBadResponse, BackendTimeout, BackendUnavailable
from tests.operators.clients.http.serving import Handler, answering, backend, json_response

Make = Callable[[Endpoint], Embedder]


def vector_of(text: str) -> list[float]:
    """The vector that the servers here give `text`: a direction of its own, not of unit length."""
    return [float(len(text)), sum(map(ord, text)) / 100, 2.0]


class OpenAI:
    """An OpenAI-compatible server that takes 8 texts a request and answers them in reverse."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    async def __call__(self, request: web.Request) -> web.Response:
        """Keep the request and answer it."""
        assert (request.method, request.path) == ("POST", "/v1/embeddings")
        body = await request.json()
        self.requests.append(body)
        texts = body["input"]
        if len(texts) > 8:
            error = {"message": "too many inputs", "type": "invalid_request_error", "param": "input", "code": None}
            return json_response({"error": error}, 400)
        data = [
            {"object": "embedding", "index": index, "embedding": vector_of(text)} for index, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": 9, "total_tokens": 9}
        return json_response({"object": "list", "data": data[::-1], "model": body["model"], "usage": usage})


class Tei:
    """A text-embeddings-inference server with its default limit of 32 texts a request."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    async def __call__(self, request: web.Request) -> web.Response:
        """Keep the request and answer it."""
        assert (request.method, request.path) == ("POST", "/v1/embed")
        body = await request.json()
        self.requests.append(body)
        texts = body["inputs"]
        if len(texts) > 32:
            error = f"batch size {len(texts)} > maximum allowed batch size 32"
            return json_response({"error": error, "error_type": "Validation"}, 413)
        return json_response([vector_of(text) for text in texts])


def openai(endpoint: Endpoint) -> Embedder:
    """The OpenAI-compatible embedder, for a server of `OpenAI`'s limit."""
    return BiEncoder(Resilient(endpoint), "text-embedding-3-small", dense(3), APIS["openai"], max_batch=8)


def tei(endpoint: Endpoint) -> Embedder:
    """The TEI embedder with its defaults."""
    return BiEncoder(Resilient(endpoint), "bge-small-en-v1.5", dense(3), APIS["tei"])


def embed(
    make: Make, handler: Handler, texts: list[str], timeout: float = 5.0, purpose: Purpose = "document"
) -> list[Embedding]:
    """The vectors of `make`'s embedder for `texts` from a server of `handler`."""

    async def scenario() -> list[Embedding]:
        async with answering(handler) as url, backend(f"{url}/v1") as endpoint:
            return await make(endpoint).embed(texts, purpose=purpose, timeout=timeout)

    return asyncio.run(scenario())


def answer_with(value: object) -> Handler:
    """A server that always answers `value`."""

    async def answer(_: web.Request) -> web.Response:
        return json_response(value)

    return answer


@pytest.mark.parametrize(("make", "server"), [(openai, OpenAI), (tei, Tei)])
@pytest.mark.parametrize("count", [1, 8, 9, 32, 33, 100])
def test_vectors_are_unit_length_in_the_texts_order(make: Make, server: Callable[[], OpenAI | Tei], count: int) -> None:
    """However many texts, each gets its own vector at unit length, and no request is over the server's limit."""
    texts = [f"text {'x' * number}" for number in range(count)]
    embeddings = embed(make, server(), texts)
    assert len(embeddings) == count
    for text, embedding in zip(texts, embeddings, strict=True):
        expected = np.array(vector_of(text)) / np.linalg.norm(vector_of(text))
        assert np.allclose(embedding.vector, expected, atol=1e-6)
        assert embedding.tokens is None


def test_openai_request_is_as_documented() -> None:
    """An OpenAI-compatible request holds the model, the texts and the float format, and nothing else."""
    server = OpenAI()
    embed(openai, server, ["a", "b"])
    assert server.requests == [{"model": "text-embedding-3-small", "input": ["a", "b"], "encoding_format": "float"}]


def test_tei_request_is_as_documented() -> None:
    """A TEI request holds the texts and asks for truncation, and nothing else."""
    server = Tei()
    embed(tei, server, ["a", "b"])
    assert server.requests == [{"inputs": ["a", "b"], "truncate": True}]


@pytest.mark.parametrize(("make", "server"), [(openai, OpenAI), (tei, Tei)])
def test_no_texts_need_no_request(make: Make, server: Callable[[], OpenAI | Tei]) -> None:
    """Without texts nothing is sent."""
    asked = server()
    assert embed(make, asked, []) == []
    assert asked.requests == []


def entry(index: object, vector: object = (1.0, 2.0, 3.0)) -> dict[str, object]:
    """One entry of an OpenAI-compatible answer."""
    return {"object": "embedding", "index": index, "embedding": vector}


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        {"data": None},
        {"data": {}},
        {"data": []},
        {"data": [entry(0)]},
        {"data": [entry(0), entry(0)]},
        {"data": [entry(0), entry(2)]},
        {"data": [entry(0), entry(-1)]},
        {"data": [entry(0), entry(True)]},
        {"data": [entry(0), entry(1.0)]},
        {"data": [entry(0), entry("1")]},
        {"data": [entry(1), entry(None)]},
        {"data": [entry(None), entry(0)]},
        {"data": [entry(None), entry(None), entry(None)]},
        {"data": [entry(None)]},
        {"data": [entry(0), {"embedding": [1.0, 2.0, 3.0]}, entry(1)]},
        {"data": [entry(0), {"index": 1}]},
        {"data": [entry(0), [1.0, 2.0, 3.0]]},
        {"data": [entry(0), entry(1), entry(2)]},
        {"data": [entry(0), entry(1, "AACAPwAAAEAAAEBA")]},
        {"data": [entry(0), entry(1, [1.0, 2.0])]},
        {"data": [entry(0), entry(1, [1.0, 2.0, None])]},
        {"data": [entry(0, [1.0, 2.0]), entry(1, [1.0, 2.0])]},
    ],
)
def test_openai_answer_that_does_not_fit_is_a_bad_response(answer: object) -> None:
    """Two texts whose answer isn't two vectors of the dimension, each index once, are BackendBadResponse."""
    with pytest.raises(BackendBadResponse):
        embed(openai, answer_with(answer), ["a", "b"])


@pytest.mark.parametrize(
    "indices",
    [(None, 1), ("none", 1), (0, None), (0, "none"), (None, None), ("none", "none"), (None, "none")],
)
def test_an_index_that_is_left_out_is_that_of_the_place(indices: tuple[object, object]) -> None:
    """A server may leave out the index 0, as it does any zero, or all of them: the vectors are in the texts' order."""
    entries = [entry(indices[0], (1.0, 0.0, 0.0)), entry(indices[1], (0.0, 1.0, 0.0))]
    data = [{key: value for key, value in each.items() if value != "none"} for each in entries]
    first, second = embed(openai, answer_with({"data": data}), ["a", "b"])
    assert (list(first.vector), list(second.vector)) == ([1, 0, 0], [0, 1, 0])


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        [],
        [[1.0, 2.0, 3.0]],
        [[1.0, 2.0, 3.0]] * 3,
        [[1.0, 2.0, 3.0], None],
        [[1.0, 2.0, 3.0], [1.0, 2.0]],
        [[1.0, 2.0], [1.0, 2.0]],
        [[1.0, 2.0, 3.0], [True, 2.0, 3.0]],
    ],
)
def test_tei_answer_that_does_not_fit_is_a_bad_response(answer: object) -> None:
    """Two texts whose answer isn't two vectors of the dimension are BackendBadResponse."""
    with pytest.raises(BackendBadResponse):
        embed(tei, answer_with(answer), ["a", "b"])


@pytest.mark.parametrize(("make", "limit"), [(openai, 8), (tei, 32)])
def test_one_failed_part_fails_the_call(make: Make, limit: int) -> None:
    """One refused request of a split leaves no vectors at all."""
    right = OpenAI() if make is openai else Tei()

    async def refuse_the_last(request: web.Request) -> web.Response:
        body = await request.json()
        if len(body.get("input", body.get("inputs"))) < limit:
            return json_response({}, 429)
        return await right(request)

    with pytest.raises(BackendUnavailable):
        embed(make, refuse_the_last, ["a"] * (limit + 1))


@pytest.mark.parametrize("make", [openai, tei])
def test_slow_embedder_is_a_timeout(make: Make) -> None:
    """An embedder that doesn't answer within the time-out is BackendTimeout."""

    async def hang(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    with pytest.raises(BackendTimeout):
        embed(make, hang, ["a"], timeout=0.1)


class Recorded:
    """A server that answers each text with its vector in the form of `kind`'s API, and keeps what it was asked."""

    def __init__(self, kind: str) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self._kind = kind

    async def __call__(self, request: web.Request) -> web.Response:
        """Keep the request and answer it."""
        body = await request.json()
        self.requests.append((request.path, body))
        vectors = [vector_of(text) for text in body[APIS[self._kind].texts]]
        if self._kind == "tei":
            return json_response(vectors)
        if self._kind == "cohere":
            meta = {"api_version": {"version": "2"}, "billed_units": {"input_tokens": 9}}
            answer = {"id": "da6e531f", "texts": body["texts"], "embeddings": {"float": vectors}}
            return json_response({**answer, "response_type": "embeddings_by_type", "meta": meta})
        data = [{"object": "embedding", "embedding": vector, "index": index} for index, vector in enumerate(vectors)]
        return json_response({"object": "list", "data": data, "model": body["model"], "usage": {"total_tokens": 10}})


FLOATS: dict[str, Any] = {"encoding_format": "float"}
SENT: dict[str, tuple[str, dict[str, Any]]] = {
    "openai": ("/v1/embeddings", {"model": "m", "input": ["a"], **FLOATS, "dimensions": 3}),
    "tei": ("/v1/embed", {"inputs": ["a"], "truncate": True, "dimensions": 3}),
    "cohere": ("/v1/embed", {"model": "m", "texts": ["a"], "embedding_types": ["float"], "output_dimension": 3}),
    "voyage": ("/v1/embeddings", {"model": "m", "input": ["a"], "output_dimension": 3}),
    "nim": ("/v1/embeddings", {"model": "m", "input": ["a"], **FLOATS, "truncate": "END", "dimensions": 3}),
}


@pytest.mark.parametrize("kind", APIS)
def test_every_api_is_asked_and_read_as_documented(kind: str) -> None:
    """The path and the fields are the API's, with the length of the vectors if it is asked for."""
    server = Recorded(kind)
    (embedding,) = embed(lambda it: BiEncoder(Resilient(it), "m", dense(3), APIS[kind], dimensions=3), server, ["a"])
    assert server.requests == [SENT[kind]]
    assert np.allclose(embedding.vector, np.array(vector_of("a")) / np.linalg.norm(vector_of("a")), atol=1e-6)


@pytest.mark.parametrize("purpose", ["query", "document"])
@pytest.mark.parametrize("kind", APIS)
def test_a_purpose_is_said_by_prefix_and_fields(kind: str, purpose: Purpose) -> None:
    """A query's text is told from a document's: by what stands before it, and by fields of the request."""
    purposes = {"query": {"prefix": "find: ", "input_type": "search"}, "document": {"prompt_name": "passage"}}
    server = Recorded(kind)
    embed(
        lambda it: BiEncoder(Resilient(it), "m", dense(3), APIS[kind], purposes=purposes),
        server,
        ["a"],
        purpose=purpose,
    )
    [(_, body)] = server.requests
    prefixed = body.pop(APIS[kind].texts)
    assert prefixed == (["find: a"] if purpose == "query" else ["a"])
    said = {name: body[name] for name in ("input_type", "prompt_name", "prefix") if name in body}
    assert said == ({"input_type": "search"} if purpose == "query" else {"prompt_name": "passage"})


@pytest.mark.parametrize("answer", [None, [], {}, {"embeddings": None}, {"embeddings": [[1.0, 2.0, 3.0]]}])
def test_cohere_answer_that_does_not_fit_is_a_bad_response(answer: object) -> None:
    """One text whose answer isn't one vector among the floats is BackendBadResponse."""
    with pytest.raises(BackendBadResponse):
        embed(lambda it: BiEncoder(Resilient(it), "m", dense(3), APIS["cohere"]), answer_with(answer), ["a"])
