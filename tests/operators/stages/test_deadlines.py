"""Deadlines: whose clock counts, and that nobody is called for a query whose time is over."""

import time
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.clients.rerankers import Capacity, Reads
from operators.query.backend_answers import Embedding
from operators.query.in_flight import InFlight
from operators.query.result import status_of
from operators.runtime.dispatcher import Bounds
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.stage import Batches, async_stage, sync_stage
from operators.stages.embed import Embeddings
from operators.stages.fetch import Comparing, Fetching
from operators.stages.fuse import fuse, fuse_legs
from operators.stages.leg import SearchLeg, pass_by
from operators.stages.rerank import Reranking
from schemas.errors import BackendTimeout, DeadlinePassed, Reason
from schemas.result import Status
from tests.operators.runtime.flowing import items
from tests.operators.runtime.test_async_stage import Backend, Item, looping, ran
from tests.operators.samples import DIMENSION, decoder, message, query, searches
from tests.operators.stages.test_publish import found

DAY = 86_400.0
READ = 1_700_000_000.0
BOUNDS = Bounds(30, 64, 8)
TOKENS = Embedding(np.ones(DIMENSION, np.float32), np.ones((2, DIMENSION), np.float32), (5, 6))

# The clock


@pytest.mark.parametrize(
    ("timestamp", "left"),
    [
        pytest.param(READ - 4, 6.0, id="on its way for four seconds"),
        pytest.param(READ + DAY, 10.0, id="a clock ahead by a day gains nothing"),
        pytest.param(READ - DAY, 10.0 - DAY, id="a clock behind by a day expires everything"),
        pytest.param(READ, 10.0, id="the broker's own time, just appended"),
        pytest.param(-0.001, 10.0, id="no timestamp: the time of receiving"),
        pytest.param(-5.0, 10.0, id="a negative one is none"),
        pytest.param(0.0, 10.0 - READ, id="1970 is a timestamp"),
    ],
)
def test_the_earlier_of_sent_and_received_counts(timestamp: float, left: float) -> None:
    """By hand: min(Kafka's timestamp, time received) + the time-out, on this process's monotonic clock."""
    asked = decoder()(message({"query_id": "q", "text": "t"}, timestamp=timestamp, received=READ, clock=5.0))
    assert asked.deadline == 5.0 + left


@given(st.floats(-1e9, 5e9), st.integers(1, 10**9), st.floats(0, 4e9))
def test_no_clock_gives_more_time_than_was_asked_for(timestamp: float, timeout_ms: int, received: float) -> None:
    """Whatever a producer's clock says, from its reading on a query has its time-out at most, and the maximum."""
    event = {"query_id": "q", "text": "t", "timeout_ms": timeout_ms, "now": 0}
    asked = decoder()(message(event, timestamp=timestamp, received=received, clock=0.0))
    assert asked.deadline <= min(timeout_ms / 1000, 60.0)


@pytest.mark.parametrize("timestamp", [-0.001, -1e12])
def test_without_a_timestamp_the_clock_is_the_time_of_receiving(timestamp: float) -> None:
    """A record that has none is answered as of when it was read."""
    asked = decoder()(message({"query_id": "q", "text": "t"}, timestamp=timestamp, received=READ))
    assert asked.asked.now == READ


# The stages


class Nobody:
    """A client of any kind that must not be called."""

    model = "nobody"
    capacity = Capacity()

    def __init__(self, reads: Reads = "text") -> None:
        self.reads: Reads = reads

    async def embed(self, *_: object, **__: object) -> Any:
        """Fail the test."""
        raise AssertionError

    query_batch = retrieve = vectors = score = aclose = embed


def late(**event: Any) -> InFlight:
    """A query that was admitted in time, and whose time is over now."""
    asked = query(**event)
    asked.retrieval.terms = None
    asked.deadline = time.monotonic() - 0.001
    return asked


def through(asked: InFlight, stage: Callable[[Batches, EventLoopThread], Batches]) -> str:
    """Run one query through a stage; whether it goes on or is answered."""
    with looping() as calls:
        assert items([[asked]], lambda up: stage(up, calls)) == [asked]
    return "answered" if asked.answered else "on"


def test_nobody_embeds_for_it(caplog: pytest.LogCaptureFixture) -> None:
    """The embedder isn't called, and the answer says that time was over."""
    asked = late()
    assert (
        through(
            asked, lambda up, calls: async_stage("embed", up, Embeddings(Nobody(), BOUNDS, dimension=DIMENSION), calls)
        )
        == "on"
    )
    assert (asked.outcome.degraded, asked.retrieval.embedding, caplog.text) == ([("embed", Reason.DEADLINE)], None, "")


