"""Late interaction over the engine's token vectors, against numpy."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from operators.access.firewall import AccessFilter
from operators.clients.qdrant.requests import Change
from operators.clients.qdrant_edge.shards import Engine
from operators.clients.rerankers import Reranker, RerankRequest
from operators.clients.rerankers.late_interaction import LateInteraction, WeightedQuery
from operators.clients.rerankers.token_idf import TokenIdf
from operators.clients.rerankers.token_vectors import to_float16
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, NoTokenVectors
from tests.operators.clients.rerankers.token_index import (
    DIMENSION,
    Document,
    Index,
    identity,
    idf,
    max_sim,
    request,
    unit_rows,
)

SPACES = ("a", "b", "c")
DOCUMENTS = {
    identity(number): Document(
        identity(number), unit_rows(1 + number % 12), tuple(range(number % 7)), SPACES[number % len(SPACES)]
    )
    for number in range(1, 31)
}
IDS = list(DOCUMENTS)
BARE = Document(identity(999), None)
"""A point without token vectors."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine with DOCUMENTS and BARE in the collection `docs`."""
    with Engine(tmp_path_factory.mktemp("engine")) as engine:
        index = Index(engine)

        async def fill() -> None:
            await index.create()
            await index.write([*DOCUMENTS.values(), BARE])

        asyncio.run(fill())
        yield engine


@pytest.fixture
def index(engine: Engine) -> Index:
    """The engine's collections, with no request made yet."""
    return Index(engine)


def scored(reranker: Reranker, requests: Sequence[RerankRequest], timeout: float = 30) -> list[Any]:
    """The outcomes of one call."""
    return list(asyncio.run(reranker.score(requests, timeout=timeout)))


def defined(tokens: NDArray[np.float32], ids: Sequence[str], weights: Sequence[float] | None = None) -> Any:
    """The scores by definition, to 1e-4 for nine tokens of one weight: each is rounded by itself, to 16 bits."""
    weights = [1.0] * len(tokens) if weights is None else weights
    of = {id_: DOCUMENTS[id_].tokens for id_ in ids}
    tolerance = 3e-4 * float(np.linalg.norm(weights) / np.sum(weights))
    scores = {id_: max_sim(tokens, weights, rows) for id_, rows in of.items() if rows is not None}
    return pytest.approx(scores, abs=tolerance)


# Scores


def test_scores_are_those_of_the_definition(index: Index) -> None:
    """Qdrant's MaxSim over the candidates equals numpy's, for one token and many, one document and all."""
    wanted = [(unit_rows(1), IDS[:1]), (unit_rows(9), IDS[5:25]), (unit_rows(20), IDS)]
    for found, each in zip(
        scored(LateInteraction(index.client, "m"), [request(*each) for each in wanted]), wanted, strict=True
    ):
        assert found == defined(*each)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from(SPACES), st.lists(st.integers(0, 9), min_size=1)), min_size=1, max_size=5))
def test_tokens_weigh_what_they_tell_in_their_own_namespace(engine: Engine, drawn: list[tuple[str, list[int]]]) -> None:
    """Queries of several namespaces in one call have the scores of numpy, each with its own namespace's weights."""
    index = Index(engine)
    queries = [(unit_rows(len(token_ids)), tuple(token_ids), space) for space, token_ids in drawn]
    requests = [request(tokens, IDS[:10], token_ids, space) for tokens, token_ids, space in queries]
    outcomes = scored(LateInteraction(index.client, "m", idf=TokenIdf(index.client)), requests)
    for found, (tokens, token_ids, space) in zip(outcomes, queries, strict=True):
        held = [document.token_ids for document in DOCUMENTS.values() if document.namespace == space]
        assert found == defined(tokens, IDS[:10], idf(held, token_ids))


def test_a_rare_word_decides(index: Index) -> None:
    """Of two documents with one of the query's two tokens each, the one with the rarer token goes first."""
    common, rare = np.eye(2, DIMENSION, dtype=np.float32)
    documents = [Document(identity(5000), common[None], (1,), "z"), Document(identity(5001), rare[None], (2,), "z")]
    documents += [Document(identity(6000 + number), None, (1,), "z") for number in range(20)]
    asyncio.run(index.write(documents))
    query = request(np.stack([common, rare]), [identity(5000), identity(5001)], (1, 2), "z")
    (plain,) = scored(LateInteraction(index.client, "m"), [query])
    (found,) = scored(LateInteraction(index.client, "m", idf=TokenIdf(index.client)), [query])
    assert plain[identity(5000)] == plain[identity(5001)] == pytest.approx(0.5)
    assert found[identity(5001)] > 0.9 > 0.1 > found[identity(5000)]


