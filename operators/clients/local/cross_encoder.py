"""A cross-encoder in this process: a Hugging Face model exported to ONNX, run by onnxruntime on the CPU.

Pairs of many queries share forward passes, sorted by length and bounded by tokens; each pass runs on one core. A pair
goes alone where others would change its score, as in models of 8 bits. The score is the model's logit.

Repositories of models have files of 8 bits next to the one of 32, for kinds of processors: the one for this processor
is found. A file of 32 bits can be quantised here, once.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from tokenizers import Encoding, Tokenizer
from tokenizers.models import BPE

from operators.clients.local import inference, quantisation
from operators.clients.local.quantisation import Wanted
from operators.clients.rerankers import Capacity, RerankRequest
from operators.query.backend_answers import Scores
from schemas.errors import BackendBadResponse, BackendError, ConfigError

TYPES: Final = "token_type_ids"
"""The input that tells query from document, which not every architecture has."""

FROM_PADDING: Final = ("roberta", "camembert", "mpnet")
"""Architectures that count positions from the padding token's id + 1, so that many fewer are left for tokens."""

MOST_TOKENS: Final = 1024
"""Of a pair, whatever the model reads: the memory that a pass takes grows with the square of its tokens."""


_SAME: Final = 1e-4
"""Most that rounding changes a logit of 32 bits."""

Outcome = Scores | BackendError

PROBE: Final = (("a", "b"), ("a", "b c \N{REPLACEMENT CHARACTER}"))
"""Two pairs of two lengths with a word that no vocabulary has."""


class CrossEncoder:
    """A Reranker over the exported model in `directory`, after which it is named.

    A pair longer than the model reads, or than MOST_TOKENS, loses the end of its document; a query keeps at least half
    of that length. `file` names the graph in the directory or its folder onnx; without it one of the `precision` is
    found, and `int8` made if need be and kept in `cache`. A call carries at most `documents`. Raises ConfigError, which
    names the file, if the directory isn't such a model with one score a pair.
    """

    reads: Final = "text"

    def __init__(
        self,
        directory: Path,
        *,
        file: str | None = None,
        precision: Wanted = "auto",
        cache: Path | None = None,
        cores: inference.Cores | None = None,
        documents: int = 256,
    ) -> None:
        # Each query has a document, so this bounds the documents alone.
        self.capacity = Capacity(queries=documents, documents=documents)
        path, session, integers = _open(directory, file, precision, cache)
        self.model = f"{directory.resolve().name}:int8" if integers else directory.resolve().name
        self._exported = _Exported(directory, path, session)
        self._worker = inference.Worker("reranker", cores or inference.Cores())

    async def score(self, requests: Sequence[RerankRequest], *, timeout: float) -> list[Outcome]:
        """A request with a score that is NaN or infinite, or with a pair in a forward pass that failed, fails alone."""
        wanted = tuple(requests)
        return await self._worker.run(lambda abandoned: self._outcomes(wanted, abandoned), timeout=timeout)

    async def aclose(self) -> None:
        await self._worker.aclose()

    def _outcomes(self, requests: Sequence[RerankRequest], abandoned: inference.Abandoned) -> list[Outcome]:
        texts = [(request.query, text) for request in requests for text in request.documents.values()]
        pairs = self._exported.encode(texts)

        def forward(batch: list[int]) -> Sequence[float | BackendError]:
            try:
                return self._exported.forward([pairs[index] for index in batch])
            except BackendBadResponse as error:
                return [error] * len(batch)

        lengths = list(map(len, pairs))
        found = iter(self._worker.forward_each(lengths, forward, abandoned, alone=self._exported.alone))
        return [_outcome({id_: next(found) for id_ in request.documents}) for request in requests]


def _outcome(logits: dict[str, float | BackendError]) -> Outcome:
    scores: dict[str, float] = {}
    for id_, logit in logits.items():
        if isinstance(logit, BackendError):
            return logit
        scores[id_] = logit
    if not all(map(math.isfinite, scores.values())):
        return BackendBadResponse("reranker: a score that is not a finite number")
    return scores


