"""Terms in collections of several shards: they weigh what they weigh in one, as far as they can be counted."""

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st
from structlog.testing import capture_logs

from operators.clients.qdrant.collections.counts import REST, TIME_TO_LIVE
from operators.clients.qdrant.collections.term_idf import PER_SHARD, TermIdf
from operators.clients.qdrant_edge.shards import Engine
from operators.indexing.collection import configuration
from operators.ranking.coverage import rarity
from schemas.document import TERMS
from schemas.errors import BackendTimeout, BackendUnavailable
from tests.operators.clients.qdrant.sharded import Ranking, Searched, settings
from tests.operators.clients.qdrant.transports import qdrant
from tests.operators.clients.rerankers.token_index import Held
from tests.qdrant_server.transport import ServerTransport
from tests.tiers import sized

WORDS: Final = ("harbor", "lantern", "ferry", "keeper", "garden", "engine", "letter", "winter")
DOCUMENTS: Final = [
    {"id": f"d{number}", "text": " ".join(["x", *(word for place, word in enumerate(WORDS, 2) if number % place == 0)])}
    for number in range(60)
]
QUERY: Final = "harbor keeper winter"


class Clock:
    """A clock that goes when it is told to."""

    now = 1000.0

    def __call__(self) -> float:
        """The time in seconds."""
        return self.now


class Pair:
    """A server with the same documents in one shard and in three."""

    def __init__(self, engine: Engine, **changes: Any) -> None:
        self.transport = Held(ServerTransport(engine))
        client = qdrant(self.transport)
        self.one, self.three = (Searched(client, settings(shards, **changes)) for shards in (1, 3))

    async def fill(self, events: list[dict[str, Any]]) -> None:
        """Create both, and write the documents to each."""
        for each in (self.one, self.three):
            await each.open()
            await each.write(events)

    def counted(self) -> int:
        """The number of counts that were asked for; they are forgotten."""
        number = sum(request.url.path.endswith("/count") for request in self.transport.requests)
        self.transport.requests.clear()
        return number


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """A server of the test's own, with DOCUMENTS."""
    with Engine(tmp_path) as engine:
        made = Pair(engine)
        asyncio.run(made.fill(DOCUMENTS))
        made.transport.requests.clear()
        yield made


def close(found: Ranking, expected: Ranking) -> bool:
    """True if the same documents are found, with the same scores."""
    return found == {name: pytest.approx(score, abs=1e-4) for name, score in expected.items()}


# What a term weighs

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)
numbers = iter(range(10**9))


@pytest.fixture(scope="module", params=["namespace", "collection"])
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A server whose IDF is over a namespace, or over the collection; it holds what the examples before wrote."""
    with Engine(tmp_path_factory.mktemp("shared")) as engine:
        yield Pair(engine, idf=request.param)


@profile(max_examples=sized(30, nightly=1000))
@given(st.lists(st.tuples(st.sampled_from("ab"), texts), min_size=1, max_size=25), texts)
def test_scores_are_those_of_one_shard(shared: Pair, drawn: list[tuple[str, str]], text: str) -> None:
    """Whatever the documents and wherever they are, over the namespace and over the collection."""
    run = next(numbers)
    events = [
        {"id": f"{run}-{place}", "namespace": f"{space}{run}", "text": held}
        for place, (space, held) in enumerate(drawn)
    ]

    async def scenario() -> None:
        await shared.fill(events)
        for space in "ab":
            [one] = await shared.one.ask(text, namespace=f"{space}{run}")
            [three] = await shared.three.ask(text, namespace=f"{space}{run}")
            assert close(three, one)

    asyncio.run(scenario())


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_rarity_is_positive(documents: int, frequency: int) -> None:
    """However many documents came between the two counts."""
    assert rarity(documents, frequency) > 0


def test_a_rarity_by_hand() -> None:
    """Of three documents one has the term: ln(1 + 2.5 / 1.5)."""
    assert rarity(3, 1) == pytest.approx(math.log(8 / 3))


def test_a_deleted_document_counts_no_more(pair: Pair) -> None:
    """Nor does one that was written anew without the term."""

    async def scenario() -> None:
        events: list[dict[str, Any]] = [{"id": "d0", "op": "delete", "text": None}, {"id": "d2", "text": "anchor"}]
        for each in (pair.one, pair.three):
            await each.write(events)
        assert close((await pair.three.ask(QUERY))[0], (await pair.one.ask(QUERY))[0])

    asyncio.run(scenario())


# When Qdrant is asked


def test_known_terms_are_not_counted_again(pair: Pair) -> None:
    """A batch of queries counts each term once, and the documents once; then nothing in a time to live."""
    clock = Clock()

    async def scenario() -> None:
        pair.three.idf = TermIdf(pair.three.qdrant, clock=clock)
        await pair.three.ask(QUERY, QUERY, "harbor")
        # The documents by two: those without terms, and those that there are.
        assert pair.counted() == 3 + 2
        await pair.three.ask("keeper", QUERY)
        assert pair.counted() == 0
        clock.now += TIME_TO_LIVE
        await pair.three.ask("keeper")
        async with asyncio.timeout(30):
            while len(pair.transport.requests) < 1 + 1 + 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert pair.counted() == 1 + 2

    asyncio.run(scenario())


def test_a_moved_watermark_is_counted_anew(pair: Pair) -> None:
    """After a rest; the query that comes first has the old counts, at once."""
    clock = Clock()

    async def scenario() -> None:
        pair.three.idf = TermIdf(pair.three.qdrant, clock=clock)
        [before] = await pair.three.ask(QUERY, watermark=("0:1",))
        for each in (pair.one, pair.three):
            await each.write([{"id": f"new{number}", "text": "anchor"} for number in range(20)])
        clock.now += REST
        [still] = await pair.three.ask(QUERY, watermark=("0:2",))
        assert still == before
        [wanted] = await pair.one.ask(QUERY)
        async with asyncio.timeout(30):
            while not close((await pair.three.ask(QUERY, watermark=("0:2",)))[0], wanted):  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    asyncio.run(scenario())


def test_one_shard_counts_nothing(pair: Pair) -> None:
    """There Qdrant's own IDF is the right one."""

    async def scenario() -> None:
        await pair.one.ask(QUERY)
        assert pair.counted() == 0

    asyncio.run(scenario())


