"""Models in this process: an onnxruntime session, texts in passes of like length, and the threads that run them.

A pass runs on one core, as many at a time as there are cores: cores that share a pass wait for each other at every step
of it.
"""

import asyncio
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from operators.clients.failures import OutageLog, at_deadline
from schemas.errors import BackendTimeout, BackendUnavailable

if TYPE_CHECKING:
    import onnxruntime
    from tokenizers import Encoding, Tokenizer

_SLOWER: Final = ("SkipLayerNormFusion",)
"""Optimisers of onnxruntime's whose operators take longer than those that they replace."""

TOKEN_BUDGET: Final = 256
"""Tokens of a forward pass, padding included: more of them run no faster, and the padding is lost."""

MARGIN: Final = 128
"""More tokens than a word has."""

_CHARS: Final = 16
"""Characters of a token that are far more than most have."""

_LEAST_BUDGET: Final = 64
"""Tokens of the smallest forward passes that are worth their own cost."""

_PADDING: Final = 1.05
"""Factor that padding adds to the tokens of a call, roughly."""

Result = TypeVar("Result")
Abandoned = Callable[[], bool]
"""True once nobody waits for the result: the request timed out or was cancelled."""

Forward = Callable[[list[int]], Sequence[Result]]
"""One pass: the results of the texts with these indices."""


class Cores:
    """The cores that models use, each for one pass at a time: `threads`, all of them by default.

    Tokenizers, which have threads of their own, use as many, unless the environment says another number.
    """

    def __init__(self, threads: int | None = None) -> None:
        if threads is not None:
            # Read when a tokenizer first needs threads; the environment may say another number.
            os.environ.setdefault("RAYON_NUM_THREADS", str(threads))
        self.count = threads or os.cpu_count() or 1
        self._free = self.count
        self._urgent = 0
        self._changed = threading.Condition()

    @contextmanager
    def one(self, *, urgent: bool) -> Iterator[None]:
        """Hold a core. Whoever is not `urgent` gets none while an urgent one waits."""
        with self._changed:
            self._urgent += urgent
            self._changed.wait_for(lambda: self._free and (urgent or not self._urgent))
            self._urgent -= urgent
            self._free -= 1
            if urgent and self._free and not self._urgent:
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._free += 1
                self._changed.notify_all()


def session(path: Path, *, optimise: bool, written: Path | None = None) -> "onnxruntime.InferenceSession":
    """Load the graph `path` for passes on one core each; `optimise` is for one not written fused.

    The optimised graph is `written` to a file, as far as it suits every processor. Raises what onnxruntime raises.
    """
    onnxruntime = runtime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimise else levels.ORT_DISABLE_ALL
    if written is not None:
        options.graph_optimization_level = levels.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(written)
        # Weights may lie in files next to the graph, and a copy elsewhere would not find them.
        weights = "session.optimized_model_external_initializers"
        options.add_session_config_entry(f"{weights}_file_name", f"{written.name}.weights")
        options.add_session_config_entry(f"{weights}_min_size_in_bytes", "0")
    # Errors are raised as well, and lines of onnxruntime's own would be no log entries.
    options.log_severity_level = 4
    providers, disabled = ["CPUExecutionProvider"], _SLOWER if optimise else None
    return onnxruntime.InferenceSession(path, options, providers=providers, disabled_optimizers=disabled)


def runtime() -> Any:
    """The package onnxruntime, loaded when it is needed."""
    # onnxruntime reports to its makers unless it is told not to before it is loaded.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    return onnxruntime


def tokenise(
    tokenizer: "Tokenizer", texts: Sequence[str], longest: int, *, special: bool, offsets: bool = False
) -> "list[Encoding]":
    """Tokenise texts of which the first `longest` tokens count; with `offsets`, each token has its place in the text.

    The `tokenizer` keeps `longest` + MARGIN tokens. Of a far longer text the end is not read, unless its beginning has
    fewer tokens: a cut changes the word alone that it goes through.
    """
    # Unlike `encode`, these let other threads run meanwhile.
    encode = tokenizer.encode_batch if offsets else tokenizer.encode_batch_fast
    whole = [readable(text) for text in texts]
    found = encode([text[: _CHARS * longest] for text in whole], add_special_tokens=special)
    for index, text in enumerate(whole):
        if len(text) > _CHARS * longest and len(found[index].ids) < longest + MARGIN:
            [found[index]] = encode([text], add_special_tokens=special)
    return found


def readable(text: str) -> str:
    """The text as UTF-8 can hold it: a lone surrogate reads as a question mark."""
    return text.encode(errors="replace").decode()


def batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Group the indices of texts of these `lengths` (tokens), longest first, so that padding stays small.

    The padded texts of a group have at most `budget` tokens together; a longer text is a group by itself.
    """
    group: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if group and (len(group) + 1) * lengths[group[0]] > budget:
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def plan_passes(lengths: Sequence[int], cores: int, *, alone: bool) -> list[list[int]]:
    """The passes for texts of these `lengths`: as many as keep all cores at work to the end.

    `alone`: each text has its own, as it must where the texts of a pass change each other's results.
    """
    padded = _PADDING * sum(lengths)
    rounds = max(1, math.ceil(padded / (TOKEN_BUDGET * cores)))
    budget = max(_LEAST_BUDGET, math.ceil(padded / (rounds * cores)))
    return list(batches(lengths, 0 if alone else budget))


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
    """A thread a core that runs functions, first come first served; `name` identifies the worker in messages.

    `urgent`: its passes begin before those of others.
    """

    def __init__(self, name: str, cores: Cores, *, urgent: bool = True) -> None:
        self._name = name
        self._cores = cores
        self._urgent = urgent
        self._log = OutageLog({"backend": name}, time.monotonic)
        self._pool = ThreadPoolExecutor(cores.count, thread_name_prefix=name)
        self._passes = ThreadPoolExecutor(cores.count, thread_name_prefix=f"{name}-pass")

    async def run(self, work: Callable[[Abandoned], Result], *, timeout: float) -> Result:
        """Return what `work` returns, which is called in a thread and can ask whether the result is abandoned.

        Raises BackendTimeout after `timeout` seconds; work that has not begun by then never begins. Raises
        BackendUnavailable if `aclose` came before it began, and what `work` raises.
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

    def forward_each(
        self, lengths: Sequence[int], forward: Forward[Result], abandoned: Abandoned, *, alone: bool
    ) -> list[Result]:
        """The results of texts of these `lengths`, in passes side by side, each on one core; see `plan_passes`.

        Raises BackendTimeout once the request is `abandoned`, and what `forward` raises.
        """

        def one(group: list[int]) -> Sequence[Result]:
            with self._cores.one(urgent=self._urgent):
                if abandoned():
                    raise BackendTimeout(f"{self._name}: the request was abandoned")
                return forward(group)

        groups = plan_passes(lengths, self._cores.count, alone=alone)
        passes = map(one, groups) if len(groups) == 1 else self._passes.map(one, groups)
        found = dict(zip(chain.from_iterable(groups), chain.from_iterable(passes), strict=True))
        return [found[index] for index in range(len(lengths))]

    async def aclose(self) -> None:
        """End the threads after the calls that they have begun; queued calls are cancelled."""
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)
        self._passes.shutdown(wait=False)

    def _late(self) -> BackendTimeout:
        error = BackendTimeout(f"{self._name}: no answer in time")
        self._log.failed(error)
        return error