def test_a_query_whose_pieces_nobody_tells_weighs_them_alike(index: Index) -> None:
    """An embedder may give token vectors without vocabulary ids."""
    tokens = unit_rows(4)
    (found,) = scored(LateInteraction(index.client, "m", idf=TokenIdf(index.client)), [request(tokens, IDS[:4])])
    assert found == defined(tokens, IDS[:4])
    assert index.asked("/facet") == 0


def test_a_share_of_a_score_is_that_of_the_neighbours(index: Index) -> None:
    """The mean over the document's context, of those that have a score; a document without context is its own."""
    tokens = unit_rows(4)
    around = {IDS[0]: [IDS[7], IDS[0]], IDS[1]: [IDS[1], IDS[8], BARE.id, "00000000-0000-0000-0000-000000000000"]}
    plain = request(tokens, [IDS[0], IDS[1], IDS[2], IDS[7], IDS[8]])
    asked = replace(request(tokens, IDS[:3]), neighbours=around, context=0.25)
    (alone,), (found,) = (scored(LateInteraction(index.client, "m"), [each]) for each in (plain, asked))
    a, b, c, d, e = (alone[id_] for id_ in plain.documents)
    expected = [0.75 * a + 0.25 * (a + d) / 2, 0.75 * b + 0.25 * (b + e) / 2, c]
    assert found == pytest.approx(dict(zip(IDS[:3], expected, strict=True)), abs=1e-6)


@pytest.mark.parametrize("compared", [True, False])
@pytest.mark.parametrize("hidden", [{"classification": "restricted"}, {"labels": ["board"]}, {"namespace": "a"}])
def test_a_neighbour_that_is_hidden_counts_for_nothing(index: Index, compared: bool, hidden: dict[str, Any]) -> None:
    """Whatever it says: a score is as if it weren't there, where Qdrant compares and where rankstream does."""
    tokens = unit_rows(4)
    mine, other = identity(7000), identity(7001)
    scores = []
    for secret in (tokens, -tokens, None):
        asyncio.run(index.write([Document(mine, tokens[:1]), Document(other, secret)]))
        asyncio.run(index.client.change("docs", [Change(other, {}, hidden)], timeout=30))
        seen = AccessFilter("public", ("public",), blocked=("board",))
        asked = request(tokens, [mine])
        asked = replace(asked, neighbours={mine: [mine, other]}, context=0.5, access=seen, compared=compared)
        (found,) = scored(LateInteraction(index.client, "m"), [asked])
        scores.append(found[mine])
    assert scores[0] == scores[1] == scores[2]


def test_a_word_weighs_what_it_tells_in_what_is_seen(index: Index) -> None:
    """A word of hidden documents is as rare as one that nobody has."""
    tokens = np.eye(2, DIMENSION, dtype=np.float32)
    documents = [Document(identity(8000), tokens[:1], (1,), "y"), Document(identity(8001), None, (2,), "y")]
    asyncio.run(index.write(documents))
    asyncio.run(index.client.change("docs", [Change(identity(8001), {}, {"classification": "internal"})], timeout=30))
    seen = AccessFilter("y", ("public",))
    asked = [replace(request(tokens, [identity(8000)], ids, "y"), access=seen) for ids in ((1, 2), (1, 3))]
    weigher = TokenIdf(index.client)
    one, other = (scored(LateInteraction(index.client, "m", idf=weigher), [each])[0] for each in asked)
    assert one == other


def test_axis_aligned_tokens_are_sent_as_floats(index: Index) -> None:
    """Whole numbers reach Qdrant as a multivector too, not as the sparse vector that integers would be."""
    tokens = np.eye(2, DIMENSION, dtype=np.float32)
    (found,) = scored(LateInteraction(index.client, "m"), [request(tokens, IDS[:5])])
    assert found == defined(tokens, IDS[:5])


def test_the_querys_vectors_are_rounded(index: Index) -> None:
    """A sent vector has four decimals, weighted or not: a long query stays within a server's limit."""
    query = request(unit_rows(3), IDS[:3], (0, 1, 2), "a")
    for idf_ in (None, TokenIdf(index.client)):
        scored(LateInteraction(index.client, "m", idf=idf_), [query])
        (search,) = index.transport.bodies()[-1]["searches"]
        assert all(len(str(abs(value)).partition(".")[2]) <= 4 for row in search["query"] for value in row)
        assert search["with_payload"] is False


