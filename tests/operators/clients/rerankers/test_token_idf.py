"""The weights of tokens, against counting them by hand over the engine."""

import asyncio
import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from operators.clients.qdrant_edge.shards import Engine
from operators.clients.rerankers.token_idf import NAMESPACES, REST, TIME_TO_LIVE, VOCABULARY, Frequencies, TokenIdf
from operators.collections.requirements import indexes
from schemas.document import TOKEN_IDS
from schemas.errors import BackendBadResponse, BackendTimeout, BackendUnavailable
from tests.operators.clients.qdrant.transports import Faulty, answering, qdrant
from tests.operators.clients.rerankers.token_index import Document, Index, identity, idf

numbers = itertools.count(1)
PAIR = [(1, 2), (2,)]
"""Two documents by their pieces."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine with the collection `docs`."""
    with Engine(tmp_path_factory.mktemp("engine")) as engine:
        asyncio.run(Index(engine).create())
        yield engine


@pytest.fixture
def index(engine: Engine) -> Index:
    """The engine's collections, with no request made yet."""
    return Index(engine)


@pytest.fixture
def space(index: Index) -> str:
    """A namespace of its own, with the documents of PAIR."""
    name = f"space-{next(numbers)}"
    asyncio.run(index.write(document(name, token_ids) for token_ids in PAIR))
    index.transport.requests.clear()
    return name


def document(namespace: str, token_ids: tuple[int, ...] | None) -> Document:
    """A new document with these pieces."""
    return Document(identity(next(numbers)), None, token_ids, namespace)


class Clock:
    """A clock that goes when it is told to."""

    now = 1000.0

    def __call__(self) -> float:
        """The time in seconds."""
        return self.now


# What a token weighs


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.none() | st.lists(st.integers(0, 6), max_size=8), st.booleans()),
        max_size=14,
    )
)
def test_weights_are_those_of_a_count_by_hand(engine: Engine, drawn: list[tuple[str, list[int] | None, bool]]) -> None:
    """Each namespace's weights are BM25's over its own documents with pieces as they are now, whatever others hold."""
    run = next(numbers)
    token_ids = range(8)

    async def scenario() -> None:
        index = Index(engine)
        written = [
            (document(f"{space}-{run}", None if held is None else tuple(held)), gone) for space, held, gone in drawn
        ]
        if written:
            await index.write(each for each, _ in written)
            gone = [each.id for each, gone in written if gone]
            await index.client.delete("docs", {"must": [{"has_id": gone}]}, timeout=30)
        weigher = TokenIdf(index.client)
        for space in {f"{letter}-{run}" for letter in "abc"}:
            there = [each.token_ids for each, gone in written if each.namespace == space and not gone]
            found = await weigher.weights("docs", space, token_ids, timeout=30)
            assert found == pytest.approx(idf(there, token_ids), rel=1e-5)

    asyncio.run(scenario())


def test_a_weight_by_hand() -> None:
    """Of three documents one has the piece: ln(1 + 2.5 / 1.5); a piece that none has, ln(1 + 3.5 / 0.5)."""
    weights = Frequencies.of(3, {7: 1}).weights([7, 8, 10**6])
    assert weights == pytest.approx([np.log(8 / 3), np.log(8), np.log(8)], rel=1e-6)


@given(st.lists(st.integers(1, 2**40)), st.integers(0, 1000))
def test_weights_are_positive_and_the_rarer_token_weighs_more(counts: list[int], documents: int) -> None:
    """However many documents came between the two counts, no token weighs nothing, and order is by rarity."""
    weights = Frequencies.of(documents, dict(enumerate(sorted(counts)))).weights(range(len(counts)))
    assert (weights > 0).all()
    assert (np.diff(weights) <= 0).all()


def test_what_is_no_vocabulary_id_counts_for_nothing() -> None:
    """Values that another tool wrote take no memory and change no weight."""
    odd = Frequencies.of(3, {7: 1, "7": 3, -1: 3, VOCABULARY: 3, 2**60: 3})
    assert odd.weights([7, 6]) == pytest.approx(Frequencies.of(3, {7: 1}).weights([7, 6]))
    assert len(odd.counts) == 8


# When Qdrant is asked


async def test_a_namespace_is_counted_once_in_a_time_to_live(index: Index, space: str) -> None:
    """Until then the weights are those that were, however often they are asked for; who asks first afterwards has them
    too, at once, and those who ask when the lookup that this began is done have those that are.
    """
    clock = Clock()
    weigher = TokenIdf(index.client, clock=clock)
    for _ in range(3):
        found = await weigher.weights("docs", space, [1], timeout=30)
        assert found == pytest.approx(idf(PAIR, [1]))
    await index.write([document(space, (1,))])
    clock.now += TIME_TO_LIVE - 1
    assert await weigher.weights("docs", space, [1], timeout=30) == pytest.approx(idf(PAIR, [1]))
    assert index.asked("/facet") == 1
    clock.now += 1
    assert await weigher.weights("docs", space, [1], timeout=0) == pytest.approx(idf(PAIR, [1]))
    renewed = idf([*PAIR, (1,)], [1])
    async with asyncio.timeout(30):
        while await weigher.weights("docs", space, [1], timeout=0) != pytest.approx(renewed):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert index.asked("/facet") == 1


