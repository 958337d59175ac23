"""No answer is attributed to another query's document: many queries at once, over servers that are late and fail."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Final, cast

import pytest
from aiohttp import web
from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource, run_main
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from operators.clients.guarded import Guarded
from operators.clients.rerankers import Capacity, Reranker, RerankRequest, Scores
from operators.clients.rerankers.candidates import Candidates
from operators.clients.rerankers.cohere import CohereReranker
from operators.clients.rerankers.score_cache import ScoreCache
from operators.clients.rerankers.tei import TeiPairReranker
from operators.clients.rerankers.vllm import VllmPairReranker
from operators.dispatcher import Bounds, Dispatcher, Lane
from operators.event_loop import EventLoopThread
from operators.inflight import InFlight
from operators.ranking.candidate import Candidate
from operators.rerank import Judging, Reranking, rerank
from operators.stage import Batch
from operators.wakeup import Wakeup
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable
from tests.operators.clients.rerankers.servers import Cohere, Server, TeiPredict, VllmScore, relevance
from tests.operators.clients.serving import answering, backend, json_response
from tests.operators.samples import query
from tests.operators.test_async_io import looping

TOP: Final = 50
"""Candidates that the default profile has reranked."""

WEIGHT: Final = 0.75
SLOTS: Final = 5
Ranking = list[tuple[str, float]]


class Erratic:
    """A server that takes its time by chance, and of whose answers a share of `failing` is none."""

    def __init__(self, server: Server, random: Random, failing: float) -> None:
        self.server = server
        self.most_at_once = self._at_once = 0
        self._random = random
        self._failing = failing

    async def __call__(self, request: web.Request) -> web.Response:
        """Answer late, wrongly, or not at all."""
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            await asyncio.sleep(self._random.choice([0.0, 0.0, 0.002, 0.01]))
            answer = await self.server(request)
            if self._random.random() >= self._failing:
                return answer
            match self._random.randrange(4):
                case 0:
                    return json_response({}, self._random.choice([500, 503]))
                case 1:
                    return web.Response(body=b'{"results": [{"index": 0, "relevance')
                case 2:
                    return json_response({"results": [], "data": []})
            await asyncio.sleep(0.3)
            return answer
        finally:
            self._at_once -= 1

    @property
    def calls(self) -> list[list[tuple[str, str]]]:
        """The pairs of a query and a text of each request."""
        return [_pairs(body) for body in self.server.requests]


def _pairs(body: dict[str, Any]) -> list[tuple[str, str]]:
    if "inputs" in body:
        return [(text, other) for text, other in body["inputs"]]
    if "text_1" in body:
        return list(zip(body["text_1"], body["text_2"], strict=True))
    return [(body["query"], text) for text in body["documents"]]


DIALECTS: dict[str, tuple[type[Server], Callable[[Guarded], Reranker]]] = {
    "cohere": (Cohere, lambda server: CohereReranker(server, "m", documents=20)),
    "vllm_score": (VllmScore, lambda server: VllmPairReranker(server, "m", documents=64)),
    "tei_predict": (TeiPredict, lambda server: TeiPairReranker(server, "m", chars=900)),
    "trusted": (VllmScore, lambda server: VllmPairReranker(server, "m", documents=64, trusted=True)),
}


class Reported(list[int]):
    """The calls in flight, whenever their number changed."""

    def __call__(self, count: int) -> None:
        """Note it."""
        self.append(count)


@contextmanager
def stage(
    dialect: str, seed: int, *, failing: float = 0.0, cache: bool = False
) -> Iterator[tuple[Erratic, Reported, Reranking, EventLoopThread]]:
    """The stage over a reranker of that dialect and its server."""
    make_server, make = DIALECTS[dialect]
    server, reports = Erratic(make_server(), Random(seed), failing), Reported()
    with looping() as calls:
        stack = AsyncExitStack()

        async def opened() -> Reranker:
            url = await stack.enter_async_context(answering(server))
            return make(Guarded(await stack.enter_async_context(backend(f"{url}/base"))))

        reranker = calls.run(opened(), 10)
        kept = ScoreCache(100_000) if cache else None
        try:
            bounds = Bounds(120, 64, SLOTS)
            yield server, reports, Reranking(reranker, bounds, Judging(WEIGHT), cache=kept, in_flight=reports), calls
        finally:
            calls.run(stack.aclose(), 10)


def asked(random: Random, number: int, *, hurried: bool = False) -> InFlight:
    """A query of a text of its own with 1 to 60 candidates; their ids are other queries', texts its namespace's."""
    namespace = random.choice(["red", "green", "blue"])
    one = query(number, text=f"query {number}", namespace=namespace)
    ids = random.sample(range(100), random.randint(1, 60))
    one.candidates = [Candidate(f"d{id_}", 1 - place / 100) for place, id_ in enumerate(ids)]
    one.payloads = {f"d{id_}": {"text": f"{namespace} text {random.randrange(80)}"} for id_ in ids}
    one.deadline = time.monotonic() + (random.uniform(0, 1) if hurried and random.random() < 0.1 else 600)
    return one


def ranking(one: InFlight) -> Ranking:
    """Its candidates and their scores, in order."""
    return [(candidate.id, candidate.score) for candidate in one.candidates]


def alone(one: InFlight) -> Ranking:
    """By brute force, what the query comes to if nobody else asks anything."""
    fused = ranking(one)
    first, tail = fused[:TOP], fused[TOP:]
    relevances = unit([relevance(str(one.text), one.payloads[id_]["text"]) for id_, _ in first])
    before = unit([score for _, score in first])
    merged = [
        (id_, WEIGHT * new + (1 - WEIGHT) * old) for (id_, _), new, old in zip(first, relevances, before, strict=True)
    ]
    behind = zip(tail, unit([score for _, score in tail]), strict=True)
    return sorted(merged, key=lambda pair: (-pair[1], pair[0])) + [(id_, value - 1) for (id_, _), value in behind]


def unit(values: list[float]) -> list[float]:
    """Min-max; equal values are all 1."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return [(value - low) / (high - low) if high > low else 1.0 for value in values]


