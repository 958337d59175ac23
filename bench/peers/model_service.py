"""The hand-written service with its models in the process: it embeds, asks Qdrant's engine, reranks, and answers.

Models run in onnxruntime, a pass a thread and as many threads as cores, so that the loop goes on. One request to the
engine does what it can: both legs, reciprocal rank fusion, and with late interaction the comparison of token vectors.
A cross-encoder gets a query's pairs in batches of like length, as sentence-transformers makes them. Nothing is cached,
and no two queries share a pass.
"""

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnxruntime
import orjson
import qdrant_edge as edge
import uvloop
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from bench.peers.asyncio_service import BadQuery, Service
from bench.peers.process import Place

NO_MODEL: Final = "none"

_BATCH: Final = 32
"""Pairs of a pass."""

_QUERY_TOKENS: Final = 256
_PAIR_TOKENS: Final = 512
_K: Final = 60


@dataclass(frozen=True, slots=True)
class ModelPlace(Place):
    """A peer's surroundings with models: the engine's shard, the graph and tokenizer of MiniLM, the directory of a
    cross-encoder or NO_MODEL for late interaction, and the candidates of a leg, as many of which are reranked.
    """

    shard: str
    graph: str
    tokenizer: str
    cross_encoder: str
    candidates: int


class Embedder:
    """MiniLM: a vector of the text, and one of each token."""

    def __init__(self, graph: str, tokenizer: str) -> None:
        self._session = _session(graph)
        self._tokenizer = _tokenizer(tokenizer, _QUERY_TOKENS)

    def embed(self, text: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Embed one text in one pass."""
        ids = np.array([self._tokenizer.encode(text).ids], np.int64)
        ((hidden,),) = self._session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
        mean, tokens = hidden.mean(axis=0), hidden[1:-1]
        return mean / np.linalg.norm(mean), tokens / np.linalg.norm(tokens, axis=1, keepdims=True)


class CrossEncoder:
    """A cross-encoder that was exported to a directory."""

    def __init__(self, directory: str) -> None:
        self._session = _session(f"{directory}/model.onnx")
        self._tokenizer = _tokenizer(f"{directory}/tokenizer.json", _PAIR_TOKENS)

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """The logit of each text."""
        pairs = self._tokenizer.encode_batch([(query, text) for text in texts])
        order = sorted(range(len(pairs)), key=lambda index: -len(pairs[index].ids))
        scores = [0.0] * len(pairs)
        for start in range(0, len(order), _BATCH):
            batch = order[start : start + _BATCH]
            logits = self._session.run(None, _feeds([pairs[index] for index in batch]))[0]
            for index, logit in zip(batch, logits.reshape(-1).tolist(), strict=True):
                scores[index] = logit
        return scores


class ModelAnswers:
    """Answers of the models and the engine in this process."""

    def __init__(self, place: ModelPlace) -> None:
        self._candidates = place.candidates
        self._shard = edge.EdgeShard.load(place.shard)
        self._terms = edge.Bm25()
        self._embedder = Embedder(place.graph, place.tokenizer)
        self._reranker = CrossEncoder(place.cross_encoder) if place.cross_encoder != NO_MODEL else None
        self._pool = ThreadPoolExecutor(os.cpu_count())

    async def answer(self, value: bytes) -> dict[str, Any]:
        query_id, text, namespace, limit = read(value)
        loop = asyncio.get_running_loop()
        vector, tokens = await loop.run_in_executor(self._pool, self._embedder.embed, text)
        fused = self._legs(text, vector, namespace)
        if self._reranker is None:
            if len(tokens):
                fused = edge.Query.Nearest(tokens.tolist(), "tokens"), [_prefetch(self._candidates, *fused)]
            hits = self._search(limit, *fused)
            scores = [hit.score for hit in hits]
        else:
            hits = self._search(self._candidates, *fused)
            texts = [_content(hit.payload or {}) for hit in hits]
            scores = await loop.run_in_executor(self._pool, self._reranker.score, text, texts)
        best = sorted(zip(scores, hits, strict=True), key=lambda each: -each[0])[:limit]
        results = [
            {"id": payload.pop("id"), "score": score, "payload": payload}
            for score, hit in best
            for payload in [dict(hit.payload or {})]
        ]
        return {"query_id": query_id, "status": "ok", "results": results}

    async def aclose(self) -> None:
        self._pool.shutdown()
        self._shard.close()

    def _legs(self, text: str, vector: NDArray[np.float32], namespace: str) -> tuple[Any, list[edge.Prefetch]]:
        """Both legs, and their fusion."""
        own = edge.Filter(must=[edge.FieldCondition("namespace", match=edge.MatchValue(namespace))])
        legs = [
            edge.Query.Nearest(vector.tolist(), "dense"),
            edge.Query.Nearest(self._terms.embed_query(text), "bm25"),
        ]
        return edge.Fusion.Rrf(_K), [edge.Prefetch(self._candidates, query=leg, filter=own) for leg in legs]

    def _search(self, limit: int, query: Any, prefetches: list[edge.Prefetch]) -> list[edge.ScoredPoint]:
        wanted = edge.PayloadSelector.Include(["id", "title", "text"])
        return self._shard.query(edge.QueryRequest(limit, query=query, prefetches=prefetches, with_payload=wanted))


def read(value: bytes) -> tuple[str, str, str, int]:
    """The id, text, namespace and limit of a query event. Raises BadQuery."""
    try:
        event = orjson.loads(value)
        query_id, text, limit = event["query_id"], event["text"], event["limit"]
        namespace = event.get("namespace", "default")
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise BadQuery(f"{type(error).__name__}: {error}") from error
    if not (all(isinstance(each, str) for each in (query_id, text, namespace)) and isinstance(limit, int)):
        raise BadQuery("query_id, text and namespace are strings, and limit is an integer")
    return query_id, text, namespace, limit


def _prefetch(limit: int, query: Any, prefetches: list[edge.Prefetch]) -> edge.Prefetch:
    return edge.Prefetch(limit, query=query, prefetches=prefetches)


def _content(payload: dict[str, Any]) -> str:
    return "\n".join(payload[field] for field in ("title", "text") if payload.get(field))


def _session(graph: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    # The pool has a thread a core.
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _tokenizer(path: str, longest: int) -> Tokenizer:
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_padding()
    tokenizer.enable_truncation(longest)
    return tokenizer


def _feeds(pairs: Sequence[Encoding]) -> dict[str, NDArray[np.int64]]:
    """The inputs of a pass, padded to the longest pair."""
    shape = len(pairs), max(len(pair.ids) for pair in pairs)
    names = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
    feeds = {name: np.zeros(shape, np.int64) for name in names}
    for row, pair in enumerate(pairs):
        for name, attribute in names.items():
            feeds[name][row, : len(pair.ids)] = getattr(pair, attribute)
    return feeds


async def serve(place: ModelPlace) -> None:
    """Answer until told to end."""
    await Service(place, ModelAnswers(place)).run()


if __name__ == "__main__":
    uvloop.run(serve(ModelPlace.given()))