async def test_a_moved_watermark_is_counted_anew_after_a_rest(index: Index, space: str) -> None:
    """Not while the last lookup's rest lasts, and not for a watermark that isn't known; old weights serve meanwhile."""
    clock = Clock()
    before, after = idf(PAIR, [1]), idf([*PAIR, (1,)], [1])
    weigher = TokenIdf(index.client, clock=clock)

    async def ask(mark: str | None) -> list[float]:
        known = (mark,) if mark is not None else None
        return list(await weigher.weights("docs", space, [1], watermark=known, timeout=30))

    assert await ask("0:1") == pytest.approx(before)
    await index.write([document(space, (1,))])
    assert await ask("0:2") == pytest.approx(before)
    clock.now += REST
    assert await ask(None) == await ask("0:1") == pytest.approx(before)
    assert index.asked("/facet") == 1
    async with asyncio.timeout(30):
        while await ask("0:2") != pytest.approx(after):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_known_counts_outlive_a_failing_lookup(index: Index, space: str) -> None:
    """While Qdrant can't count, the weights are the last that it gave, and it isn't asked at every query."""
    clock = Clock()
    weigher = TokenIdf(index.client, clock=clock)
    await weigher.weights("docs", space, [1], timeout=30)
    index.asked("/facet")
    clock.now += TIME_TO_LIVE
    index.transport.fail("/facet")
    for _ in range(3):
        assert await weigher.weights("docs", space, [1], timeout=0) == pytest.approx(idf(PAIR, [1]))
        await asyncio.sleep(0.02)
    assert index.asked("/facet") == 1


async def test_many_that_wait_share_one_lookup(index: Index, space: str) -> None:
    """Queries that come while a namespace is counted ask for nothing."""
    weigher = TokenIdf(index.client)
    found = await asyncio.gather(*(weigher.weights("docs", space, [1, 2], timeout=30) for _ in range(20)))
    assert index.asked("/facet") == 1
    for weights in found:
        assert weights == pytest.approx(idf(PAIR, [1, 2]))


async def test_who_leaves_takes_the_lookup_from_nobody(index: Index, space: str) -> None:
    """One waits too long, one is cancelled; the third has its weights from the lookup that the first began."""
    weigher = TokenIdf(index.client)
    index.transport.hold("/facet")
    with pytest.raises(BackendTimeout):
        await weigher.weights("docs", space, [1], timeout=0.01)
    cancelled, patient = (asyncio.create_task(weigher.weights("docs", space, [1], timeout=30)) for _ in range(2))
    await asyncio.sleep(0.01)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    index.transport.release.set()
    assert await patient == pytest.approx(idf(PAIR, [1]))
    assert index.asked("/facet") == 1


async def test_a_lookup_that_nobody_waits_for_is_not_in_vain(index: Index, space: str) -> None:
    """A count that comes after the last has left serves the next query without another."""
    weigher = TokenIdf(index.client)
    index.transport.hold("/facet")
    with pytest.raises(BackendTimeout):
        await weigher.weights("docs", space, [1], timeout=0.01)
    index.transport.release.set()
    assert await weigher.weights("docs", space, [1], timeout=30) == pytest.approx(idf(PAIR, [1]))
    assert await weigher.weights("docs", space, [2], timeout=0) == pytest.approx(idf(PAIR, [2]))
    assert index.asked("/facet") == 1


async def test_so_many_namespaces_are_kept_and_no_more(index: Index, space: str) -> None:
    """The one longest unused is counted anew."""
    weigher = TokenIdf(index.client)
    for name in (space, *(f"empty-{number}" for number in range(NAMESPACES - 1)), space):
        await weigher.weights("docs", name, [1], timeout=30)
    assert index.asked("/facet") == NAMESPACES
    await weigher.weights("docs", "one-more", [1], timeout=30)
    await weigher.weights("docs", space, [1], timeout=30)
    assert index.asked("/facet") == 1
    await weigher.weights("docs", "empty-0", [1], timeout=30)
    assert index.asked("/facet") == 1


# Where Qdrant can't count


async def test_without_an_index_all_tokens_weigh_the_same(index: Index) -> None:
    """Asked and said once for all namespaces, until the time to live is over; by then there may be an index."""
    clock = Clock()
    with capture_logs() as lines:
        await index.create("bare", indexed=False)
        await index.write([document(name, (1,)) for name in ("a", "a", "b")], "bare")
        weigher = TokenIdf(index.client, clock=clock)
        for name in ("a", "b", "a"):
            assert (await weigher.weights("bare", name, [1, 2], timeout=30)).tolist() == [1.0, 1.0]
        assert index.asked("/facet") == 1
        clock.now += TIME_TO_LIVE
        await weigher.weights("bare", "a", [1], timeout=30)
        assert index.asked("/facet") == 1
        await index.client.create_index("bare", TOKEN_IDS, indexes()[TOKEN_IDS], timeout=30)
        clock.now += TIME_TO_LIVE
        assert await weigher.weights("bare", "a", [1], timeout=30) == pytest.approx(idf([(1,), (1,)], [1]))
    assert [(line["log_level"], line["collection"], line["field"]) for line in lines] == [
        ("warning", "bare", "_token_ids")
    ]


async def test_a_failure_is_told_and_not_kept(index: Index) -> None:
    """A missing collection or an outage is an error, never other weights; the next query asks again."""
    weigher = TokenIdf(index.client)
    for _ in range(2):
        with pytest.raises(BackendBadResponse):
            await weigher.weights("later", "a", [1], timeout=30)
    assert index.asked("/later") == 2
    await index.create("later")
    await index.write([document("a", (1,))], "later")
    assert await weigher.weights("later", "a", [1], timeout=30) == pytest.approx(idf([(1,)], [1]))
    with pytest.raises(BackendUnavailable):
        await TokenIdf(qdrant(Faulty(answering(503, b"")))).weights("docs", "a", [1], timeout=30)
