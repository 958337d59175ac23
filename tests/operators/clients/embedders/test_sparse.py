"""Sparse encoders over HTTP: their APIs as documented, and no answer that is read for another one."""

from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from operators.clients.embedders.bi_encoders import SPARSE_APIS, BiEncoder, sparse
from operators.clients.http.backend import Resilient
from operators.clients.http.dialect import MODEL
from operators.clients.http.transport import Endpoint, http_transport
from operators.text.terms import SparseVector
from schemas.errors import BackendBadResponse
from schemas.fields import MAX_FLOAT32
from tests.operators.clients.http.serving import answering, json_response
from tests.operators.clients.model_servers.playing import Playing, terms_of

VALUES = st.floats(-MAX_FLOAT32, MAX_FLOAT32, width=32) | st.integers(-100, 100)
TERMS = st.dictionaries(st.integers(0, 2**32 - 1), VALUES, max_size=20)


@given(TERMS)
def test_both_forms_are_read_alike(terms: dict[int, float]) -> None:
    """Terms in ascending order with their values; those of the value 0 say nothing, and are left out."""
    listed = [{"index": index, "value": value} for index, value in terms.items()]
    named = {str(index): value for index, value in terms.items()}
    one, other = sparse([listed, named], "encoder")
    assert one == other
    assert one.indices == sorted(index for index, value in terms.items() if value)
    assert one.values == [terms[index] for index in one.indices]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (None, "neither a list of terms nor an object"),
        ([0.5, 0.25], "neither a list of terms nor an object"),
        ([{"value": 1.0}], "a term is no number"),
        ([{"index": True, "value": 1.0}], "a term is no number"),
        ([{"index": [1], "value": 1.0}], "a term is no number"),
        ([{"index": -1, "value": 1.0}], "a term is no number"),
        ([{"index": 2**32, "value": 1.0}], "a term is no number"),
        ({"water": 1.0}, "a term is no number"),
        ({"9" * 5000: 1.0}, "a term is no number"),
        ([{"index": 7, "value": 1.0}, {"index": 7, "value": 2.0}], "a term comes twice"),
        ({"7": 1.0, "07": 2.0}, "a term comes twice"),
        ([{"index": 7, "value": None}], "a value is no number"),
        ([{"index": 7}], "a value is no number"),
        ([{"index": 7, "value": True}], "a value is no number"),
        ({"7": float("nan")}, "a value is no number"),
        ({"7": 1e39}, "a value is no number"),
    ],
)
def test_what_is_no_sparse_vector_is_refused(row: object, said: str) -> None:
    """Nothing is repaired: Qdrant would refuse it, or search by something else."""
    with pytest.raises(BackendBadResponse, match=said):
        sparse([row], "encoder")


SENT: dict[str, tuple[str, dict[str, Any]]] = {
    "tei": ("/base/embed_sparse", {"inputs": ["a sea", "b"], "truncate": True}),
    "openai": ("/base/embeddings", {"model": "m", "input": ["a sea", "b"]}),
}


@pytest.mark.parametrize("kind", SPARSE_APIS)
async def test_every_api_is_asked_and_read_as_documented(kind: str) -> None:
    """Path, fields and the form of the answer are the API's."""
    playing = Playing("sparse_encoder", kind)
    requests: list[tuple[str, Any]] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        requests.append((request.path, await request.json()))
        return await playing(request)

    async def scenario() -> list[SparseVector]:
        async with answering(handle) as url:
            backend = Resilient(Endpoint("encoder", f"{url}/base", http_transport(), dialect=MODEL))
            encoder = BiEncoder(backend, "m", sparse, SPARSE_APIS[kind])
            try:
                return await encoder.embed(["a sea", "b"], purpose="query", timeout=10)
            finally:
                await encoder.aclose()

    vectors = await scenario()
    assert requests == [SENT[kind]]
    assert [dict(zip(each.indices, each.values, strict=True)) for each in vectors] == [terms_of("a sea"), terms_of("b")]


@pytest.mark.parametrize("answer", [[], [[]], {"data": []}, [[], [], []]])
async def test_an_answer_for_other_texts_is_refused(answer: Any) -> None:
    """Two texts have two vectors."""

    async def handle(_: web.Request) -> web.StreamResponse:
        return json_response(answer)

    async with answering(handle) as url:
        encoder = BiEncoder(Endpoint("encoder", url, http_transport()), "m", sparse, SPARSE_APIS["tei"])
        try:
            with pytest.raises(BackendBadResponse):
                await encoder.embed(["a", "b"], purpose="query", timeout=10)
        finally:
            await encoder.aclose()
