"""The rules that models in this process share: passes of like length, padding, and the worker thread."""

import asyncio
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from structlog.testing import capture_logs

from operators.clients.local.inference import (
    Abandoned,
    Cores,
    Worker,
    batches,
    mask,
    pad,
    plan_passes,
    readable,
    session,
)
from schemas.errors import BackendTimeout, BackendUnavailable
from tests.operators.delivery.scripted import until

TASKS = Path("/proc/self/task")
TOKENISING = """
import sys
from pathlib import Path
from operators.clients.local.inference import Cores, tokenise
from tokenizers import Tokenizer, models

Cores(int(sys.argv[1]) if sys.argv[1:] else None)
before = len([*Path("/proc/self/task").iterdir()])
tokenise(Tokenizer(models.BPE()), ["some text"] * 1000, 8, special=False)
print(len([*Path("/proc/self/task").iterdir()]) - before)
"""

ROWS = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=9), min_size=1, max_size=9)


@pytest.mark.skipif(not TASKS.exists(), reason="the system doesn't tell which threads a process has")
@pytest.mark.parametrize(("threads", "own", "expected"), [(1, None, 1), (3, None, 3), (3, "2", 2), (None, "4", 4)])
def test_a_tokenizer_has_as_many_threads_as_models(threads: int | None, own: str | None, expected: int) -> None:
    """Those that are configured, unless the environment says a number of its own."""
    environment = {key: value for key, value in os.environ.items() if key != "RAYON_NUM_THREADS"}
    if own is not None:
        environment["RAYON_NUM_THREADS"] = own
    words = [sys.executable, "-c", TOKENISING, *([str(threads)] if threads is not None else [])]
    found = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert int(found.stdout) == expected


@given(st.lists(st.integers(2, 256)), st.integers(1, 1024))
def test_batches_hold_every_text_once_within_the_budget(lengths: list[int], budget: int) -> None:
    """Grouping loses and repeats nothing, and only a text over the budget by itself exceeds it."""
    groups = list(batches(lengths, budget))
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    for group in groups:
        padded_tokens = len(group) * max(lengths[index] for index in group)
        assert padded_tokens <= budget or len(group) == 1


@given(st.lists(st.integers(2, 256)), st.integers(1, 1024))
def test_batches_go_from_long_to_short_and_none_could_take_the_next(lengths: list[int], budget: int) -> None:
    """The lengths never rise over the passes, and a pass ends only where another text would break its budget."""
    groups = [[lengths[index] for index in group] for group in batches(lengths, budget)]
    joined = [length for group in groups for length in group]
    assert joined == sorted(lengths, reverse=True)
    assert all((len(group) + 1) * group[0] > budget for group in groups[:-1])


@given(st.lists(st.integers(2, 256)), st.integers(1, 8))
def test_texts_that_go_alone_have_a_pass_each(lengths: list[int], cores: int) -> None:
    """None of them is padded; others fill the cores with passes of which none is over the budget."""
    assert sorted(plan_passes(lengths, cores, alone=True)) == [[index] for index in range(len(lengths))]
    shared = plan_passes(lengths, cores, alone=False)
    assert sorted(index for group in shared for index in group) == list(range(len(lengths)))
    assert all(len(group) * max(lengths[index] for index in group) <= 270 for group in shared if len(group) > 1)


@given(ROWS, st.integers(10, 12))
def test_padding_is_told_from_what_was_given(rows: list[list[int]], fill: int) -> None:
    """The rows' own numbers stand in their order where the mask is 1, and the filling everywhere else."""
    table, own = pad(rows, fill), mask(rows)
    assert table.shape == own.shape == (len(rows), max(map(len, rows)))
    assert table.dtype == own.dtype == np.int64
    assert [table[index][own[index] == 1].tolist() for index in range(len(rows))] == rows
    assert (table[own == 0] == fill).all()
    assert (np.diff(own, axis=1) <= 0).all()


@given(st.text())
def test_a_text_without_lone_surrogates_is_read_as_it_is(text: str) -> None:
    """Only what UTF-8 can't hold is replaced."""
    assert readable(text) == text
    assert readable(f"{text}\ud83d") == f"{text}?"