def through(queries: Sequence[InFlight], reranking: Reranking, calls: EventLoopThread) -> list[InFlight]:
    """Run the queries through the stage: each leaves once, with its own ranking or its fused one; those reranked."""
    fused, expected = [ranking(one) for one in queries], [alone(one) for one in queries]
    on: list[Batch] = []
    flow = Dataflow("reranking")
    batches = [list(queries[start : start + 250]) for start in range(0, len(queries), 250)]
    up = op.input("in", flow, TestingSource(batches))
    op.output("on", rerank("rerank", up, reranking, calls).on, TestingSink(on))
    run_main(flow)
    assert Counter(id(one) for batch in on for one in batch) == Counter(map(id, queries))
    for one, before, after in zip(queries, fused, expected, strict=True):
        assert one.reranked is not bool(one.degraded)
        assert ranking(one) == (after if one.reranked else before)
        assert [stage for stage, _ in one.degraded] == ["rerank"] * (not one.reranked)
    return [one for one in queries if one.reranked]


def wanted(queries: Sequence[InFlight]) -> Counter[tuple[str, str]]:
    """The pairs that must be asked for: of one candidate none, else each of the first."""
    return Counter(
        (str(one.text), one.payloads[candidate.id]["text"])
        for one in queries
        if len(one.candidates) > 1
        for candidate in one.candidates[:TOP]
    )


def mixed(server: Erratic) -> bool:
    """Whether some request held two namespaces' documents."""
    return any(len({text.split()[0] for _, text in pairs}) > 1 for pairs in server.calls)


