"""On which thread the asynchronous operator calls its arguments."""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from operators.runtime.batching.policy import Waiting, Whole
from operators.runtime.dispatcher import BatchKey, Bounds, Load
from operators.runtime.stage import async_stage
from tests.operators.runtime.flowing import Asking, Finished, items
from tests.operators.runtime.test_async_stage import looping


@dataclass(frozen=True)
class Number:
    """An item."""

    number: int
    answered: bool = False


def test_every_argument_is_called_on_the_thread_that_is_promised() -> None:
    """The engine's worker calls what makes requests and takes outcomes over, and none that could hold it up."""
    seen: dict[str, set[str]] = {}

    def note(argument: str) -> None:
        seen.setdefault(argument, set()).add(threading.current_thread().name)

    def plan(item: Number) -> tuple[BatchKey, int]:
        note("plan")
        return "a", item.number

    async def call(_: BatchKey, queries: Sequence[int], __: float) -> Sequence[int]:
        note("call")
        return queries

    def deadline(_: Number) -> float:
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

        def combine(self, query: int, outcomes: Sequence[int]) -> int:
            note("batching")
            return super().combine(query, outcomes)

    class Noted(Asking):
        def on_result(self, item: Number, outcome: int) -> Finished[int]:
            note("on_result")
            return Finished(item, outcome)

    load = Load(*[lambda _, name=name: note(name) for name in ("units", "queued", "under_way")])

    with looping() as calls:
        left = items(
            [[Number(1), Number(2)], [Number(3)]],
            lambda up: async_stage(
                "noted", up, Noted(plan, call, Bounds(30, 2, 1), deadline, policy=Noting(2), load=load), calls
            ),
        )
    assert sorted(finished.item.number for finished in left) == [1, 2, 3]
    worker = threading.current_thread().name
    assert seen.pop("on_result") == seen.pop("plan") == {worker}
    assert seen == {key: {"calls"} for key in ("deadline", "batching", "units", "queued", "under_way", "call")}