class Step:
    """Work that begins, and ends when it is let."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.let = threading.Event()
        self.abandoned: bool | None = None

    def __call__(self, abandoned: Abandoned) -> str:
        """Wait to be let go on, and notice whether somebody still waits then."""
        self.begun.set()
        assert self.let.wait(10)
        self.abandoned = abandoned()
        return "done"

    async def beginning(self) -> None:
        """Wait until it has begun."""
        assert await asyncio.to_thread(self.begun.wait, 10)


def test_work_in_the_thread_leaves_the_loop_free() -> None:
    """The loop turns while work is under way, work is not told that it is abandoned, and its result comes back."""

    async def scenario() -> None:
        worker, step = Worker("model", Cores(1)), Step()
        task = asyncio.create_task(worker.run(step, timeout=60))
        await step.beginning()
        assert not task.done()
        step.let.set()
        assert await task == "done"
        assert step.abandoned is False
        await worker.aclose()

    asyncio.run(scenario())


def test_one_thing_at_a_time_in_the_order_of_coming() -> None:
    """Work queues behind what is under way: one thread does all of it."""

    async def scenario() -> None:
        worker, first = Worker("model", Cores(1)), Step()
        order: list[tuple[int, str]] = []

        def note(number: int, _: Abandoned) -> str:
            order.append((number, threading.current_thread().name))
            return "noted"

        tasks = [asyncio.create_task(worker.run(first, timeout=60))]
        await first.beginning()
        for number in range(5):
            tasks.append(asyncio.create_task(worker.run(partial(note, number), timeout=60)))
            await asyncio.sleep(0)
        await asyncio.sleep(0.02)
        assert order == []
        first.let.set()
        await asyncio.gather(*tasks)
        assert [number for number, _ in order] == list(range(5))
        assert len({name for _, name in order}) == 1
        await worker.aclose()

    asyncio.run(scenario())


def test_a_timeout_tells_work_under_way_and_drops_what_has_not_begun() -> None:
    """Both calls are BackendTimeout; the first work sees that it is abandoned, the second never begins."""

    async def scenario() -> None:
        worker, first, second = Worker("model", Cores(1)), Step(), Step()
        begun = asyncio.create_task(worker.run(first, timeout=4))
        await first.beginning()
        queued = asyncio.create_task(worker.run(second, timeout=0.05))
        for call in (queued, begun):
            with pytest.raises(BackendTimeout, match="model: no answer in time"):
                await call
        first.let.set()
        second.let.set()
        assert await worker.run(lambda _: "later", timeout=60) == "later"
        assert first.abandoned is True
        assert not second.begun.is_set()
        await worker.aclose()

    asyncio.run(scenario())


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_model_that_is_late_is_one_warning_and_its_end(cancelled: bool) -> None:
    """However many requests are late in a minute, also those whose caller stops waiting then: one line, and its end."""

    async def late(worker: Worker) -> None:
        request = worker.run(lambda _: None, timeout=0.05)
        if cancelled:
            task = asyncio.create_task(request)
            await asyncio.sleep(0.049)
            task.cancel()
            await asyncio.wait([task])
        else:
            with pytest.raises(BackendTimeout):
                await request

    async def scenario() -> None:
        worker, first = Worker("model", Cores(1)), Step()
        busy = asyncio.create_task(worker.run(first, timeout=60))
        await first.beginning()
        for _ in range(3):
            await late(worker)
        first.let.set()
        await busy
        await worker.run(lambda _: None, timeout=60)
        await worker.aclose()

    with capture_logs() as lines:
        asyncio.run(scenario())
    failing, *same, well = lines
    assert same == [failing] * 2
    error = "model: no answer in time"
    told = {"backend": "model", "reason": "timeout", "count": 1, "error": error}
    assert failing == {"event": "backend is failing", "log_level": "warning", **told}
    del well["after_s"], told["error"]
    assert well == {"event": "backend is well again", "log_level": "info", **told, "count": 3}


def test_cancelling_tells_work_under_way_and_drops_what_has_not_begun() -> None:
    """A cancelled caller is cancelled, not failed; its work is abandoned or never begins."""

    async def scenario() -> None:
        worker, first, second = Worker("model", Cores(1)), Step(), Step()
        calls = [asyncio.create_task(worker.run(step, timeout=60)) for step in (first, second)]
        await first.beginning()
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        assert all(call.cancelled() for call in calls)
        first.let.set()
        second.let.set()
        await worker.run(lambda _: None, timeout=60)
        assert first.abandoned is True
        assert not second.begun.is_set()
        await worker.aclose()

    asyncio.run(scenario())


def test_a_query_waits_for_no_queued_documents() -> None:
    """However many passes of documents wait for the core, an urgent pass has it as soon as one ends."""
    cores, order = Cores(1), list[str]()
    begun, let = threading.Event(), threading.Event()

    def holds(name: str, urgent: bool) -> None:
        with cores.one(urgent=urgent):
            begun.set()
            assert let.wait(10)
            order.append(name)

    threads = [threading.Thread(target=holds, args=("first", False))]
    threads[0].start()
    assert begun.wait(10)
    for name in ("document", "document", "document", "query"):
        threads.append(threading.Thread(target=holds, args=(name, name == "query")))
        threads[-1].start()
    until(lambda: len(cores._changed._waiters) == 4)  # type: ignore[attr-defined]
    let.set()
    for thread in threads:
        thread.join()
    assert order == ["first", "query", "document", "document", "document"]


@pytest.mark.parametrize("threads", [1, 3])
def test_no_more_passes_than_cores_are_under_way(threads: int) -> None:
    """Workers that share the cores have as many passes under way as there are cores, and each pass is done once."""
    cores = Cores(threads)
    workers = [Worker("model", cores), Worker("model", cores, urgent=False)]
    lock, running, most, done = threading.Lock(), set[int](), [0], list[int]()

    def forward(number: int) -> list[int]:
        with lock:
            running.add(number)
            most[0] = max(most[0], len(running))
        threading.Event().wait(0.001)
        with lock:
            running.remove(number)
            done.append(number)
        return [number]

    async def scenario() -> None:
        def work(worker: Worker, start: int) -> Any:
            def passes(abandoned: Abandoned) -> list[int]:
                return worker.forward_each([1] * 20, lambda group: forward(start + group[0]), abandoned, alone=True)

            return worker.run(passes, timeout=60)

        await asyncio.gather(*(work(worker, 20 * number) for number, worker in enumerate(workers)))
        for worker in workers:
            await worker.aclose()

    asyncio.run(scenario())
    assert most == [threads]
    assert sorted(done) == list(range(40))


def test_closing_lets_work_end_and_fails_the_queue() -> None:
    """A call that has begun is answered; waiting and later calls are BackendUnavailable; the thread is gone."""

    async def scenario() -> None:
        worker, first, second = Worker("model", Cores(1)), Step(), Step()
        begun, queued = (asyncio.create_task(worker.run(step, timeout=60)) for step in (first, second))
        await first.beginning()
        closing = asyncio.create_task(worker.aclose())
        with pytest.raises(BackendUnavailable, match="model: closed"):
            await queued
        assert not closing.done()
        first.let.set()
        assert await begun == "done"
        await closing
        with pytest.raises(BackendUnavailable, match="model: closed"):
            await worker.run(lambda _: None, timeout=60)
        assert not second.begun.is_set()

    before = set(threading.enumerate())
    asyncio.run(scenario())
    assert set(threading.enumerate()) <= before


def test_what_work_raises_is_raised() -> None:
    """An error of the work's own reaches the caller as it is, and the thread lives on."""

    def broken(_: Abandoned) -> None:
        raise ZeroDivisionError

    async def scenario() -> int:
        worker = Worker("model", Cores(1))
        with pytest.raises(ZeroDivisionError):
            await worker.run(broken, timeout=60)
        answer = await worker.run(lambda _: 7, timeout=60)
        await worker.aclose()
        return answer

    assert asyncio.run(scenario()) == 7


def test_sums_and_norms_stay_apart(tmp_path: Path) -> None:
    """onnxruntime makes one operator of them where it optimises, unless it is told not to: that takes longer."""
    entry, residual, output = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, 8]) for name in ("entry", "residual", "output")
    )
    nodes = [
        helper.make_node("Add", ["entry", "residual"], ["sum"]),
        helper.make_node("LayerNormalization", ["sum", "gamma", "beta"], ["output"]),
    ]
    vectors = [numpy_helper.from_array(np.ones(8, np.float32), name) for name in ("gamma", "beta")]
    graph = helper.make_graph(nodes, "sum and norm", [entry, residual], [output], vectors)
    path = tmp_path / "model.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )
    session(path, optimise=True, written=tmp_path / "optimised.onnx")
    optimised = onnx.load(tmp_path / "optimised.onnx")
    assert [node.op_type for node in optimised.graph.node] == ["Add", "LayerNormalization"]
