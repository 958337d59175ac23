"""Asynchronous calls in a real dataflow: every item once, with its own outcomes, within its deadline."""

import asyncio
import math
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.run import cli_main
from bytewax.testing import TestingSink
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from operators.runtime.dispatcher import BatchKey, Bounds
from operators.runtime.event_loop import PAUSE, EventLoopThread, Wakeup
from operators.runtime.stage import KEY, async_stage
from operators.wire.message import Rejected
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable, DeadLetterClass
from tests.operators.runtime.flowing import Asking, Finished
from tests.operators.runtime.flowing import items as items_of
from tests.operators.samples import message

UNASKED = "unasked"
ROOMY = Bounds(timeout=30, max_batch=64, max_concurrency=8)

Call = Callable[[BatchKey, Sequence[Any], float], Awaitable[Sequence[Any]]]


@dataclass(frozen=True)
class Item:
    """An item: the lane of its request, if it has one, and its deadline in seconds from when the first was read."""

    number: int
    lane: str = "a"
    deadline: float = math.inf
    latency: float = 0.0
    fails: bool = False
    answered: bool = False

    def plan(self) -> tuple[BatchKey, tuple[str, "Item"]] | None:
        """A request that names the lane and the item, so that an outcome can."""
        return (self.lane, (self.lane, self)) if self.lane else None

    def reject(self, stage: str, kind: DeadLetterClass, reason: str, field: str | None = None) -> Rejected:
        """A refusal of a message of its number."""
        return Rejected(message(offset=self.number), kind, stage, reason, field=field)


@dataclass
class Backend:
    """The calls: (lane, batch size) in order, the seconds that each call was given, and how many ran at once."""

    calls: list[tuple[BatchKey, list[int]]] = field(default_factory=list)
    given: list[float] = field(default_factory=list)
    cancelled: list[BatchKey] = field(default_factory=list)
    running: dict[BatchKey, int] = field(default_factory=dict)
    most: dict[BatchKey, int] = field(default_factory=dict)

    async def __call__(self, batch_key: BatchKey, queries: Sequence[tuple[str, Item]], timeout: float) -> list[Any]:
        """Answer each request by its lane and number after the longest latency of the batch."""
        self.calls.append((batch_key, [item.number for _, item in queries]))
        self.given.append(timeout)
        self.running[batch_key] = self.running.get(batch_key, 0) + 1
        self.most[batch_key] = max(self.most.get(batch_key, 0), self.running[batch_key])
        try:
            await asyncio.sleep(max(item.latency for _, item in queries))
        except asyncio.CancelledError:
            self.cancelled.append(batch_key)
            raise
        finally:
            self.running[batch_key] -= 1
        return [
            BackendUnavailable(f"{batch_key}{item.number}") if item.fails else f"{batch_key}{item.number}"
            for batch_key, item in queries
        ]


@contextmanager
def looping() -> Iterator[EventLoopThread]:
    """A running event-loop thread."""
    calls = EventLoopThread(Wakeup())
    try:
        yield calls
    finally:
        calls.close()


def ran(
    batches: Sequence[list[Item]],
    call: Call,
    bounds: Bounds = ROOMY,
    plan: Callable[[Item], tuple[BatchKey, Any] | None] = Item.plan,
) -> dict[int, Any]:
    """Run a flow over the batches: the outcomes by item, each of which leaves exactly once; UNASKED for none."""
    began = math.nan

    def flowing() -> Iterator[list[Item]]:
        # What it takes to start the flow is no item's time.
        nonlocal began
        began = time.monotonic()
        yield from batches

    with looping() as calls:
        asking = Asking(plan, call, bounds, lambda item: began + item.deadline)
        finished = items_of(flowing(), lambda up: async_stage("asking", up, asking, calls))
    outcomes = {_number(done): _outcome(done) for done in finished}
    assert len(finished) == len(outcomes)
    assert sorted(outcomes) == sorted(item.number for batch in batches for item in batch)
    return outcomes


def _number(done: Finished[Any] | Rejected) -> int:
    return done.message.origin.offset if isinstance(done, Rejected) else int(done.item.number)


def _outcome(done: Finished[Any] | Rejected) -> Any:
    if isinstance(done, Rejected):
        return done
    return done.outcome if done.asked else UNASKED