def test_a_lost_count_costs_no_other_query_its_hits(pair: Pair) -> None:
    """A query whose terms aren't counted fails; one whose terms are known finds what it finds."""

    async def scenario() -> None:
        [known] = await pair.three.ask("harbor")
        pair.transport.fail("/count")
        found, lost = await pair.three.ask("harbor", "garden")
        assert found == known
        assert isinstance(lost, BackendUnavailable | BackendTimeout)

    asyncio.run(scenario())


def test_known_terms_wait_for_no_count(pair: Pair) -> None:
    """The query whose terms are known is searched while another's are counted."""

    async def scenario() -> None:
        await pair.three.ask("harbor")
        pair.counted()
        pair.transport.hold("/count")
        asked = asyncio.create_task(pair.three.ask("harbor", "garden"))
        # Long before the count is given up.
        async with asyncio.timeout(8):
            while not any(each.url.path.endswith("/query/batch") for each in pair.transport.requests):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        pair.transport.release.set()
        assert await asked == [(await pair.three.ask(text))[0] for text in ("harbor", "garden")]

    asyncio.run(scenario())


# Where terms can't be counted


def test_documents_without_terms_leave_idf_to_qdrant(pair: Pair) -> None:
    """Said once; with all documents written again, they are counted."""
    clock = Clock()

    async def scenario() -> None:
        three = pair.three
        old = {"id": "7", "vector": {"bm25": {"indices": [5], "values": [1.0]}}, "payload": {"namespace": "public"}}
        await three.qdrant.upsert("shards3", [{**old, "id": 7}], timeout=30)
        three.idf = TermIdf(three.qdrant, clock=clock)
        for _ in range(2):
            assert not close((await three.ask(QUERY))[0], (await pair.one.ask(QUERY))[0])
        await three.qdrant.delete("shards3", {"must": [{"has_id": [7]}]}, timeout=30)
        clock.now += TIME_TO_LIVE
        assert close((await three.ask(QUERY))[0], (await pair.one.ask(QUERY))[0])

    with capture_logs() as lines:
        asyncio.run(scenario())
    reason = f"documents have no {TERMS} in their payload: index them again"
    assert [(line["event"], line["reason"]) for line in lines] == [(PER_SHARD, reason)]


def left_to_qdrant(pair: Pair, three: Searched, reason: str) -> None:
    """Nothing is counted, scores are Qdrant's own, and the reason is logged once."""

    async def scenario() -> None:
        await three.read()
        await three.catalogue.read(30)
        pair.counted()
        [found], [one] = await three.ask(QUERY), await pair.one.ask(QUERY)
        assert pair.counted() == 0
        assert found.keys() == one.keys()
        assert not close(found, one)

    with capture_logs() as lines:
        asyncio.run(scenario())
    assert [reason in line["reason"] for line in lines if line["event"] == PER_SHARD] == [True]


def test_a_strict_collection_is_left_to_qdrant(pair: Pair) -> None:
    """It refuses exact counts, and an estimate would give other scores at every query."""
    strict = {"strict_mode_config": {"enabled": True, "search_allow_exact": False}}
    backend = pair.three.qdrant.backend
    asyncio.run(backend.ask("/collections/shards3", strict, lambda answer: answer, timeout=30, method="PATCH"))
    left_to_qdrant(pair, pair.three, "search_allow_exact")


def test_a_collection_without_the_index_is_left_to_qdrant(pair: Pair) -> None:
    """Each count would read every payload."""
    bare = Searched(pair.one.qdrant, settings(3, destinations={"default": "bare"}))

    async def filled() -> None:
        await bare.qdrant.create_collection("bare", configuration(bare.settings), timeout=30)
        await bare.read()
        await bare.write(DOCUMENTS)

    asyncio.run(filled())
    left_to_qdrant(pair, bare, f"{TERMS} has no index")
