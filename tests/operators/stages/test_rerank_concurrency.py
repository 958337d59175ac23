"""No answer is attributed to another query's document: many queries at once, over servers that are late and fail."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import AsyncExitStack, contextmanager
from random import Random
from typing import Any, Final

import pytest
from aiohttp import web
from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.run import cli_main
from bytewax.testing import TestingSink

from operators.clients.admission import REST
from operators.clients.http.backend import Backend, Resilient
from operators.clients.model_caches import ScoreCache
from operators.clients.rerankers import Reranker
from operators.clients.rerankers.cross_encoders import APIS, HttpReranker
from operators.query.in_flight import InFlight
from operators.ranking.candidate import Candidate
from operators.ranking.pipeline import Ranked
from operators.ranking.run import Facts, Run
from operators.runtime.dispatcher import Bounds, Load
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.stage import KEY, async_stage, sync_stage
from operators.stages.rerank import Reranking, rank
from tests.operators.clients.http.serving import answering, backend, json_response
from tests.operators.clients.rerankers.servers import Cohere, Server, TeiPredict, VllmScore, relevance
from tests.operators.runtime.flowing import Sent
from tests.operators.runtime.test_async_stage import looping
from tests.operators.samples import query
from tests.tiers import sized

TOP: Final = 50
"""Candidates that the default profile has reranked."""

WEIGHT: Final = 0.75
SLOTS: Final = 5
MANY: Final = sized(150, nightly=1000)
FOREVER: Final = 6000.0
"""Seconds: time that no stalled machine makes short, for what is short of time is reranked in part."""
Ranking = list[tuple[str, float]]


class Erratic:
    """A server that takes any of these `seconds` by chance, and of whose answers a share of `failing` is none."""

    def __init__(self, server: Server, random: Random, failing: float, seconds: Sequence[float]) -> None:
        self.server = server
        self.most_at_once = self._at_once = 0
        self._random = random
        self._failing = failing
        self._seconds = seconds

    async def __call__(self, request: web.Request) -> web.Response:
        """Answer late, wrongly, or not at all."""
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            await asyncio.sleep(self._random.choice(self._seconds))
            try:
                answer = await self.server(request)
            except ConnectionError:
                # Nobody waits any more.
                return web.Response()
            if self._random.random() >= self._failing:
                return answer
            match self._random.randrange(4):
                case 0:
                    return json_response({}, self._random.choice([500, 503]))
                case 1:
                    return web.Response(body=b'{"results": [{"index": 0, "relevance')
                case 2:
                    return json_response({"results": [{}], "data": [{}]})
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


DIALECTS: dict[str, tuple[type[Server], Callable[[Backend], Reranker]]] = {
    "cohere": (Cohere, lambda server: HttpReranker(server, "m", APIS["cohere"], documents=20)),
    "vllm_score": (VllmScore, lambda server: HttpReranker(server, "m", APIS["vllm_score"], documents=64)),
    "tei_predict": (TeiPredict, lambda server: HttpReranker(server, "m", APIS["tei_predict"], documents=32, chars=900)),
    "trusted": (VllmScore, lambda server: HttpReranker(server, "m", APIS["vllm_score"], documents=64, trusted=True)),
}


Reported = list[float]
"""The calls in flight, whenever their number changed."""


@contextmanager
def stage(
    dialect: str,
    seed: int,
    *,
    failing: float = 0.0,
    seconds: Sequence[float] = (0.0, 0.0, 0.002, 0.01),
    cache: bool = False,
) -> Iterator[tuple[Erratic, Reported, Reranking, EventLoopThread]]:
    """The stage over a reranker of that dialect and its server."""
    make_server, make = DIALECTS[dialect]
    server, reports = Erratic(make_server(), Random(seed), failing, seconds), Reported()
    # What a call carries is the batching policy's, and of no interest here.
    load = Load(lambda _: None, lambda _: None, reports.append)
    with looping() as calls:
        stack = AsyncExitStack()

        async def opened() -> Reranker:
            url = await stack.enter_async_context(answering(server))
            return make(Resilient(await stack.enter_async_context(backend(f"{url}/base"))))

        reranker = calls.run(opened(), 10)
        kept = ScoreCache(100_000) if cache else None
        try:
            bounds = Bounds(FOREVER, 64, SLOTS)
            yield server, reports, Reranking(reranker, bounds, cache=kept, load=load), calls
        finally:
            calls.run(stack.aclose(), 10)


def asked(seed: int, count: int, ids: str = "d", *, hurried: float = 0.0) -> list[InFlight]:
    """Queries of texts of their own with 1 to 60 candidates, whose ids are other queries', too, and so are their texts
    within a namespace. For a share `hurried` of them a second is too long; deadlines count from when they are sent.
    """
    random = Random(seed)
    queries = []
    for number in range(count):
        namespace = random.choice(["red", "green", "blue"])
        weighing = {"rerank": {"weight": WEIGHT}}
        one = query(number, text=f"query {number}", namespace=namespace, overrides=weighing)
        numbers = random.sample(range(100), random.randint(1, 60))
        found = [Candidate(f"{ids}{each}", 1 - place / 100) for place, each in enumerate(numbers)]
        one.outcome.rank(Ranked(found, Run(Facts())))
        one.outcome.payloads = {
            f"{ids}{each}": {"text": f"{namespace} text {random.randrange(80)}"} for each in numbers
        }
        one.deadline = random.uniform(0, 1) if random.random() < hurried else FOREVER
        queries.append(one)
    return queries


def ranking(one: InFlight) -> Ranking:
    """Its candidates and their scores, in order."""
    return [(candidate.id, candidate.score) for candidate in one.outcome.candidates]


def alone(fused: Ranking, one: InFlight, read: int = TOP, unscored: Set[str] = frozenset()) -> Ranking:
    """By brute force, what the query comes to if nobody else asks anything, and so many candidates are read."""
    if len(fused) == 1:
        return fused
    first = [each for each in fused[:read] if each[0] not in unscored]
    tail = [each for each in fused if each not in first]
    relevances = unit([relevance(str(one.asked.text), one.outcome.payloads[id_]["text"]) for id_, _ in first])
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


def waves(queries: Sequence[InFlight], size: int) -> Iterator[list[InFlight]]:
    """The queries in batches of that size."""
    for start in range(0, len(queries), size):
        batch = list(queries[start : start + size])
        for one in batch:
            one.deadline += time.monotonic()
        yield batch


def through(
    queries: Sequence[InFlight], reranking: Reranking, calls: EventLoopThread, pause: float = 0.0, size: int = 125
) -> list[InFlight]:
    """Run the queries through the stage: each leaves once, with its own ranking, that of its first candidates or its
    fused one; those not lost.
    """
    fused = [ranking(one) for one in queries]
    on: list[list[InFlight]] = []
    flow = Dataflow("reranking")
    up = op.key_on("key", op.input("in", flow, Sent(waves(queries, size), on, pause)), lambda _: KEY)
    reranked = sync_stage("rank", async_stage("rerank", up, reranking, calls), rank)
    op.output("on", op.key_rm("batches", reranked), TestingSink(on))
    cli_main(flow)
    assert Counter(id(one) for batch in on for one in batch) == Counter(map(id, queries))
    for one, before in zip(queries, fused, strict=True):
        said = one.outcome.rerank_scores
        assert one.outcome.run.reranked is (said is not None)
        assert ranking(one) == (before if said is None else alone(before, one, said.top, said.unscored))
        whole = len(before) == 1 or (said is not None and said.top == min(TOP, len(before)))
        assert [stage for stage, _ in one.outcome.degraded] == ["rerank"] * (not whole)
    return [one for one in queries if not one.outcome.degraded]


def wanted(queries: Sequence[InFlight]) -> Counter[tuple[str, str]]:
    """The pairs that must be asked for: of one candidate none, else each of the first."""
    return Counter(
        (str(one.asked.text), one.outcome.payloads[candidate.id]["text"])
        for one in queries
        if len(one.outcome.candidates) > 1
        for candidate in one.outcome.candidates[:TOP]
    )


def mixed(server: Erratic) -> bool:
    """True if some request held two namespaces' documents."""
    return any(len({text.split()[0] for _, text in pairs}) > 1 for pairs in server.calls)


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.nightly])])
@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_query_has_its_own_scores(dialect: str, cache: bool, count: int) -> None:
    """Of many queries at once each is ranked as if alone, each pair is asked for once, no call is over the bound, and
    two namespaces meet in a request only at a server that is trusted. What is kept isn't asked for again.
    """
    queries = asked(count, count)
    pairs = wanted(queries)
    with stage(dialect, count, cache=cache) as (server, reports, reranking, calls):
        assert len(through(queries, reranking, calls)) == count
        assert Counter(pair for call in server.calls for pair in call) == pairs
        assert server.most_at_once <= max(reports) == SLOTS
        assert reports[-1] == 0
        assert mixed(server) == (dialect == "trusted")
        made = len(server.calls)
        assert len(through(asked(count, count, "e")[:100], reranking, calls)) == 100
        assert (len(server.calls) == made) == cache


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "cache"), [(0, False), (1, True)])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_failures_are_nobody_elses_scores(dialect: str, seed: int, cache: bool) -> None:
    """Whatever fails, comes late or is given up: a query is ranked as if alone, or stays fused and says so; and what
    was kept meanwhile is true.
    """
    with stage(dialect, seed, failing=0.05, cache=cache) as (server, reports, reranking, calls):
        assert 0 < len(through(asked(seed, MANY, hurried=0.1), reranking, calls, 0.2)) < MANY
        assert max(reports) == SLOTS
        assert reports[-1] == 0
        assert mixed(server) == (dialect == "trusted")
        time.sleep(REST)
        assert through(asked(seed, 200, "e"), reranking, calls, 0.2)


@pytest.mark.slow
def test_who_has_no_time_takes_nobody_elses() -> None:
    """Queries that give up before a healthy server can answer lose their own ranking alone, however many they are."""
    queries = asked(0, 400)
    hurried = [one for number, one in enumerate(queries) if number >= 20 and number % 10]
    for one in hurried:
        one.deadline = 0.02
    with stage("vllm_score", 0, seconds=(0.005, 0.1, 0.12)) as (_, _, reranking, calls):
        reranked = through(queries, reranking, calls, 0.1, 10)
    assert [one.asked.event.query_id for one in queries if one not in reranked and one not in hurried] == []