@given(st.integers(1, 5), st.integers(1, 5), st.floats(1e-4, 14))
def test_a_score_is_a_mean(count: int, length: int, weight: float) -> None:
    """Scores lie within -1 and 1, and a document that has the query's tokens scores 1, whatever they weigh."""
    tokens = unit_rows(count)
    query = WeightedQuery.of(tokens, np.linspace(weight, 2 * weight, count, dtype=np.float32))
    assert query.score(to_float16(tokens)) == pytest.approx(1, abs=1e-3)
    assert -1.001 <= query.score(to_float16(unit_rows(length))) <= 1.001
    assert query.score(to_float16(-tokens[:1])) >= -1.001


# Calls


def test_the_queries_of_a_call_are_one_request(index: Index) -> None:
    """However many, of however many namespaces, and their outcomes keep their order."""
    queries = [unit_rows(3) for _ in range(32)]
    reranker = LateInteraction(index.client, "m")
    requests = [request(tokens, IDS[:4], namespace=SPACES[n % 3]) for n, tokens in enumerate(queries)]
    for found, tokens in zip(scored(reranker, requests), queries, strict=True):
        assert found == defined(tokens, IDS[:4])
    assert len(index.transport.requests) == 1


def test_a_call_carries_whole_queries_of_one_collection(index: Index) -> None:
    """The reranker's limits for the stage: 32 queries unless told otherwise, no query divided, no collections mixed."""
    capacity = LateInteraction(index.client, "m").capacity
    assert (capacity.queries, capacity.whole, capacity.apart, capacity.chars) == (32, True, "collection", 0)
    assert LateInteraction(index.client, "m", queries=8).capacity.queries == 8


def test_a_failure_is_its_own_querys_alone(index: Index) -> None:
    """No token vectors, of the query or of a document, or a wrong dimension: each fails by itself."""
    ids = IDS[:3]
    tokens = unit_rows(4)
    requests = [
        request(None, ids),
        request(np.zeros((0, DIMENSION), np.float32), ids),
        RerankRequest("words", dict.fromkeys(ids, "text"), "docs", "public"),
        request(tokens, [*ids, BARE.id]),
        request(tokens, [*ids, identity(12345), BARE.id]),
        request(tokens[:, :8], ids),
        request(tokens, ids),
    ]
    *failed, scores = scored(LateInteraction(index.client, "m"), requests)
    kinds = [BackendBadResponse] * 3 + [NoTokenVectors] * 2 + [BackendBadResponse]
    assert [type(outcome) for outcome in failed] == kinds
    messages = [str(outcome) for outcome in failed]
    assert messages[:3] == ["late interaction: the query has no token vectors"] * 3
    assert messages[3] == "late interaction: 1 of 4 documents have no token vectors"
    assert messages[4] == "late interaction: 2 of 5 documents have no token vectors"
    assert scores == defined(tokens, ids)


async def test_late_weights_are_their_own_namespaces_loss(index: Index) -> None:
    """A namespace that is counted too slowly fails, and leaves time for those whose counts are there."""
    tokens = unit_rows(2)
    slow, quick = (request(tokens, IDS[:3], (1, 5), space) for space in ("a", "b"))
    weigher = TokenIdf(index.client)
    await weigher.weights("docs", "b", [1], timeout=30)
    index.transport.hold("/facet")
    late, found = await LateInteraction(index.client, "m", idf=weigher).score([slow, quick], timeout=6)
    index.transport.release.set()
    assert isinstance(late, BackendTimeout)
    held = [document.token_ids for document in DOCUMENTS.values() if document.namespace == "b"]
    assert found == defined(tokens, IDS[:3], idf(held, (1, 5)))


async def test_a_slow_search_ends_in_its_time(index: Index) -> None:
    """Qdrant's silence is a time-out of every query in the call."""
    index.transport.hold("/query/batch")
    reranker = LateInteraction(index.client, "m")
    # Qdrant never answers: the outer time, far above the call's, ends only a call that waits for it.
    async with asyncio.timeout(15):
        assert [
            type(outcome) for outcome in list(await reranker.score([request(unit_rows(2), IDS[:3])] * 2, timeout=0.05))
        ] == [BackendTimeout] * 2


def test_a_missing_collection_is_an_error_of_each_query(index: Index) -> None:
    """With weights and without."""
    requests = [request(unit_rows(2), IDS[:3], (1, 2), collection="nowhere")] * 2
    for idf_ in (None, TokenIdf(index.client)):
        outcomes = scored(LateInteraction(index.client, "m", idf=idf_), requests)
        assert [isinstance(outcome, BackendError) for outcome in outcomes] == [True, True]


def test_provenance_names_the_method_and_the_model(index: Index) -> None:
    """The model's name says that it is the embedder's own vectors that rank."""
    assert LateInteraction(index.client, "all-MiniLM-L6-v2").model == "late-interaction:all-MiniLM-L6-v2"
