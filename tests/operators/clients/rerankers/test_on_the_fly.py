"""Documents without stored token vectors: the same scores, computed at query time."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.clients.qdrant_edge.shards import Engine
from operators.clients.rerankers.late_interaction import LateInteraction
from operators.clients.rerankers.token_idf import TokenIdf
from operators.clients.rerankers.token_vectors import TEXTS_A_CALL, TokenVectors
from operators.query.backend_answers import refused_of
from schemas.errors import BackendBadResponse, BackendTimeout, BackendUnavailable, NoTokenVectors
from tests.operators.clients.rerankers.token_index import Document, Index, identity, idf, max_sim
from tests.operators.clients.rerankers.word_vectors import (
    VOCABULARY,
    WORDS,
    WordVectors,
    asked,
    embedding,
    refusing,
    scored,
)


def stored(number: int, text: str) -> Document:
    """A document as the indexer would store it."""
    made = embedding(text)
    return Document(identity(number), made.tokens, made.token_ids)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine with the collection `docs`, in which number n has the text "n n+1 n+2"."""
    with Engine(tmp_path_factory.mktemp("engine")) as engine:
        index = Index(engine)

        async def fill() -> None:
            await index.create()
            await index.write(stored(int(number), text) for number, text in enumerate(TEXTS.values(), 1))

        asyncio.run(fill())
        yield engine


@pytest.fixture
def index(engine: Engine) -> Index:
    """The engine's collections, with no request made yet."""
    return Index(engine)


TEXTS = {identity(number): f"{number} {number + 1} {number + 2}" for number in range(1, 21)}
IDS = list(TEXTS)


# Scores


@pytest.mark.parametrize("weighted", [False, True])
def test_computed_scores_equal_stored_ones(index: Index, weighted: bool) -> None:
    """The same documents have the same scores whether Qdrant keeps their token vectors or the embedder makes them."""
    weigher = TokenIdf(index.client) if weighted else None
    vectors = TokenVectors(WordVectors())
    query = asked("3 8 9 30", TEXTS)
    (kept,) = scored(LateInteraction(index.client, "m", idf=weigher), query)
    weigher = TokenIdf(index.client) if weighted else None
    (computed,) = scored(LateInteraction(index.client, "m", using=None, idf=weigher, on_the_fly=vectors), query)
    assert kept.keys() == computed.keys() == TEXTS.keys()
    assert computed == pytest.approx(kept, abs=1e-5)


@given(st.lists(WORDS, min_size=1, max_size=8), WORDS.filter(len))
def test_computed_scores_are_those_of_the_definition(documents: list[list[int]], query: list[int]) -> None:
    """MaxSim's mean over the query's tokens; a document without tokens has no score."""
    texts = {identity(number): " ".join(map(str, words)) for number, words in enumerate(documents)}
    reranker = LateInteraction(refusing(), "m", using=None, on_the_fly=TokenVectors(WordVectors()))
    (found,) = scored(reranker, asked(" ".join(map(str, query)), texts))
    weights = [1.0] * len(query)
    expected = {
        identity(number): max_sim(VOCABULARY[query], weights, VOCABULARY[words])
        for number, words in enumerate(documents)
        if words
    }
    assert dict(found) == pytest.approx(expected, abs=1e-3)
    assert refused_of(found) == texts.keys() - expected.keys()


def test_stored_and_computed_share_an_answer(index: Index) -> None:
    """Documents that Qdrant has no token vectors of stand among the others as if it had, and only they are embedded."""
    embedder = WordVectors()
    strangers = {identity(500): TEXTS[IDS[3]], identity(501): "1 39"}
    texts = {**TEXTS, **strangers}
    reranker = LateInteraction(index.client, "m", idf=TokenIdf(index.client), on_the_fly=TokenVectors(embedder))
    (found,) = scored(reranker, asked("5 6 39", texts))
    assert found.keys() == texts.keys()
    assert found[identity(500)] == pytest.approx(found[IDS[3]], abs=1e-5)
    weights = idf((embedding(text).token_ids for text in TEXTS.values()), (5, 6, 39))
    assert found[identity(501)] == pytest.approx(
        max_sim(VOCABULARY[[5, 6, 39]], weights, VOCABULARY[[1, 39]]), abs=1e-3
    )
    assert embedder.texts == list(strangers.values())


