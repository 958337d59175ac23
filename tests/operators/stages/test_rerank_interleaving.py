"""Queries' documents in calls that end in any order: each query has its own scores, whatever becomes of the others."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from operators.clients.rerankers import Capacity, RerankRequest
from operators.clients.rerankers.candidates import Candidates
from operators.query.backend_answers import PartialScores, Scores
from operators.runtime.dispatcher import BatchKey, Bounds, Dispatcher
from operators.runtime.event_loop import EventLoopThread, Wakeup
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable
from tests.operators.runtime.flowing import Asking

pytestmark = pytest.mark.slow

STEPS = st.sampled_from([16, 16, 0, 1, 2, 3, 4, 5])
"""Steps of the event loop behind a rule; where they are few, the next rule comes in between."""


class Clocked(asyncio.SelectorEventLoop):
    """An event loop whose time passes when the test says so."""

    now = 0.0

    def time(self) -> float:
        """The test's time, in seconds."""
        return self.now


class Turned:
    """An event loop that is turned by hand; where the dispatcher's calls live."""

    def __init__(self) -> None:
        self.loop = Clocked()
        self.wakeup = Wakeup()
        self.closing = False

    def submit(self, callback: Callable[..., None], *arguments: object) -> None:
        """Call back at the next turn."""
        self.loop.call_soon(callback, *arguments)

    def turn(self, steps: int = 16) -> None:
        """Run what is ready, and what that makes ready: 16 steps are enough for a call to end and the next to begin."""
        for _ in range(steps):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()


@dataclass(eq=False)
class Call:
    """A call under way, which the test ends."""

    requests: Sequence[RerankRequest]
    ended: "asyncio.Future[list[Scores | BackendError]]"


class AnyInterleaving(RuleBasedStateMachine):
    """Queries come, calls end rightly, wrongly or not at all, in any order: each query has its own scores."""

    def __init__(self) -> None:
        super().__init__()
        self.turned = Turned()
        self.calls: list[Call] = []
        self.sent: Counter[tuple[str, str]] = Counter()
        self.deadlines: dict[str, float] = {}
        self.failed: set[str] = set()
        self.left: dict[str, Any] = {}
        self.requests: dict[str, RerankRequest] = {}
        self.candidates = Candidates(Capacity(queries=3, documents=4, apart="namespace"))
        asking = Asking(
            lambda name: ("rerank", self.requests[name]),
            self.call,
            Bounds(1000, 1, 2),
            self.deadlines.__getitem__,
            policy=self.candidates,
        )
        self.dispatcher = Dispatcher(asking, cast("EventLoopThread", self.turned), self.turned.loop.time)

    async def call(self, _: BatchKey, requests: Sequence[RerankRequest], timeout: float) -> list[Scores | BackendError]:
        """One call, which ends when the test says so."""
        assert len({request.namespace for request in requests}) == 1
        assert sum(len(request.documents) for request in requests) <= 4
        self.sent.update((request.query, id_) for request in requests for id_ in request.documents)
        call = Call(requests, self.turned.loop.create_future())
        self.calls.append(call)
        try:
            return await call.ended
        finally:
            self.calls.remove(call)

    @rule(count=st.integers(1, 7), namespace=st.sampled_from("mn"), hurried=st.booleans(), steps=STEPS)
    def come(self, count: int, namespace: str, hurried: bool, steps: int) -> None:
        """A query comes; its documents have the ids of all others'."""
        name = str(len(self.requests))
        self.requests[name] = RerankRequest(name, {str(id_): "text" for id_ in range(count)}, "c", namespace)
        self.deadlines[name] = self.turned.loop.now + 1 if hurried else math.inf
        self.dispatcher.submit([(name, "rerank", self.requests[name])])
        self.turned.turn(steps)

    @rule(which=st.integers(0, 1), fails=st.sampled_from(["", "", "", "all", "one"]), steps=STEPS)
    def end(self, which: int, fails: str, steps: int) -> None:
        """A call ends: with the scores of all, of all but the first, or as a whole without."""
        # One that was cancelled in the last turn isn't gone yet.
        open_calls = [call for call in self.calls if not call.ended.done()]
        if open_calls:
            call = open_calls[which % len(open_calls)]
            if fails:
                self.failed |= {request.query for request in call.requests[: None if fails == "all" else 1]}
            if fails == "all":
                call.ended.set_exception(BackendUnavailable("refused"))
            else:
                scores: list[Scores | BackendError] = [right(request) for request in call.requests]
                call.ended.set_result([BackendBadResponse("wrong"), *scores[1:]] if fails else scores)
        self.turned.turn(steps)

    @rule(steps=STEPS)
    def wait(self, steps: int) -> None:
        """The time of the hurried ones passes, whatever the loop is about to do."""
        self.turned.loop.now += 2
        self.turned.turn(steps)

    @invariant()
    def each_leaves_once_with_its_own(self) -> None:
        """With a score for each of its documents, or of the first of them, or the error that it met; nothing is sent
        twice.
        """
        for item, outcome in self.dispatcher.drain():
            assert item not in self.left
            self.left[item] = outcome
            if isinstance(outcome, BackendTimeout):
                assert self.deadlines[item] < math.inf
            elif isinstance(outcome, BackendError):
                assert item in self.failed
            elif isinstance(outcome, PartialScores):
                request = self.requests[item]
                assert len(outcome) >= 2
                assert outcome == right(self.candidates.part(request, 0, len(outcome)))
                assert outcome.unread == list(request.documents)[len(outcome)]
                assert item in self.failed or self.deadlines[item] < math.inf
            else:
                assert outcome == right(self.requests[item])
        assert len(self.calls) <= 2
        assert set(self.sent.values()) <= {1}

    def teardown(self) -> None:
        """All calls are answered: nobody is left waiting."""
        try:
            self.turned.turn()
            self.each_leaves_once_with_its_own()
            while self.calls:
                self.end(0, "", 16)
                self.each_leaves_once_with_its_own()
            assert self.left.keys() == self.requests.keys()
        finally:
            self.turned.loop.close()


def right(request: RerankRequest) -> Scores:
    """The scores of a query's documents, no other's."""
    return {id_: float(f"{request.query}.{id_}1") for id_ in request.documents}


TestAnyInterleaving = AnyInterleaving.TestCase
TestAnyInterleaving.settings = settings(max_examples=100, stateful_step_count=30)
