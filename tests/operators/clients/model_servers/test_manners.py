"""Each manner of an embedder's or a reranker's server has its outcome, in the indexing flow and in the search flow."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from operators.clients.http.backend import Backend, Resilient
from operators.clients.http.dialect import MODEL
from operators.clients.http.transport import Endpoint, http_transport
from operators.clients.rerankers import RerankRequest
from operators.indexing.apply import DocumentEmbedder, DocumentEncoder, DocumentTexts
from operators.query.backend_answers import Embedding, Scores, refused_of
from operators.ranking.content import is_blank
from operators.runtime.dispatcher import Bounds
from operators.stages.embed import Embeddings, Encodings, TextStage
from operators.text.terms import SparseVector
from schemas.errors import BackendError
from tests.operators.clients.http.serving import answering
from tests.operators.clients.model_servers.manners import EMBEDDERS, RERANKERS, SPARSE_ENCODERS
from tests.operators.clients.model_servers.playing import DIMENSION, Manner, Playing, Role, Terms
from tests.operators.clients.model_servers.playing import Embeddings as EmbeddingSpeech
from tests.operators.clients.model_servers.playing import Scores as ScoreSpeech
from tests.operators.indexing.documents import document

OTHERS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta")
PLACE = 5
"""The place of the text that spoils a call."""

BREAKS = 6
"""More times than it takes to open a breaker."""

AT_ONCE = 3
"""Calls at once, as of the two flows and of another replica."""


def texts_of(manner: Manner) -> list[str]:
    """The texts of a call, one of which the server cannot digest."""
    return [*OTHERS[:PLACE], manner.text, *OTHERS[PLACE:]]


@asynccontextmanager
async def backend(server: Playing, name: Role) -> AsyncIterator[Backend]:
    """A backend that calls the server."""
    async with answering(server) as url:
        made = Resilient(Endpoint(name, f"{url}/base", http_transport(), dialect=MODEL))
        yield made
        await made.aclose()


def holds(manner: Manner, answered: Sequence[bool]) -> None:
    """The texts that are answered are those that the manner's outcome says."""
    match manner.outcome:
        case "refused alone" | "not sent":
            expected = [place != PLACE for place in range(len(OTHERS) + 1)]
        case "all answered":
            expected = [True] * (len(OTHERS) + 1)
        case _:
            expected = [False] * (len(OTHERS) + 1)
    assert list(answered) == expected


MODELS: list[tuple[Role, Manner]] = [
    *(("embedder", manner) for manner in EMBEDDERS),
    *(("sparse_encoder", manner) for manner in SPARSE_ENCODERS),
]
EACH_MODEL = pytest.mark.parametrize(("role", "manner"), MODELS, ids=[f"{role}, {it.name}" for role, it in MODELS])


@EACH_MODEL
async def test_queries_of_an_embedder_of_each_manner(role: Role, manner: Manner) -> None:
    """A text that is refused loses its own vector and no other, however often it comes; an outage is all queries'."""
    server = Playing(role, manner.kind, manner)
    async with backend(server, role) as asked:
        stage: TextStage[Any] = (
            Embeddings(EmbeddingSpeech(manner.kind).client(asked), Bounds(1, 64, 8), dimension=DIMENSION)
            if role == "embedder"
            else Encodings(Terms(manner.kind).client(asked), Bounds(1, 64, 8))
        )
        queries = [("n", text) for text in texts_of(manner)]
        for _ in range(1 if manner.outcome != "refused alone" else BREAKS):
            calls = (stage.call("embed", queries, 5.0) for _ in range(AT_ONCE))
            for outcomes in await asyncio.gather(*calls, return_exceptions=True):
                if isinstance(outcomes, BackendError):
                    outcomes = [outcomes] * len(queries)
                assert not isinstance(outcomes, BaseException)
                holds(manner, [isinstance(each, Embedding | SparseVector) for each in outcomes])
    assert server.failed


@EACH_MODEL
async def test_documents_of_an_embedder_of_each_manner(role: Role, manner: Manner) -> None:
    """A document that is refused has the server's reason, where it gave one; an outage refuses none. A sparse encoder
    gets no blank text.
    """
    server = Playing(role, manner.kind, manner)
    waited = manner.outcome == "waited for"

    async def scenario() -> None:
        async with backend(server, role) as asked:
            documents = [document(id=text, text=text) for text in texts_of(manner)]
            stage: DocumentTexts[Any] = (
                DocumentEmbedder(EmbeddingSpeech(manner.kind).client(asked), 5.0)
                if role == "embedder"
                else DocumentEncoder(Terms(manner.kind).client(asked), 5.0)
            )
            calls = [asyncio.ensure_future(stage.call("documents", documents, 1e9)) for _ in range(AT_ONCE)]
            if waited:
                while len(server.calls) < 2 * BREAKS:
                    assert not any(call.done() for call in calls)
                    await asyncio.sleep(0.01)
                for call in calls:
                    call.cancel()
                return
            for outcomes in await asyncio.gather(*calls):
                holds(manner, [isinstance(each, Embedding | SparseVector) for each in outcomes])
                for error in outcomes:
                    if isinstance(error, BackendError) and error.status is not None:
                        assert error.quoted

    await scenario()
    assert bool(server.failed) == (manner.outcome != "not sent")


@pytest.mark.parametrize("manner", RERANKERS, ids=[manner.name for manner in RERANKERS])
async def test_a_query_of_a_reranker_of_each_manner(manner: Manner) -> None:
    """A document that is refused has no score, and the others have theirs, however often it comes."""
    server = Playing("reranker", manner.kind, manner)
    request = RerankRequest("q", {text: text for text in texts_of(manner)}, "docs", "n")

    async def score(asked: Backend) -> Scores:
        [outcome] = await ScoreSpeech(manner.kind).client(asked).score([request], timeout=5.0)
        if isinstance(outcome, BackendError):
            raise outcome
        return outcome

    async with backend(server, "reranker") as asked:
        for _ in range(BREAKS // 2):
            for scores in await asyncio.gather(*(score(asked) for _ in range(AT_ONCE)), return_exceptions=True):
                if isinstance(scores, BackendError):
                    holds(manner, [False] * len(request.documents))
                    continue
                assert not isinstance(scores, BaseException)
                holds(manner, [text in scores for text in request.documents])
                assert refused_of(scores) == request.documents.keys() - scores.keys()
    assert server.failed
    # The stage leaves blank texts out: refused alone, they would cost calls.
    assert is_blank(manner.text) == (manner.outcome == "not sent")