class _Exported:
    """The model of an export's directory, whose graph is that of `path`: pairs of texts in, logits out."""

    def __init__(self, directory: Path, path: Path, session: Any) -> None:
        config = _parse(directory / "config.json")
        named = config.get("id2label")
        labels = len(named) if isinstance(named, dict) else config.get("num_labels", 1)
        if labels != 1:
            raise ConfigError(f"reranker: {directory / 'config.json'} tells of {labels} labels; a reranker has one")
        padding = config.get("pad_token_id")
        self._padding = padding if isinstance(padding, int) else 0
        self._tokenizer, self._longest = _tokenizer(directory, config, self._padding)
        # Adds the special tokens to a query and a document that were tokenised apart, and cuts what is too long.
        self._framer = Tokenizer(BPE())
        self._framer.post_processor = self._tokenizer.post_processor
        # Cuts the longer text alone while the other has no more than half: a query of that length is never cut.
        self._framer.enable_truncation(self._longest, strategy="longest_first")
        self._session = session
        # onnxruntime keeps none of a pass's memory: a few long pairs would hold hundreds of MB for good.
        self._options = inference.runtime().RunOptions()
        self._options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        self._inputs = {each.name for each in session.get_inputs()}
        outputs = [each.name for each in session.get_outputs()]
        self._output = outputs[0] if len(outputs) == 1 else "logits"
        # A first pass shows what the files don't say: other inputs and outputs among it.
        try:
            probe = self.encode(PROBE)
        except Exception as error:
            raise ConfigError(f"reranker: {directory / 'tokenizer.json'} can't tokenise a pair: {error}") from error
        try:
            together, alone = self.forward(probe)[:1], self.forward(probe[:1])
        except BackendBadResponse as error:
            what = error.__cause__ or str(error).removeprefix("reranker: ")
            raise ConfigError(f"reranker: {path} fails in a first forward pass: {what}") from error
        self.alone = not np.allclose(together, alone, rtol=_SAME, atol=_SAME, equal_nan=True)
        """True if a pair's score changes with the others of its pass."""

    def encode(self, pairs: Sequence[tuple[str, str]]) -> list[Encoding]:
        """Tokenise pairs of a query and a document, each query once."""
        distinct = list(dict.fromkeys(query for query, _ in pairs))
        queries = dict(zip(distinct, self._tokenise(distinct), strict=True))
        texts = self._tokenise([text for _, text in pairs])
        return [self._framer.post_process(queries[query], text) for (query, _), text in zip(pairs, texts, strict=True)]

    def _tokenise(self, texts: Sequence[str]) -> list[Encoding]:
        return inference.tokenise(self._tokenizer, texts, self._longest, special=False)

    def forward(self, pairs: Sequence[Encoding]) -> list[float]:
        """One pass: the pairs' logits. Raises BackendBadResponse, whose cause may tell of the pairs, if it fails."""
        ids = [pair.ids for pair in pairs]
        feeds = {"input_ids": inference.pad(ids, self._padding), "attention_mask": inference.mask(ids)}
        if TYPES in self._inputs:
            feeds[TYPES] = inference.pad([pair.type_ids for pair in pairs])
        try:
            (logits,) = self._session.run([self._output], feeds, self._options)
        except Exception as error:
            raise BackendBadResponse(f"reranker: a forward pass failed: {type(error).__name__}") from error
        if logits.shape not in ((len(pairs),), (len(pairs), 1)):
            raise BackendBadResponse(f"reranker: logits of shape {logits.shape} for {len(pairs)} pairs")
        scores: list[float] = logits.reshape(-1).tolist()
        return scores


def _parse(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"reranker: {path} is not JSON") from error
    if not isinstance(content, dict):
        raise ConfigError(f"reranker: {path} is no JSON object")
    return content


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"reranker: {path} can't be read: {error.strerror}") from error


def _tokenizer(directory: Path, config: dict[str, Any], padding: int) -> tuple[Tokenizer, int]:
    """The tokenizer, and how many tokens the model reads."""
    path = directory / "tokenizer.json"
    content = _read(path)
    try:
        tokenizer = Tokenizer.from_buffer(content)
    except Exception as error:
        raise ConfigError(f"reranker: {path} is no tokenizer: {error}") from error
    longest = _longest(directory, config, padding)
    if longest < tokenizer.num_special_tokens_to_add(True) + 2:
        raise ConfigError(f"reranker: {directory / 'config.json'} leaves {longest} tokens for a query and a document")
    tokenizer.no_padding()
    tokenizer.enable_truncation(longest + inference.MARGIN)
    return tokenizer, longest


def _longest(directory: Path, config: dict[str, Any], padding: int) -> int:
    """Tokens of a pair: the model's positions and its tokenizer both bound them, and so does MOST_TOKENS."""
    positions = config.get("max_position_embeddings")
    allowed = []
    if isinstance(positions, int) and positions > 0:
        counted_from = padding + 1 if any(name in str(config.get("model_type")) for name in FROM_PADDING) else 0
        allowed.append(positions - counted_from)
    path = directory / "tokenizer_config.json"
    limit = _parse(path).get("model_max_length") if path.exists() else None
    # For "no limit" the libraries write 10^30.
    if isinstance(limit, int) and 0 < limit < 10**9:
        allowed.append(limit)
    if not allowed:
        neither = f"neither max_position_embeddings in {directory / 'config.json'} nor model_max_length in {path}"
        raise ConfigError(f"reranker: {neither} says how many tokens the model reads")
    return min(*allowed, MOST_TOKENS)


def _open(directory: Path, file: str | None, precision: Wanted, cache: Path | None) -> tuple[Path, Any, bool]:
    """The file and session of the graph, which is made if need be, and whether its products are of integers."""
    path = _find(directory, file, precision)
    files, integers = quantisation.inspect_graph(path)
    if precision == "int8" and cache is not None and not integers:
        return path, quantisation.open_quantised(files, cache, directory.resolve().name), True
    return path, quantisation.open_graph(path), integers


def _find(directory: Path, file: str | None, precision: Wanted) -> Path:
    if not directory.is_dir():
        raise ConfigError(f"reranker: {directory} is no directory")
    integers = quantisation.chosen(precision) == "int8"
    names = [file] if file is not None else [*(quantisation.quantised_names() if integers else ()), "model.onnx"]
    candidates = [folder / name for name in names for folder in (directory, directory / "onnx")]
    found = next((path for path in candidates if path.is_file()), None)
    if found is None:
        raise ConfigError(f"reranker: neither {candidates[-2]} nor {candidates[-1]} is there")
    return found
