"""The costs of single parts of the flow, as ratios to a calibrating loop that a slow machine slows alike.

A part that has become slower than `baseline.json` says, by more than TOLERANCE, fails; `--update` writes what it costs
now.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson
from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.run import cli_main
from typing_extensions import override

from bench.events import query_events
from bench.figures import spread
from bench.loops import ClosedLoop, Sink, Source
from bench.ranking import FACTS, RECIPES, legs, model, vectors
from bench.signals import SIGNALS
from bench.stubs import qdrant_app, served
from flows.assembly import query as assembly
from flows.assembly.search import cached_answers
from operators.clients.http.transport import Endpoint, http_transport
from operators.clients.rerankers import Capacity, RerankRequest
from operators.clients.rerankers.candidates import Candidates
from operators.delivery.tracker import Commit, OffsetTracker
from operators.delivery.way_out import WayOut
from operators.query.in_flight import InFlight
from operators.ranking.candidate import Leg
from operators.ranking.pipeline import Vectors, first_phase, second_phase
from operators.ranking.run import ModelScores
from operators.runtime.batching.backlog import Backlog, PendingRequest
from operators.runtime.dispatcher import BatchKey, Bounds
from operators.runtime.event_loop import EventLoopThread, Wakeup
from operators.runtime.stage import KEY, async_stage
from operators.stages.backend_stage import QueryStage
from operators.stages.decode import Decoder
from operators.stages.publish import Finaliser, Publisher
from operators.wire.message import Message, Origin
from schemas.errors import BackendError
from schemas.recipes import Recipe
from schemas.settings import Settings, load

BASELINE: Final = Path(__file__).with_name("baseline.json")
TOLERANCE: Final = 1.3
"""Ratios of one machine to another's, and of one round to the next, are further apart than most changes."""

HITS: Final = 100
"""Of both legs."""

_QUERIES: Final = 64
_CALLS: Final = 300
_OFFSETS: Final = 256
_WAITING: Final = 512
_DOCUMENTS: Final = 50
_READ_AT: Final = 1_700_000_000.0

Part = Callable[[], float]
"""Runs once, and gives the CPU seconds that one unit took."""


def figures(rounds: int) -> dict[str, Any]:
    """Each part's ratio to the calibrating loop, over rounds in which all parts come by turns."""
    taken: dict[str, list[float]] = {}
    with served(qdrant_app(0.0)) as url:
        parts = _parts(url)
        for _ in range(rounds):
            for name, part in parts.items():
                taken.setdefault(name, []).append(part() / _calibrated())
    return {"rounds": rounds, "ratios": {name: spread(values) for name, values in taken.items()}}


def slower(measured: Mapping[str, Any], baseline: Mapping[str, float]) -> dict[str, float]:
    """The parts that cost more than the baseline allows, and how many times it: by the best round, for what disturbs
    a round only ever makes it slower. A part that the baseline doesn't know is not judged.
    """
    found = {name: each["min"] / baseline[name] for name, each in measured["ratios"].items() if name in baseline}
    return {name: round(times, 2) for name, times in found.items() if times > TOLERANCE}


def baseline() -> dict[str, float]:
    """The costs of the parts when the baseline was written."""
    read: dict[str, float] = orjson.loads(BASELINE.read_bytes())
    return read