items = st.builds(
    lambda lane, deadline, latency, fails: (lane, deadline, latency, fails),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from([-1.0, 0.005, 0.02, math.inf]),
    st.sampled_from([0.0, 0.0, 0.003, 0.012]),
    st.booleans(),
)


@settings(max_examples=60)
@given(st.lists(st.lists(items, max_size=6), max_size=6), st.integers(1, 4), st.integers(1, 3))
def test_no_outcome_is_anothers(batches: list[list[Any]], max_batch: int, max_concurrency: int) -> None:
    """Whatever is slow, fails or is late: an item leaves once, with an outcome of its own if it asked."""
    number = iter(range(1000))
    flowing = [[Item(next(number), *fields) for fields in batch] for batch in batches]
    backend = Backend()
    outcomes = ran(flowing, backend, Bounds(30, max_batch, max_concurrency))
    for item in (item for batch in flowing for item in batch):
        outcome = outcomes[item.number]
        if not item.lane:
            assert outcome == UNASKED
        elif isinstance(outcome, BackendTimeout):
            assert item.deadline < math.inf
        elif item.fails:
            assert isinstance(outcome, BackendUnavailable)
            assert str(outcome) == f"{item.lane}{item.number}"
        else:
            assert outcome == f"{item.lane}{item.number}"
    assert all(0 < len(batch) <= max_batch for _, batch in backend.calls)
    assert all(most <= max_concurrency for most in backend.most.values())


def test_an_item_that_is_not_wanted_or_answered_passes_at_once() -> None:
    """Neither takes the way over the event loop: what isn't wanted has no outcomes, what is answered is as it was."""
    backend = Backend()
    passing = [Item(0), Item(1, answered=True), Item(2)]
    with looping() as calls:
        asking = Asking(Item.plan, backend, ROOMY, lambda _: 1e9, lambda item: item.number == 2)
        left = items_of([passing], lambda up: async_stage("asking", up, asking, calls))
    assert left[0] is passing[1]
    assert [(done.item.number, _outcome(done)) for done in left[1:]] == [(0, UNASKED), (2, "a2")]


def test_an_item_that_asks_for_nothing_passes() -> None:
    """Without a request an item leaves without an outcome, and nobody is called."""
    backend = Backend()
    assert ran([[Item(0, ""), Item(1, "")]], backend) == {0: UNASKED, 1: UNASKED}
    assert backend.calls == []


def test_a_call_takes_at_most_max_batch() -> None:
    """Ten requests of one lane are made by calls of at most four, in their order."""
    backend = Backend()
    ran([[Item(number) for number in range(10)]], backend, Bounds(30, 4, 1))
    assert backend.calls == [("a", [0, 1, 2, 3]), ("a", [4, 5, 6, 7]), ("a", [8, 9])]


def test_concurrency_is_bounded_a_lane() -> None:
    """With two slots a lane two calls run together, never three, and the lanes don't share slots."""
    backend = Backend()
    ran([[Item(number, "ab"[number % 2], latency=0.01) for number in range(16)]], backend, Bounds(30, 1, 2))
    assert backend.most == {"a": 2, "b": 2}
    assert len(backend.calls) == 16


def test_the_lanes_are_called_apart() -> None:
    """Requests of two lanes never share a call, and a slow lane doesn't hold up the other."""
    backend = Backend()
    ran([[Item(0, "quick"), Item(1, "slow"), Item(2, "quick")]], backend)
    assert sorted(backend.calls, key=str) == [("quick", [0, 2]), ("slow", [1])]


def test_a_failing_lane_leaves_the_other() -> None:
    """A BackendError of one lane's call is that lane's outcome for each of its requests; the other has its answers."""

    async def call(batch_key: BatchKey, queries: Sequence[Any], timeout: float) -> list[str]:
        if batch_key == "a":
            raise BackendBadResponse("garbage")
        return [f"{batch_key}{item.number}" for batch_key, item in queries]

    outcomes = ran([[Item(0, "a"), Item(1, "b"), Item(2, "a"), Item(3, "b")]], call)
    assert isinstance(outcomes[0], BackendBadResponse)
    assert isinstance(outcomes[2], BackendBadResponse)
    assert (outcomes[1], outcomes[3]) == ("b1", "b3")


