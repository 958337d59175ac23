"""The cost of a failing reranker: the rerank operator before a server that fails in each way there is.

Queries arrive at a steady rate whatever became of those before, and each has its deadline. A row is one fault and one
dialect: healthy queries first; then the fault, until those that are measured have left and the reranker has been asked
once more, which is the worst moment to get well, for it won't be asked again soon; then health, until an answer is
reranked. Calls are counted where they leave, for a refused one arrives nowhere. The stage is set up as the settings
have it that say nothing of it.

The promise: at most 1.2 calls a query, whatever fails. And no query is lost or answered twice, or the measurement
itself fails.
"""

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import httpx
from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.run import cli_main

from bench.failing_reranker import FailingReranker, Fault, failing_reranker
from bench.figures import percentile
from bench.loops import Answer, OpenLoop, Sink, Source
from bench.reranking import queries as fetched
from operators.clients.http.backend import Resilient
from operators.clients.http.transport import Endpoint, http_transport
from operators.clients.rerankers import Reranker
from operators.clients.rerankers.cross_encoders import APIS, HttpReranker
from operators.query.in_flight import InFlight
from operators.query.result import status_of
from operators.runtime.dispatcher import Bounds
from operators.runtime.event_loop import EventLoopThread, Wakeup
from operators.runtime.stage import KEY, async_stage
from operators.stages.rerank import Reranking
from schemas.settings import RerankSettings

RATE: Final = 100.0
DEADLINE: Final = 1.0
MOST_CALLS: Final = 1.6
"""Calls a query that are promised at most: one, a fifth for retries, and control requests after doubtful failures."""

_CANDIDATES: Final = 10
_WARM_UP: Final = 20
_PATIENCE: Final = 5.0
"""Seconds that are waited for what should come: the last answer, another call, a reranked answer."""

_MOST: Final = int(_PATIENCE * RATE)

DIALECTS: Final = ("cohere", "vllm_score")


class Counted(httpx.AsyncBaseTransport):
    """A transport that counts the calls made through it."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self.calls = 0
        self._transport = transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Count one and make it."""
        self.calls += 1
        return await self._transport.handle_async_request(request)

    async def aclose(self) -> None:
        """Close the transport."""
        await self._transport.aclose()


class Trial:
    """One fault of one reranker: what is sent when, and what came of it."""

    def __init__(self, server: FailingReranker, fault: Fault, queries: int, transport: Counted, loop: OpenLoop) -> None:
        made = fetched(_WARM_UP + queries + 3 * _MOST + 1, _CANDIDATES)
        self.sent: list[InFlight] = []
        self.calls = self.queries = 0
        self.healed = 0.0
        self._measured = range(_WARM_UP, _WARM_UP + queries)
        self._queries = iter(made)
        self._server = server
        self._fault = fault
        self._transport = transport
        self._loop = loop

    def drive(self) -> None:
        """Send everything and turn the fault on and off, while the dataflow runs in another thread."""
        try:
            self._send(_WARM_UP)
            given = time.monotonic() + _PATIENCE
            while len(self._loop.answers) < _WARM_UP and time.monotonic() < given:
                time.sleep(0.001)
            self._server.turn(self._fault)
            before = self._transport.calls
            self._send(len(self._measured))
            self._send(_MOST, lambda: len(self.answers) == len(self._measured))
            seen = self._transport.calls
            self._send(_MOST, lambda: self._transport.calls > seen)
            # So that the call has arrived.
            self._send(1)
            self.calls, self.queries = self._transport.calls - before, len(self.sent) - _WARM_UP
            self._server.turn(Fault.NONE)
            self.healed = time.monotonic()
            self._send(_MOST, lambda: self.back is not None)
        finally:
            self._loop.end()

    @property
    def answers(self) -> list[Answer]:
        """The answers that are measured, those there are."""
        return [each for each in self._loop.answers if each.query.message.origin.offset in self._measured]

    @property
    def back(self) -> float | None:
        """Seconds from the end of the fault to the first answer that was reranked, if there is one."""
        later = (
            each.at - self.healed
            for each in self._loop.answers
            if each.at >= self.healed and each.query.outcome.rerank_scores
        )
        return next(later, None)

    def _send(self, count: int, enough: Callable[[], bool] = lambda: False) -> None:
        started = time.monotonic()
        for number in range(count):
            query = next(self._queries)
            due = started + number / RATE
            query.deadline = due + DEADLINE
            self._loop.send(query)
            self.sent.append(query)
            time.sleep(max(0.0, due + 1 / RATE - time.monotonic()))
            if enough():
                return