# Failures


def test_without_an_embedder_of_tokens_such_documents_are_their_querys_loss(index: Index) -> None:
    """One that gives no token vectors is a bad response, none at all is no failure; other queries have their scores."""
    strange, known = asked("1 2", {identity(500): "1", IDS[0]: "2"}), asked("1 2", {IDS[0]: "1"})
    cases = ((None, NoTokenVectors), (TokenVectors(WordVectors(tokens=False)), BackendBadResponse))
    for vectors, kind in cases:
        failed, fine = scored(LateInteraction(index.client, "m", on_the_fly=vectors), strange, known)
        assert type(failed) is kind
        assert fine.keys() == {IDS[0]}


def test_a_collection_without_the_multivector_is_not_searched() -> None:
    """A vector that Qdrant can't have is computed, and Qdrant isn't asked for it."""
    query = replace(asked("1 2", {IDS[0]: "1", IDS[1]: "2"}), stored=False)
    (found,) = scored(LateInteraction(refusing(), "m", on_the_fly=TokenVectors(WordVectors())), query)
    assert found.keys() == {IDS[0], IDS[1]}


def test_a_failed_embedder_is_its_own_querys_loss() -> None:
    """A query whose documents are computed already, or by another call, is answered."""
    embedder = WordVectors()
    embedder.failing = {"7"}
    reranker = LateInteraction(refusing(), "m", using=None, on_the_fly=TokenVectors(embedder))
    first, second = asked("1", {"a": "7", "b": "8"}), asked("1", {"a": "9", "b": "10"})
    failed, fine = scored(reranker, first, second)
    assert isinstance(failed, BackendUnavailable)
    assert fine.keys() == {"a", "b"}


def test_what_was_computed_when_time_was_up_is_kept() -> None:
    """The query fails in its time; the next one needs only what was missing."""
    texts = {identity(number): str(number) for number in range(3 * TEXTS_A_CALL)}
    embedder = WordVectors()

    async def scenario() -> tuple[Any, Any]:
        last = list(texts.values())[-1]
        embedder.held = {last: asyncio.Event()}
        reranker = LateInteraction(refusing(), "m", using=None, on_the_fly=TokenVectors(embedder))
        query = asked("1 2", texts)
        # The embedder never answers: the outer time, far above the call's, ends only a call that waits for it.
        async with asyncio.timeout(30):
            (late,) = await reranker.score([query], timeout=4)
        computed = list(embedder.texts)
        embedder.held[last].set()
        (found,) = await reranker.score([query], timeout=30)
        assert computed == list(texts.values())[: 2 * TEXTS_A_CALL]
        return late, found

    late, found = asyncio.run(scenario())
    assert isinstance(late, BackendTimeout)
    assert found.keys() == texts.keys()
    assert embedder.texts == list(texts.values())


def test_closing_gives_up_what_is_computed() -> None:
    """No task is left behind, although the embedder never answers."""

    async def scenario() -> None:
        embedder = WordVectors()
        embedder.held = {"0": asyncio.Event()}
        reranker = LateInteraction(refusing(), "m", using=None, on_the_fly=TokenVectors(embedder))
        (late,) = await reranker.score([asked("1 2", {"a": "0", "b": "1"})], timeout=0.05)
        assert isinstance(late, BackendTimeout)
        async with asyncio.timeout(15):
            await reranker.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())


def test_a_text_is_computed_once() -> None:
    """However often it is asked for, by however many queries and under whatever id."""
    embedder = WordVectors()
    reranker = LateInteraction(refusing(), "m", using=None, on_the_fly=TokenVectors(embedder))
    scored(reranker, asked("1", {"a": "1 2", "b": "1 2", "c": "3"}), asked("2", {"d": "3", "e": "1 2"}))
    scored(reranker, asked("3", {"f": "1 2", "g": ""}))
    assert embedder.texts == ["1 2", "3", ""]
