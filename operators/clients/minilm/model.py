"""all-MiniLM-L6-v2 as an embedder in this process: onnxruntime on the CPU, one worker thread."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from operators.clients.embedders import Embedding
from operators.clients.minilm import graph, weights
from schemas.errors import BackendTimeout, BackendUnavailable, ConfigError

# onnxruntime reports to its makers unless it is told not to before it is loaded.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import onnxruntime

TOKEN_BUDGET = 256
"""Tokens of a forward pass, padding included: more of them run no faster, and the padding is lost."""


class MiniLM:
    """An embedder that gives a vector and token vectors of 384 dimensions from the first 256 tokens of a text.

    `cache` is the directory that keeps the graph built from the weights, `threads` the number of cores a forward pass
    uses (all of them by default). Raises ConfigError if the weights aren't installed or `cache` can't be written.
    """

    def __init__(self, cache: Path, *, threads: int | None = None) -> None:
        tokenizer = weights.model_file("tokenizer.json")
        path = graph.cached(cache, lambda: weights.load(weights.model_file("model.safetensors")))
        self._tokenizer: Tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(graph.MAX_TOKENS)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or os.cpu_count() or 1
        # The graph is written fused: optimising it would only make the start slower.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        # Threads that spin after a forward pass take the cores from the event loop: 22 ms of CPU a query instead of 6.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise ConfigError(f"embedder: {path} is no usable graph; delete it") from error
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="minilm")

    @property
    def model(self) -> str:
        """The model's name."""
        return "all-MiniLM-L6-v2"

    async def embed(self, texts: Sequence[str], *, timeout: float) -> list[Embedding]:
        """Embed `texts` in their order, computed in the worker thread, first come first served.

        Raises BackendTimeout if that takes longer than `timeout` seconds; what has not begun by then is never computed.
        Raises BackendUnavailable after `aclose`.
        """
        try:
            work = self._worker.submit(self.encode, tuple(texts))
        except RuntimeError as error:
            raise BackendUnavailable("embedder: closed") from error
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.wrap_future(work)
        except TimeoutError as error:
            raise BackendTimeout("embedder: no answer in time") from error

    async def aclose(self) -> None:
        """Let the worker thread finish the texts it has begun, and end it; what is queued is cancelled."""
        await asyncio.to_thread(self._worker.shutdown, cancel_futures=True)

    def encode(self, texts: Sequence[str]) -> list[Embedding]:
        """Embed `texts` in their order, in the calling thread.

        Any string is a text: an empty one has a vector and no tokens; a lone surrogate reads as a question mark.
        """
        readable = [text.encode(errors="replace").decode() for text in texts]
        pieces: list[list[int]] = [found.ids for found in self._tokenizer.encode_batch_fast(readable)]
        embeddings: dict[int, Embedding] = {}
        for batch in batches([len(ids) for ids in pieces], TOKEN_BUDGET):
            for index, hidden in zip(batch, self._forward([pieces[index] for index in batch]), strict=True):
                embeddings[index] = _embedding(hidden, pieces[index])
        return [embeddings[index] for index in range(len(texts))]

    def _forward(self, batch: list[list[int]]) -> Iterator[NDArray[np.float32]]:
        shape = (len(batch), max(map(len, batch)))
        ids = np.zeros(shape, np.int64)
        mask = np.zeros(shape, np.int64)
        for row, pieces in enumerate(batch):
            ids[row, : len(pieces)] = pieces
            mask[row, : len(pieces)] = 1
        (hidden,) = self._session.run(None, {"input_ids": ids, "attention_mask": mask})
        for row, pieces in enumerate(batch):
            yield hidden[row, : len(pieces)]


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


def _embedding(hidden: NDArray[np.float32], pieces: list[int]) -> Embedding:
    # The first and the last row are the special tokens [CLS] and [SEP]: the model's pooling counts them.
    mean = hidden.mean(axis=0)
    words = hidden[1:-1]
    return Embedding(
        vector=mean / np.linalg.norm(mean),
        tokens=words / np.linalg.norm(words, axis=1, keepdims=True),
        pieces=tuple(pieces[1:-1]),
    )
