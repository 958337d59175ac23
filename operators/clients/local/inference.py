"""Models in this process: an onnxruntime session, texts in passes of like length, and the one thread that runs them."""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from operators.clients.failures import OutageLog, at_deadline
from schemas.errors import BackendTimeout, BackendUnavailable

if TYPE_CHECKING:
    import onnxruntime

TOKEN_BUDGET = 256
"""Tokens of a forward pass, padding included: more of them run no faster, and the padding is lost."""

Result = TypeVar("Result")
Abandoned = Callable[[], bool]
"""True once nobody waits for the result: the request timed out or was cancelled."""


def cores(threads: int | None) -> int:
    """The number of cores that a model uses: `threads`, all of them by default."""
    return threads or os.cpu_count() or 1


def session(path: Path, *, threads: int, optimise: bool) -> "onnxruntime.InferenceSession":
    """Load the graph `path` for passes on `threads` cores; `optimise` is for one not written fused.

    Raises whatever onnxruntime raises for a file that it can't run.
    """
    # onnxruntime reports to its makers unless it is told not to before it is loaded.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimise else levels.ORT_DISABLE_ALL
    # Threads that spin after a forward pass take the cores from the event loop: 22 ms of CPU a query instead of 6.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Errors are raised as well, and lines of onnxruntime's own would be no log entries.
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def readable(text: str) -> str:
    """The text as UTF-8 can hold it: a lone surrogate reads as a question mark."""
    return text.encode(errors="replace").decode()


def batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Group the indices of texts of these `lengths` (tokens), longest first, so that padding stays small.

    A group's texts, each padded to its longest, have at most `budget` tokens together; a longer text is a group by
    itself.
    """
    group: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if group and (len(group) + 1) * lengths[group[0]] > budget:
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def pad(rows: Sequence[Sequence[int]], fill: int = 0) -> NDArray[np.int64]:
    """The rows as one array, each filled up at its end to the length of the longest."""
    table = np.full((len(rows), max(map(len, rows))), fill, np.int64)
    for index, row in enumerate(rows):
        table[index, : len(row)] = row
    return table


def mask(rows: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """1 where `pad` has a row's own number, 0 where it fills up."""
    lengths = np.array([len(row) for row in rows])
    return (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)


class Worker:
    """One thread that runs functions, first come first served; `name` identifies the worker in messages."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._log = OutageLog({"backend": name}, time.monotonic)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(self, work: Callable[[Abandoned], Result], *, timeout: float) -> Result:
        """Return what `work` returns, called in the thread with a function that tells whether the result is abandoned.

        Raises BackendTimeout if that takes longer than `timeout` seconds; work that has not begun by then never begins.
        Raises BackendUnavailable if `aclose` came before it began, and what `work` raises.
        """
        abandoned = threading.Event()
        started = time.monotonic()
        try:
            future = self._pool.submit(work, abandoned.is_set)
        except RuntimeError as error:
            raise BackendUnavailable(f"{self._name}: closed") from error
        try:
            async with asyncio.timeout(timeout):
                result = await asyncio.wrap_future(future)
        except TimeoutError as error:
            raise self._late() from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                if at_deadline(time.monotonic() - started, timeout):
                    self._late()
                raise
            # Not the caller was cancelled but the queue, by `aclose`.
            raise BackendUnavailable(f"{self._name}: closed") from None
        finally:
            abandoned.set()
        self._log.succeeded()
        return result

    async def aclose(self) -> None:
        """End the thread after the call that it has begun; queued calls are cancelled."""
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)

    def _late(self) -> BackendTimeout:
        error = BackendTimeout(f"{self._name}: no answer in time")
        self._log.failed(error)
        return error