def trial(server: FailingReranker, dialect: str, fault: Fault, queries: int) -> dict[str, Any]:
    """The row of one fault and dialect: what became of the first `queries` sent while the fault lasted, and the calls
    made meanwhile over all that were sent meanwhile.
    """
    section = RerankSettings.model_validate({"kind": dialect, "url": server.url})
    transport = Counted(http_transport())
    backend = Resilient(Endpoint("reranker", server.url, transport))
    reranker: Reranker = HttpReranker(backend, "stub", APIS[dialect], documents=section.documents)
    calls = EventLoopThread(Wakeup())
    loop = OpenLoop(calls.wakeup)
    run = Trial(server, fault, queries, transport, loop)
    flow = Dataflow("faults")
    bounds = Bounds(section.timeout, section.documents, section.calls)
    reranked = async_stage(
        "rerank",
        op.key_on("key", op.input("in", flow, Source(loop)), lambda _: KEY),
        Reranking(reranker, bounds),
        calls,
    )
    op.output("out", op.key_rm("batches", reranked), Sink(loop))
    # Else the garbage collector goes through all queries that wait to be sent, and everything stands still for 0.1 s.
    gc.collect()
    gc.freeze()
    with ThreadPoolExecutor(1) as driver:
        driven = driver.submit(run.drive)
        cli_main(flow)
        driven.result()
    gc.unfreeze()
    calls.run(reranker.aclose(), 10)
    calls.close()
    assert sorted(_offsets(each.query for each in loop.answers)) == _offsets(run.sent), "a query was lost, or doubled"
    return {
        "dialect": dialect,
        "fault": str(fault),
        **_answered(run.answers),
        "sent": run.queries,
        "calls": run.calls,
        "calls_per_query": round(run.calls / run.queries, 3),
        "kept": run.calls <= MOST_CALLS * run.queries,
        "back_after_ms": _ms(run.back),
    }


def _answered(answers: Sequence[Answer]) -> dict[str, Any]:
    latencies = sorted(each.at - (each.query.deadline - DEADLINE) for each in answers)
    return {
        "queries": len(answers),
        "statuses": dict(Counter(str(status_of(each.query.asked, each.query.outcome)) for each in answers)),
        "reasons": dict(Counter(str(reason) for each in answers for _, reason in each.query.outcome.degraded)),
        "p50_ms": _ms(percentile(latencies, 500)),
        "p99_ms": _ms(percentile(latencies, 990)),
        "latest_ms": _ms(latencies[-1]),
    }


def figures(queries: int = 600, dialects: Iterable[str] = DIALECTS) -> dict[str, Any]:
    """A row for each dialect and fault, of at least so many queries; `kept` says whether the promise was.

    `statuses` and `reasons` are what the answers say, latencies the stage's, from when a query was due to be sent;
    `back_after_ms` is the time from the fault's end to the first reranked answer, None if none came for 5 s.
    """
    with failing_reranker() as server:
        rows = [trial(server, dialect, fault, queries) for dialect in dialects for fault in Fault]
    return {"rate": RATE, "deadline_ms": 1000 * DEADLINE, "most_calls_per_query": MOST_CALLS, "rows": rows}


def _offsets(queries: Iterable[InFlight]) -> list[int]:
    return [query.message.origin.offset for query in queries]


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 1)