COUNTS = [100, pytest.param(1000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_query_has_its_own_scores(dialect: str, cache: bool, count: int) -> None:
    """Of many queries at once each is ranked as if alone, each pair is asked for once, no call is over the bound, and
    two namespaces meet in a request only at a server that is trusted. What is kept isn't asked for again.
    """
    random = Random(count)
    queries = [asked(random, number) for number in range(count)]
    pairs = wanted(queries)
    with stage(dialect, count, cache=cache) as (server, reports, reranking, calls):
        assert len(through(queries, reranking, calls)) == count
        assert Counter(pair for call in server.calls for pair in call) == pairs
        assert server.most_at_once == max(reports) == SLOTS
        assert reports[-1] == 0
        assert mixed(server) == (dialect == "trusted")
        made = len(server.calls)
        random = Random(count)
        assert len(through([asked(random, number) for number in range(count)], reranking, calls)) == count
        assert (len(server.calls) == made) == cache


@pytest.mark.slow
@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dialect", DIALECTS)
def test_failures_are_nobody_elses_scores(dialect: str, seed: int, cache: bool) -> None:
    """Whatever fails, comes late or is given up: a query is ranked as if alone, or stays fused and says so; and what
    was kept meanwhile is true.
    """
    random = Random(seed)
    queries = [asked(random, number, hurried=True) for number in range(1000)]
    with stage(dialect, seed, failing=0.05, cache=cache) as (server, reports, reranking, calls):
        reranked = len(through(queries, reranking, calls))
        assert 100 < reranked < 1000
        assert max(reports) == SLOTS
        assert reports[-1] == 0
        assert mixed(server) == (dialect == "trusted")
        random = Random(seed)
        assert through([asked(random, number, hurried=True) for number in range(1000)], reranking, calls)


class Turned:
    """An event loop that is turned by hand; where the dispatcher's calls live."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.wakeup = Wakeup()

    def turn(self) -> None:
        """Run what is ready, and what that makes ready."""
        for _ in range(8):
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
        capacity = Capacity(queries=3, documents=4, apart="namespace")
        self.dispatcher: Dispatcher[str, RerankRequest, Scores] = Dispatcher(
            cast("EventLoopThread", self.turned),
            lambda name: {"rerank": self.requests[name]},
            self.call,
            self.deadlines.__getitem__,
            Bounds(1000, 1, 2),
            Candidates(capacity),
        )

    async def call(self, _: Lane, requests: Sequence[RerankRequest], timeout: float) -> list[Scores | BackendError]:
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

    @rule(count=st.integers(0, 7), namespace=st.sampled_from("mn"), hurried=st.booleans())
    def come(self, count: int, namespace: str, hurried: bool) -> None:
        """A query comes; its documents have the ids of all others'."""
        name = str(len(self.requests))
        self.requests[name] = RerankRequest(name, {str(id_): "text" for id_ in range(count)}, "c", namespace)
        self.deadlines[name] = time.monotonic() + 0.001 if hurried else math.inf
        self.dispatcher.submit([name])
        self.turned.turn()

    @rule(which=st.integers(0, 1), fails=st.sampled_from(["", "", "", "all", "one"]))
    def end(self, which: int, fails: str) -> None:
        """A call ends: with the scores of all, of all but the first, or as a whole without."""
        if not self.calls:
            return
        call = self.calls[which % len(self.calls)]
        if fails:
            self.failed |= {request.query for request in call.requests[: None if fails == "all" else 1]}
        if fails == "all":
            call.ended.set_exception(BackendUnavailable("refused"))
        else:
            scores: list[Scores | BackendError] = [right(request) for request in call.requests]
            call.ended.set_result([BackendBadResponse("wrong"), *scores[1:]] if fails else scores)
        self.turned.turn()

    @rule()
    def wait(self) -> None:
        """The hurried ones' time passes."""
        time.sleep(0.002)
        self.turned.turn()

    @invariant()
    def each_leaves_once_with_its_own(self) -> None:
        """With a score for each of its documents, or the error that it met; nothing is sent twice."""
        for finished in self.dispatcher.drain():
            assert finished.item not in self.left
            outcome = self.left[finished.item] = finished.outcomes["rerank"]
            if isinstance(outcome, BackendTimeout):
                assert self.deadlines[finished.item] < math.inf
            elif isinstance(outcome, BackendError):
                assert finished.item in self.failed
            else:
                assert outcome == right(self.requests[finished.item])
        assert len(self.calls) <= 2
        assert set(self.sent.values()) <= {1}

    def teardown(self) -> None:
        """All calls are answered: nobody is left waiting."""
        while self.calls:
            self.end(0, "")
            self.each_leaves_once_with_its_own()
        assert self.left.keys() == self.requests.keys()
        self.turned.loop.close()


def right(request: RerankRequest) -> Scores:
    """The scores of a query's documents, no other's."""
    return {id_: float(f"{request.query}.{id_}1") for id_ in request.documents}


TestAnyInterleaving = AnyInterleaving.TestCase
TestAnyInterleaving.settings = settings(max_examples=100, stateful_step_count=30)