def test_a_call_under_way_ends_at_the_deadline() -> None:
    """A call that hangs gives BackendTimeout at the item's deadline and is cancelled: the next one gets its slot."""
    backend = Backend()
    outcomes = ran([[Item(0, deadline=0.5, latency=60), Item(1)]], backend, Bounds(5, 1, 1))
    assert isinstance(outcomes[0], BackendTimeout)
    assert outcomes[1] == "a1"
    assert backend.cancelled == ["a"]


def test_the_stages_own_timeout_bounds_an_item_without_a_deadline() -> None:
    """`Bounds.timeout` ends what has no deadline of its own."""
    backend = Backend()
    outcomes = ran([[Item(0, latency=60)]], backend, Bounds(0.05, 64, 8))
    assert isinstance(outcomes[0], BackendTimeout)
    assert backend.cancelled == ["a"]


def test_a_request_that_waits_ends_at_its_deadline() -> None:
    """Behind a busy lane a request times out without ever being called; the busy call goes on to its answer."""
    backend = Backend()
    outcomes = ran([[Item(0, latency=0.2)], [Item(1, deadline=0.05)]], backend, Bounds(30, 1, 1))
    assert outcomes[0] == "a0"
    assert isinstance(outcomes[1], BackendTimeout)
    assert backend.calls == [("a", [0])]
    assert backend.cancelled == []


def test_a_call_that_somebody_waits_for_is_not_cancelled() -> None:
    """Of two items in one call the late one times out, and the other gets its answer from that call."""
    backend = Backend()
    outcomes = ran([[Item(0, deadline=0.5), Item(1, latency=0.8)]], backend)
    assert isinstance(outcomes[0], BackendTimeout)
    assert outcomes[1] == "a1"
    assert backend.calls == [("a", [0, 1])]
    assert backend.cancelled == []


def test_a_call_is_given_what_is_left() -> None:
    """A call's seconds are those of its most patient request, within the stage's time-out."""
    backend = Backend()
    ran([[Item(0, "a", 5.0), Item(1, "a", 9.0), Item(2, "b")]], backend, Bounds(20, 64, 8))
    given = dict(zip((batch_key for batch_key, _ in backend.calls), backend.given, strict=True))
    assert 5 < given["a"] <= 9
    assert 9 < given["b"] <= 20


def test_more_than_max_pending_is_refused_at_once() -> None:
    """Items over the stage's bound get BackendUnavailable, without a call."""
    backend = Backend()
    outcomes = ran([[Item(number) for number in range(5)]], backend, Bounds(30, 64, 8, max_pending=3))
    assert [outcomes[number] for number in range(3)] == ["a0", "a1", "a2"]
    assert [type(outcomes[number]) for number in (3, 4)] == [BackendUnavailable] * 2
    assert all(batch == [0, 1, 2] for _, batch in backend.calls)


async def _defective(batch_key: BatchKey, queries: Sequence[Any], timeout: float) -> list[str]:
    raise KeyError("a defect")


async def _one_too_few(batch_key: BatchKey, queries: Sequence[Any], timeout: float) -> list[str]:
    return ["a"] * (len(queries) - 1)


@pytest.mark.parametrize("call", [_defective, _one_too_few])
def test_a_defect_of_a_call_is_its_requests_outcome(call: Call) -> None:
    """An exception that isn't a BackendError, or a wrong number of outcomes, fails the call's requests and no more:
    nothing is guessed, the log has the traceback, and the worker goes on.
    """
    with capture_logs() as lines:
        outcomes = ran([[Item(0), Item(1)]], call)
    assert outcomes.keys() == {0, 1}
    assert [type(outcome) for outcome in outcomes.values()] == [BackendBadResponse] * 2
    assert {line["event"] for line in lines} == {"backend call raised an unexpected error"}
    assert all(line["log_level"] == "error" and "dispatcher.py" in line["where"] for line in lines)


async def _choked(batch_key: BatchKey, queries: Sequence[Any], timeout: float) -> list[str | BackendError]:
    """One text is too much for it, another one for the backend."""
    numbers = [item.number for _, item in queries]
    if 1 in numbers:
        raise ValueError("a defect")
    if numbers == [2]:
        raise BackendUnavailable("away")
    return [f"a{number}" for number in numbers]