def test_nobody_searches_for_it(caplog: pytest.LogCaptureFixture) -> None:
    """Qdrant isn't called: the leg is lost, and with it the query."""
    asked = late(vector=[1.0, 0.0, 0.0])
    nobody: Any = Nobody()
    leg = SearchLeg("vector", nobody, BOUNDS)

    def retrieve(up: Batches, calls: EventLoopThread) -> Batches:
        searched = sync_stage("searches", up, searches())
        return fuse("fuse", pass_by("passing_by", searched), async_stage("leg_vector", searched, leg, calls))

    assert through(asked, retrieve) == "answered"
    assert (asked.outcome.degraded, status_of(asked.asked, asked.outcome)) == (
        [("vector", Reason.DEADLINE)],
        Status.FAILED,
    )
    assert asked.outcome.legs["vector"].reason is Reason.DEADLINE
    assert caplog.text == ""


def test_nobody_fetches_for_it(caplog: pytest.LogCaptureFixture) -> None:
    """Payloads aren't asked for: what was found is answered without."""
    asked = found()
    asked.outcome.payloads, asked.deadline = {}, time.monotonic() - 0.001
    nobody: Any = Nobody()
    assert (
        through(asked, lambda up, calls: async_stage("fetch", up, Fetching(nobody, lambda _: 50, BOUNDS), calls))
        == "on"
    )
    assert (asked.outcome.degraded, status_of(asked.asked, asked.outcome)) == (
        [("fetch", Reason.DEADLINE)],
        Status.PARTIAL,
    )
    assert caplog.text == ""


def test_nobody_reads_vectors_for_it(caplog: pytest.LogCaptureFixture) -> None:
    """The candidates are not compared, and the answer says so."""
    asked = found(recipe="documents")
    asked.deadline = time.monotonic() - 0.001
    comparing = Comparing(cast("Any", Nobody()), "dense", BOUNDS)
    assert through(asked, lambda up, calls: async_stage("similarity", up, comparing, calls)) == "on"
    assert asked.outcome.degraded == [("similarity", Reason.DEADLINE)]
    assert caplog.text == ""


@pytest.mark.parametrize("reads", ["text", "tokens"])
@pytest.mark.parametrize("unfetched", [False, True])
def test_nobody_reranks_for_it(reads: Reads, unfetched: bool, caplog: pytest.LogCaptureFixture) -> None:
    """The fused order stands, for the same reason wherever time was over first."""
    asked = found()
    asked.retrieval.embedding, asked.deadline = TOKENS, time.monotonic() - 0.001
    if unfetched:
        asked.outcome.payloads = {}
        asked.lose("fetch", Reason.DEADLINE)
    assert through(asked, lambda up, calls: async_stage("rerank", up, Reranking(Nobody(reads), BOUNDS), calls)) == "on"
    assert asked.outcome.degraded[-1] == ("rerank", Reason.DEADLINE)
    assert status_of(asked.asked, asked.outcome) is (Status.PARTIAL if unfetched else Status.UNRANKED)
    assert caplog.text == ""


def test_fusing_calls_nobody_and_goes_on() -> None:
    """A step that needs no call is done all the same: the answer has what there is."""
    asked = found()
    asked.deadline = time.monotonic() - 1
    assert through(asked, lambda up, calls: sync_stage("fuse", up, fuse_legs)) == "on"
    assert [candidate.id for candidate in asked.outcome.candidates] == ["p0", "p1", "p2"]


# The calls


def test_a_request_whose_time_is_over_is_not_made() -> None:
    """Beside others of its batch it is left out, and its outcome says whose time was over."""
    backend = Backend()
    outcomes = ran([[Item(0, deadline=-1.0), Item(1), Item(2, deadline=-1.0)]], backend)
    assert backend.calls == [("a", [1])]
    assert [type(outcomes[number]) for number in (0, 2)] == [DeadlinePassed] * 2
    assert outcomes[1] == "a1"


def test_a_call_is_blamed_only_for_its_own_time() -> None:
    """Cut by the item's deadline it is DeadlinePassed, by the stage's own time-out BackendTimeout, which is no such."""
    hung = ran([[Item(0, deadline=0.02, latency=60), Item(1, latency=60)]], Backend(), Bounds(0.05, 1, 8))
    assert type(hung[0]) is DeadlinePassed
    assert type(hung[1]) is BackendTimeout
    assert (hung[0].reason, hung[1].reason) == (Reason.DEADLINE, Reason.TIMEOUT)


def test_a_clients_own_timeout_at_the_deadline_is_the_deadline() -> None:
    """Whoever notices first, the client or the stage, the reason is the same."""

    async def call(batch_key: object, queries: object, timeout: float) -> list[str]:
        # The loop is held up: the client's timer and the stage's are due in one turn.
        time.sleep(timeout + 0.01)  # noqa: ASYNC251
        raise BackendTimeout("no answer")

    outcomes = ran([[Item(0, deadline=0.02)]], call)
    assert type(outcomes[0]) is DeadlinePassed
