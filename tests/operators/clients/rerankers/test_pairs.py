"""The dialects that carry pairs: documents of many queries in one call."""

from dataclasses import replace
from typing import Any

import orjson
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from operators.clients.http.backend import TRIES, Resilient
from operators.clients.http.transport import Endpoint
from operators.clients.rerankers import RerankRequest
from operators.clients.rerankers.cross_encoders import HttpReranker
from operators.query.backend_answers import SomeScores
from schemas.errors import BackendBadResponse
from tests.operators.clients.rerankers.dialects import (
    EVERY_DIALECT,
    MODEL,
    PAIRS,
    TEI_PREDICT,
    TEXTS,
    VLLM_SCORE,
    Dialect,
    Local,
    failure,
    many,
    read_locally,
    request_of,
    right_scores,
    scored,
)
from tests.operators.clients.rerankers.servers import Server

WRITTEN = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
REQUESTS = st.lists(
    st.builds(
        RerankRequest,
        WRITTEN,
        st.dictionaries(st.sampled_from("abcdef"), WRITTEN, min_size=1, max_size=5),
        st.just("docs"),
        st.just("docs"),
    ),
    min_size=1,
    max_size=6,
)


@PAIRS
def test_outcomes_follow_the_requests(dialect: Dialect) -> None:
    """Many queries' documents go in one call, and each query gets its own scores, though they share ids and texts."""
    requests = [many(count, f"query {place}") for place, count in enumerate((5, 1, 9, 2, 14, 1))]
    server = dialect.server()
    assert scored(dialect, server, *requests) == [right_scores(request) for request in requests]
    assert len(server.requests) == 1


@PAIRS
@given(REQUESTS)
def test_any_requests_get_their_own_scores(dialect: Dialect, requests: list[RerankRequest]) -> None:
    """Whatever queries share a call, each document gets the score of its own pair."""
    assert read_locally(dialect, dialect.server(), requests) == [right_scores(request) for request in requests]


def test_pairs_request_repeats_the_query() -> None:
    """The documents of two queries stand behind each other, each beside its query."""
    requests = [request_of("x", "y", query="q"), request_of("z", query="r")]
    vllm = VLLM_SCORE.server()
    scored(VLLM_SCORE, vllm, *requests)
    assert vllm.requests == [{"model": MODEL, "text_1": ["q", "q", "r"], "text_2": ["x", "y", "z"]}]
    tei = TEI_PREDICT.server()
    scored(TEI_PREDICT, tei, *requests)
    assert tei.requests == [{"inputs": [["q", "x"], ["q", "y"], ["r", "z"]], "truncate": True}]


@PAIRS
def test_namespaces_share_calls_of_a_trusted_backend_alone(dialect: Dialect) -> None:
    """Two namespaces' documents are kept apart unless the backend is trusted."""
    guarded = Resilient(Endpoint("backend", "http://local", Local(b"")))
    assert HttpReranker(guarded, MODEL, dialect.api).capacity.apart == "namespace"
    assert HttpReranker(guarded, MODEL, dialect.api, trusted=True).capacity.apart is None


@PAIRS
@pytest.mark.parametrize("change", [-1, 1])
def test_wrong_count_fails_the_whole_call(dialect: Dialect, change: int) -> None:
    """One score too few or too many fails all queries of the call: who would get whose?"""
    requests = [request_of(*TEXTS), request_of(*TEXTS, query="r")]
    answer = dialect.right(requests)
    entries = dialect.server().entries(answer)
    if change < 0:
        entries.pop()
    else:
        entries.append({**entries[0], "index": 6} if isinstance(entries[0], dict) else entries[0])
    error = failure(lambda: read_locally(dialect, orjson.dumps(answer), requests))
    assert type(error) is BackendBadResponse