def test_a_request_with_a_defect_takes_no_other_with_it() -> None:
    """The requests of a call are many tenants': each is asked alone, and the defect is the outcome of one."""
    with capture_logs() as lines:
        outcomes = ran([[Item(number) for number in range(4)]], _choked, ROOMY)
    assert (outcomes[0], outcomes[3]) == ("a0", "a3")
    assert [type(outcomes[number]) for number in (1, 2)] == [BackendBadResponse, BackendUnavailable]
    # Of the call, and of the request.
    assert [line["event"] for line in lines] == ["backend call raised an unexpected error"] * 2


def test_after_a_defect_an_outcome_leaves_when_it_is_there() -> None:
    """The first does not wait for the last, however long that takes; and who has left meanwhile is not asked for."""
    left = threading.Event()
    calls: list[list[int]] = []

    async def slow(batch_key: BatchKey, queries: Sequence[Any], timeout: float) -> list[str]:
        numbers = [item.number for _, item in queries]
        calls.append(numbers)
        if len(numbers) > 1:
            raise ValueError("a defect")
        if numbers == [1]:
            await asyncio.sleep(2.0)
        if numbers == [3]:
            assert await asyncio.to_thread(left.wait, timeout)
        return [f"a{number}" for number in numbers]

    class Noting(Asking):
        def on_result(self, item: Any, outcome: Any) -> Finished[Any]:
            if item.number == 0:
                left.set()
            return super().on_result(item, outcome)

    until = dict.fromkeys((1, 2), time.monotonic() + 1.0)
    with looping() as threads, capture_logs():
        asking = Noting(Item.plan, slow, ROOMY, lambda item: until.get(item.number, 1e9), lambda _: True)
        out = items_of([[Item(number) for number in range(4)]], lambda up: async_stage("asking", up, asking, threads))
    outcomes = {done.item.number: _outcome(done) for done in out}
    assert (outcomes[0], outcomes[3]) == ("a0", "a3")
    assert all(isinstance(outcomes[number], BackendTimeout) for number in until)
    assert [2] not in calls


def test_a_defect_of_the_plan_is_its_items_alone() -> None:
    """An exception that `request` raises for an item rejects it; its neighbours have their outcomes."""

    def plan(item: Item) -> tuple[BatchKey, Any] | None:
        if item.number == 1:
            raise KeyError("a defect")
        return item.plan()

    outcomes = ran([[Item(0), Item(1), Item(2)]], Backend(), ROOMY, plan)
    assert (outcomes[0], outcomes[2]) == ("a0", "a2")
    assert (outcomes[1].kind, outcomes[1].reason) == (DeadLetterClass.INTERNAL, "KeyError")


def test_an_error_as_a_value_is_one_requests_outcome() -> None:
    """A call may fail for one request and answer the others."""
    outcomes = ran([[Item(0), Item(1, fails=True), Item(2)]], Backend())
    assert outcomes[0] == "a0"
    assert isinstance(outcomes[1], BackendError)
    assert outcomes[2] == "a2"


class Once(DynamicSource[list[Item]]):
    """Sends one batch, and ends when a call has finished."""

    def __init__(self, batch: list[Item], finished: threading.Event) -> None:
        self.batch = batch
        self.finished = finished

    def build(self, step_id: str, worker_index: int, worker_count: int) -> "_Once":
        """The one partition."""
        return _Once(self)


class _Once(StatelessSourcePartition[list[Item]]):
    def __init__(self, source: Once) -> None:
        self._batches = [source.batch]
        self._finish = source.finished

    def next_batch(self) -> list[list[Item]]:
        if self._batches:
            return [self._batches.pop()]
        self._finish.wait()
        raise StopIteration


def test_what_has_finished_leaves_at_the_end() -> None:
    """A call that ended after the last batch is not lost, though no batch comes behind it."""
    finished, out = threading.Event(), list[list[Any]]()

    class Finishing(Wakeup):
        def set(self, pause: float = PAUSE) -> None:
            finished.set()

    calls = EventLoopThread(Finishing())
    try:
        flow = Dataflow("ending")
        up = op.key_on("key", op.input("in", flow, Once([Item(1)], finished)), lambda _: KEY)
        asking = Asking(Item.plan, Backend(), ROOMY, lambda _: math.inf)
        op.output("out", op.key_rm("batches", async_stage("asking", up, asking, calls)), TestingSink(out))
        cli_main(flow)
    finally:
        calls.close()
    assert [(done.item.number, done.outcome) for batch in out for done in batch] == [(1, "a1")]
