"""all-MiniLM-L6-v2 as an embedder in this process: onnxruntime on the CPU, one worker thread."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from operators.clients.local import inference
from operators.clients.local.minilm import graph, weights
from operators.query.backend_answers import Embedding
from schemas.errors import ConfigError


class MiniLM:
    """An embedder that gives a vector and token vectors of 384 dimensions from the first 256 tokens of a text.

    `cache` is the directory that keeps the graph built from the weights, `threads` the number of cores a forward pass
    uses (all of them by default). Raises ConfigError if the published model isn't installed or `cache` can't
    be written.
    """

    def __init__(self, cache: Path, *, threads: int | None = None) -> None:
        tokenizer = weights.published(weights.model_file("tokenizer.json"), weights.TOKENIZER_SHA256)
        path = graph.cached(cache, lambda: weights.load(weights.model_file("model.safetensors")))
        self._tokenizer: Tokenizer = Tokenizer.from_buffer(tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(graph.MAX_TOKENS)
        try:
            self._session = inference.session(path, threads=inference.cores(threads), optimise=False)
        except Exception as error:
            raise ConfigError(f"embedder: {path} is no usable graph; delete it") from error
        self._worker = inference.Worker("embedder")

    @property
    def model(self) -> str:
        """The model's name."""
        return "all-MiniLM-L6-v2"

    async def embed(self, texts: Sequence[str], *, timeout: float) -> list[Embedding]:
        """Embed `texts` in their order, computed in the worker thread, first come first served.

        Raises BackendTimeout if that takes longer than `timeout` seconds; what has not begun by then is never computed.
        Raises BackendUnavailable after `aclose`.
        """
        wanted = tuple(texts)
        return await self._worker.run(lambda _: self.encode(wanted), timeout=timeout)

    async def aclose(self) -> None:
        """Let the worker thread finish the texts it has begun, and end it; what is queued is cancelled."""
        await self._worker.aclose()

    def encode(self, texts: Sequence[str]) -> list[Embedding]:
        """Embed `texts` in their order, in the calling thread.

        Any string is a text: an empty one has a vector and no tokens; a lone surrogate reads as a question mark.
        """
        readable = [inference.readable(text) for text in texts]
        token_ids: list[list[int]] = [found.ids for found in self._tokenizer.encode_batch_fast(readable)]
        embeddings: dict[int, Embedding] = {}
        for batch in inference.batches([len(ids) for ids in token_ids], inference.TOKEN_BUDGET):
            for index, hidden in zip(batch, self._forward([token_ids[index] for index in batch]), strict=True):
                embeddings[index] = _embedding(hidden, token_ids[index])
        return [embeddings[index] for index in range(len(texts))]

    def _forward(self, batch: list[list[int]]) -> Iterator[NDArray[np.float32]]:
        feeds = {"input_ids": inference.padded(batch), "attention_mask": inference.mask(batch)}
        (hidden,) = self._session.run(None, feeds)
        for row, token_ids in enumerate(batch):
            yield hidden[row, : len(token_ids)]


def _embedding(hidden: NDArray[np.float32], token_ids: list[int]) -> Embedding:
    # The first and the last row are the special tokens [CLS] and [SEP]: the model's pooling counts them.
    mean = hidden.mean(axis=0)
    words = hidden[1:-1]
    return Embedding(
        vector=mean / np.linalg.norm(mean),
        tokens=words / np.linalg.norm(words, axis=1, keepdims=True),
        token_ids=tuple(token_ids[1:-1]),
    )
