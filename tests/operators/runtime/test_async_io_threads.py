"""On which thread the asynchronous operator calls its arguments."""

import threading
from collections.abc import Iterable, Mapping, Sequence

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource, run_main

from operators.runtime.async_io import async_io
from operators.runtime.batching.policy import Waiting, Whole
from operators.runtime.dispatcher import BatchKey, Bounds, Finished
from tests.operators.runtime.test_async_io import looping


def test_every_argument_is_called_on_the_event_loop_thread() -> None:
    """The engine's worker calls none of them, so that none can hold it up."""
    seen: dict[str, set[str]] = {}

    def note(argument: str) -> None:
        seen.setdefault(argument, set()).add(threading.current_thread().name)

    def plan(item: int) -> Mapping[BatchKey, int]:
        note("plan")
        return {"a": item}

    async def call(_: BatchKey, queries: Sequence[int], __: float) -> Sequence[int]:
        note("call")
        return queries

    def deadline(_: int) -> float:
        note("deadline")
        return float("inf")

    class Noting(Whole[int, int]):
        def units(self, query: int) -> int:
            note("batching")
            return super().units(query)

        def select(self, waiting: Iterable[Waiting[int]]) -> Sequence[int]:
            note("batching")
            return super().select(waiting)

        def part(self, query: int, start: int, stop: int) -> int:
            note("batching")
            return super().part(query, start, stop)

        def merged(self, query: int, outcomes: Sequence[int]) -> int:
            note("batching")
            return super().merged(query, outcomes)

    out: list[list[Finished[int, int]]] = []
    with looping() as calls:
        flow = Dataflow("threads")
        up = op.input("in", flow, TestingSource([[1, 2], [3]]))
        done = async_io(
            "io", up, calls, plan, call, deadline, Bounds(30, 2, 1), Noting(2), lambda *_: note("in_flight")
        )
        op.output("out", done, TestingSink(out))
        run_main(flow)
    assert sorted(finished.item for batch in out for finished in batch) == [1, 2, 3]
    assert seen == {key: {"calls"} for key in ("plan", "deadline", "batching", "in_flight", "call")}