def update(measured: Mapping[str, Any]) -> None:
    """Make what was measured the baseline."""
    ratios = {name: round(statistics.median(each["rounds"]), 3) for name, each in measured["ratios"].items()}
    BASELINE.write_bytes(orjson.dumps(ratios, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def _parts(qdrant: str) -> dict[str, Part]:
    servers = {"kafka": {"bootstrap_servers": "127.0.0.1:1"}, "qdrant": {"url": qdrant}}
    settings = load(None, servers)
    decode = assembly.decoder(settings, SIGNALS)
    events = [
        Message(Origin("queries", 0, offset, 1), key, value, (), _READ_AT, _READ_AT, time.monotonic())
        for offset, (key, value) in enumerate(query_events("micro", _QUERIES))
    ]
    found = legs(HITS)
    ranked = {
        f"rank {name}": _repeated(partial(_rank, recipe, found, model(recipe, found), vectors(recipe, found)))
        for name, recipe in RECIPES.items()
    }
    return {
        "decode": lambda: _each(decode, events),
        **ranked,
        "publish": _publish(settings, decode, events),
        "asynchronous operator": lambda: _operator(decode, events),
        "transport call": lambda: asyncio.run(_transport(qdrant)),
        "tracker": _repeated(_tracker),
        "backlog": _repeated(_backlog),
        "metrics": _repeated(_counting(events[0])),
    }


def _calibrated() -> float:
    """CPU seconds of a fixed piece of the work that interpreters do: JSON, lists, dictionaries, sorting, floats."""
    started = time.thread_time()
    for _ in range(20):
        document = orjson.loads(orjson.dumps({str(number): [number / 7, str(number)] for number in range(100)}))
        sorted(document.items(), key=lambda item: -item[1][0])
    return (time.thread_time() - started) / 20


def _rank(recipe: Recipe, found: Sequence[Leg], said: ModelScores | None, read: Vectors) -> None:
    second_phase(recipe, first_phase(recipe, found, FACTS), said, read)


def _counting(message: Message) -> Callable[[], None]:
    """The counts of a query with two legs, a page from the cache and a reranker."""
    metrics, trace = SIGNALS.metrics, SIGNALS.trace(message, (), {})
    qdrant, reranker, load = metrics.backend("qdrant"), metrics.backend("reranker"), metrics.load("rerank", 16)

    def counted() -> None:
        metrics.received.inc()
        for step in ("policy", "vector", "keyword", "hybrid_merge", "fetch", "rerank", "rank", "fetch"):
            trace.passed(step, 0.01)
        trace.looked_up("payload", 49, 1)
        trace.looked_up("payload", 10, 0)
        for backend in (qdrant, qdrant, reranker):
            backend.answered(0.01)
        load.units(50)
        load.queued(0.001)
        load.under_way(1)
        load.under_way(0)
        trace.answered([("vector", "ok"), ("keyword", "ok")], removed=0, aged=False)
        trace.sent()

    return counted


def _each(step: Callable[[Any], Any], items: Sequence[Any]) -> float:
    started = time.thread_time()
    for item in items:
        step(item)
    return (time.thread_time() - started) / len(items)


def _repeated(step: Callable[[], Any]) -> Part:
    return lambda: _each(lambda _: step(), range(20))


def _publish(settings: Settings, decode: Decoder, events: Sequence[Message]) -> Part:
    topics = settings.kafka.topics
    config_hash = decode.normalise.config_hash
    way_out = WayOut(
        topics.results,
        topics.dead_letters,
        decode.normalise.replies,
        {},
        "/bench",
        config_hash,
        True,
        SIGNALS,
    )
    finaliser = Finaliser(
        Publisher(way_out, None, decode.normalise.cursors), cached_answers(settings.cache, SIGNALS.metrics)
    )

    def part() -> float:
        return _each(finaliser, [_ranked(decode(each)) for each in events])

    return part


def _ranked(query: InFlight) -> InFlight:
    found, outcome, recipe = legs(HITS), query.outcome, query.asked.plan.recipe
    outcome.legs = {leg.name: leg for leg in found}
    said = model(recipe, found)
    outcome.rank(second_phase(recipe, first_phase(recipe, found, FACTS), said))
    if said is not None:
        outcome.rerank_scores = ModelScores(said.scores, said.top, model="model")
    outcome.payloads = {each.id: each.payload for each in outcome.candidates[:50]}
    return query


class _Echo(QueryStage[int, int]):
    """A backend that answers at once."""

    bounds = Bounds(60.0, 16, 8)

    @property
    @override
    def step(self) -> str:
        return "echo"

    @override
    def ask(self, query: InFlight) -> tuple[BatchKey, int]:
        return "a", 1

    @override
    async def call(self, batch_key: BatchKey, requests: Sequence[int], timeout: float) -> Sequence[int]:
        return requests

    @override
    def on_result(self, item: InFlight, outcome: int | BackendError) -> InFlight:
        return item


def _operator(decode: Decoder, events: Sequence[Message]) -> float:
    """One call for what is at hand, which answers at once; the process's CPU time a query."""
    queries = [decode(replace(each, clock=time.monotonic())) for _ in range(8) for each in events]
    calls = EventLoopThread(Wakeup())
    load = ClosedLoop(queries, 64, calls.wakeup)

    flow = Dataflow("operator")
    up = op.key_on("key", op.input("in", flow, Source(load)), lambda _: KEY)
    op.output("out", op.key_rm("batches", async_stage("echo", up, _Echo(), calls)), Sink(load))
    started = time.process_time()
    cli_main(flow)
    spent = time.process_time() - started
    calls.close()
    return spent / len(queries)


async def _transport(url: str) -> float:
    """Four calls at a time, each of 25 KB and with 50 hits in the answer; this thread's CPU time a call."""
    endpoint = Endpoint("qdrant", url, http_transport())
    body = {"searches": [{"query": "x" * 25_000, "limit": 50}]}

    async def caller() -> None:
        for _ in range(_CALLS // 4):
            await endpoint.call("POST", "/collections/documents/points/query/batch", body, timeout=30)

    callers: list[Awaitable[None]] = [caller() for _ in range(4)]
    started = time.thread_time()
    await asyncio.gather(*callers)
    spent = time.thread_time() - started
    await endpoint.aclose()
    return spent / _CALLS


def _tracker() -> None:
    """Read, answered in transactions of 16, the last of each first, and committed."""
    tracker = OffsetTracker(Commit(0, ""))
    for offset in range(_OFFSETS):
        tracker.see(offset)
    for end in range(_OFFSETS, 0, -16):
        tracker.apply_commit(tracker.plan_commit(range(end - 16, end)))
    assert tracker.position == _OFFSETS


def _backlog() -> None:
    """As many queries as wait for a reranker in a burst, each in a call of its own."""
    batching = Candidates(Capacity())
    backlog = Backlog(batching, 1)
    asked = RerankRequest("query", {str(number): "text" for number in range(_DOCUMENTS)}, "documents", "tenant")
    for _ in range(_WAITING):
        backlog.put(PendingRequest(asked, 60.0, batching.units(asked), batching.tenant(asked)))
    while slices := backlog.take(0.0):
        assert not backlog.expired(0.0)
        backlog.on_call_end(_DOCUMENTS * len(slices), 0.03)
    assert not backlog.waiting