@pytest.mark.parametrize(
    ("labels", "symptom"),
    [
        ([], "0 labels"),
        ([{"score": 0.9, "label": "yes"}, {"score": 0.1, "label": "no"}], "2 labels"),
        ([{"label": "LABEL_0"}], "finite"),
        ({"score": 0.9, "label": "LABEL_0"}, "not a list of labels"),
        ([[{"score": 0.9, "label": "LABEL_0"}]], "not a list of labels"),
        (None, "not a list of labels"),
    ],
)
def test_predictions_of_another_kind_of_model_are_rejected(labels: Any, symptom: str) -> None:
    """A model of no label or of several is no cross-encoder: BackendBadResponse that says what was found."""
    right = [{"score": 0.5, "label": "LABEL_0"}]
    answer = orjson.dumps([right, labels, right])
    error = failure(lambda: read_locally(TEI_PREDICT, answer, [request_of(*TEXTS)]))
    assert type(error) is BackendBadResponse
    assert symptom in str(error)


def test_label_is_not_read() -> None:
    """A model's name of its one label doesn't matter."""
    answer = b'[[{"score":-3,"label":"relevant"}],[{"score":0.25}]]'
    assert read_locally(TEI_PREDICT, answer, [request_of("x", "y")]) == [{"a": -3.0, "b": 0.25}]


def test_scores_of_pairs_are_placed_by_index() -> None:
    """Should a `/score` answer come in another order, each pair still gets the score of its index."""
    answer = VLLM_SCORE.right([request_of(*TEXTS)])
    answer["data"].reverse()
    assert read_locally(VLLM_SCORE, orjson.dumps(answer), [request_of(*TEXTS)]) == [right_scores(request_of(*TEXTS))]


class Intolerant:
    """A server that refuses, with `status`, every call that holds the text `too long`, and counts its calls."""

    def __init__(self, server: Server, status: int) -> None:
        self.calls = 0
        self._server = server
        self._status = status

    async def __call__(self, request: web.Request) -> web.Response:
        """Refuse or pass on."""
        self.calls += 1
        if b"too long" in await request.read():
            return web.json_response({}, status=self._status)
        return await self._server(request)


@EVERY_DIALECT
@pytest.mark.parametrize("status", [400, 413, 422, 424, 500])
def test_a_refused_document_is_unscored_alone(dialect: Dialect, status: int) -> None:
    """The documents that shared its call are asked again in halves, by few calls more than there are documents."""
    request = many(20)
    documents = {**request.documents, "id-11": "too long"}
    server = Intolerant(dialect.server(), status)
    (scores,) = scored(dialect, server, replace(request, documents=documents))
    assert isinstance(scores, SomeScores)
    assert scores.refused == {"id-11"}
    assert scores == {id_: score for id_, score in right_scores(request).items() if id_ != "id-11"}
    assert server.calls <= 2 * (1 + len(documents))


@PAIRS
@pytest.mark.parametrize("status", [400, 500])
def test_a_refused_document_costs_no_other_query_anything(dialect: Dialect, status: int) -> None:
    """Of the queries that shared its call, its own has the scores of its other documents."""
    requests = [many(2, f"query {place}") for place in range(5)]
    requests[3] = request_of("too long", "b")
    outcomes = scored(dialect, Intolerant(dialect.server(), status), *requests)
    assert [*outcomes[:3], *outcomes[4:]] == [right_scores(request) for request in (*requests[:3], requests[4])]
    scores = outcomes[3]
    assert isinstance(scores, SomeScores)
    assert scores.refused == {"a"}
    assert scores == {"b": right_scores(requests[3])["b"]}


@EVERY_DIALECT
def test_a_server_that_refuses_everything_is_not_asked_in_parts(dialect: Dialect) -> None:
    """A wrong model's name, say: the control request is refused, too, and the call is one failure."""
    calls = 0

    async def refuse(_: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        return web.json_response({}, status=400)

    assert failure(lambda: scored(dialect, refuse, many(20))).status == 400
    assert calls == 2


@PAIRS
@pytest.mark.parametrize("status", [502, 503, 504])
def test_an_outage_is_not_divided(dialect: Dialect, status: int) -> None:
    """Asking again in parts would help nobody: the call failed."""
    server = Intolerant(dialect.server(), status)
    requests = [request_of("too long", "b"), *(many(2, f"query {place}") for place in range(4))]
    failure(lambda: scored(dialect, server, *requests))
    assert server.calls == TRIES
