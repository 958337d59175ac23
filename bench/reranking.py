"""The worth of batching across queries: the rerank operator against the model in a plain loop, and against a request
a query.

Both are ratios of subjects measured in turn in one run. `in_process`: pairs a second of a cross-encoder of MiniLM's
shape under the operator, over those of the best plain loop around the same model. `pairs`: a server that takes 20 ms
and 0.1 ms a pair, one request at a time and at most 1,000 pairs in it, kept saturated by queries of 50 candidates, with
one query a request and with as many as fit.
"""

import math
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import onnxruntime
import orjson
from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import Source as AnySource
from bytewax.run import cli_main
from tokenizers import Tokenizer

from bench import random_bert
from bench.figures import percentile, spread
from bench.loops import ClosedLoop, Queries, Sink, Source
from bench.pair_server import pair_server
from bench.signals import SIGNALS
from flows.assembly.query import decoder
from operators.clients.http.backend import Resilient
from operators.clients.http.transport import Endpoint, http_transport
from operators.clients.local.cross_encoder import CrossEncoder
from operators.clients.local.inference import batches, mask, pad
from operators.clients.rerankers import Reranker
from operators.clients.rerankers.cross_encoders import APIS, HttpReranker
from operators.query.in_flight import InFlight
from operators.query.outcome import Results
from operators.ranking.candidate import Candidate
from operators.runtime.dispatcher import Bounds
from operators.runtime.event_loop import EventLoopThread, Wakeup
from operators.runtime.stage import KEY, async_stage
from operators.stages.rerank import Reranking
from operators.wire.message import Message, Origin
from schemas.settings import load

QUERIES: Final = 64
CANDIDATES: Final = 50
WORDS: Final = (5, 30)
VOCABULARY: Final = 30_522
BUDGETS: Final = (128, 256, 512, 1024, 2048)
MOST_PAIRS: Final = 1000
FOREVER: Final = math.inf


def queries(count: int, candidates: int = CANDIDATES, seed: int = 1) -> list[InFlight]:
    """Fetched queries of six words, their documents of 5 to 30, all of them different."""
    servers = {"kafka": {"bootstrap_servers": "127.0.0.1:1"}, "qdrant": {"url": "http://127.0.0.1:1"}}
    decode = decoder(load(None, servers), SIGNALS)
    chance = random.Random(seed)
    known = random_bert.words(VOCABULARY - 4)

    def text(length: int) -> str:
        return " ".join(chance.choices(known, k=length))

    made = []
    for number in range(count):
        asked = orjson.dumps({"query_id": f"q{number}", "text": text(6)})
        each = decode(Message(Origin("queries", 0, number, 1), None, asked, (), time.time(), time.time(), 0.0))
        each.deadline = FOREVER
        found = [Candidate(f"{number}-{place}", 1 - place / candidates) for place in range(candidates)]
        each.outcome.results = Results(found)
        each.outcome.payloads = {one.id: {"text": text(chance.randint(*WORDS))} for one in each.outcome.candidates}
        made.append(each)
    return made


class Operator:
    """The rerank operator between a source and a sink, over one reranker."""

    def __init__(self, reranker: Reranker, max_concurrency: int) -> None:
        self._reranking = Reranking(reranker, Bounds(FOREVER, 1, max_concurrency))

    def __call__(self, source: AnySource[Queries], sink: Any, calls: EventLoopThread) -> None:
        """Run until the source ends."""
        flow = Dataflow("reranking")
        reranked = async_stage(
            "rerank", op.key_on("key", op.input("in", flow, source), lambda _: KEY), self._reranking, calls
        )
        op.output("out", op.key_rm("batches", reranked), sink)
        cli_main(flow)


@dataclass(frozen=True)
class PlainLoop:
    """The best that a plain loop makes of the model: all pairs at hand, sorted by length, cut by the best budget."""

    session: Any
    tokenizer: Tokenizer
    budget: int

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The pairs' logits."""
        found = self.tokenizer.encode_batch_fast(list(pairs))
        logits = [0.0] * len(pairs)
        for batch in batches([len(each.ids) for each in found], self.budget):
            ids = [found[index].ids for index in batch]
            feeds = {
                "input_ids": pad(ids),
                "attention_mask": mask(ids),
                "token_type_ids": pad([found[index].type_ids for index in batch]),
            }
            (answer,) = self.session.run(None, feeds)
            for index, logit in zip(batch, answer.reshape(-1).tolist(), strict=True):
                logits[index] = logit
        return logits


def best_loop(directory: Path, pairs: Sequence[tuple[str, str]]) -> tuple[PlainLoop, dict[str, float]]:
    """The quickest of the plain loops, and pairs a second of each by its threads' spinning and its budget."""
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_padding()
    tried: dict[str, tuple[float, PlainLoop]] = {}
    for spinning in ("1", "0"):
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.intra_op.allow_spinning", spinning)
        session = onnxruntime.InferenceSession(directory / "model.onnx", options, providers=["CPUExecutionProvider"])
        for budget in BUDGETS:
            loop = PlainLoop(session, tokenizer, budget)
            loop(pairs[:50])
            taken = min(_seconds(partial(loop, pairs)) for _ in range(2))
            tried[f"spinning {spinning}, {budget} tokens"] = len(pairs) / taken, loop
    best = max(tried.values(), key=lambda each: each[0])[1]
    return best, {name: round(rate, 1) for name, (rate, _) in tried.items()}


def in_process(rounds: int) -> dict[str, Any]:
    """Pairs a second under the operator and in the best plain loop, and the median ratio of paired rounds."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch, "cross-encoder")
        random_bert.write(directory, layers=6, hidden=384, heads=12, vocabulary=VOCABULARY)
        asked = queries(QUERIES)
        pairs = [
            (each.asked.text or "", str(each.outcome.payloads[one.id]["text"]))
            for each in asked
            for one in each.outcome.candidates
        ]
        loop, tried = best_loop(directory, pairs[:600])
        encoder = CrossEncoder(directory)
        operator = Operator(encoder, 1)
        calls = EventLoopThread(Wakeup())
        answered: list[InFlight] = []

        made = [queries(QUERIES) for _ in range(rounds)]

        def operated() -> None:
            load = ClosedLoop(made.pop(), QUERIES, calls.wakeup)
            operator(Source(load), Sink(load), calls)
            answered.extend(load.answered)

        rates: dict[str, list[float]] = {"operator": [], "loop": []}
        subjects: dict[str, Callable[[], Any]] = {"operator": operated, "loop": lambda: loop(pairs)}
        for number in range(rounds):
            for name in list(subjects) if number % 2 else reversed(list(subjects)):
                rates[name].append(len(pairs) / _seconds(subjects[name]))
        calls.run(encoder.aclose(), 10)
        calls.close()
    assert all(each.outcome.rerank_scores for each in answered)
    ratios = [ours / theirs for ours, theirs in zip(rates["operator"], rates["loop"], strict=True)]
    return {
        "pairs": len(pairs),
        "loops_tried": tried,
        "loop": f"{loop.budget} tokens",
        "pairs_per_s": {name: spread(each) for name, each in rates.items()},
        "operator_over_loop": spread(ratios),
    }


def pairs(rounds: int, count: int, concurrency: int) -> dict[str, Any]:
    """Queries a second and latencies at saturation, one query a request and many, and their ratios."""
    rows: dict[str, list[dict[str, float]]] = {"one": [], "many": []}
    calls = EventLoopThread(Wakeup())
    with pair_server() as url:
        for number in range(rounds):
            for name in ("one", "many") if number % 2 else ("many", "one"):
                rows[name].append(_saturated(url, count, concurrency, calls, many=name == "many"))
    calls.close()
    both = list(zip(rows["many"], rows["one"], strict=True))
    return {
        "queries": count,
        "in_flight": concurrency,
        **{
            name: {figure: spread([each[figure] for each in found]) for figure in found[0]}
            for name, found in rows.items()
        },
        "throughput_many_over_one": spread([many["queries_per_s"] / one["queries_per_s"] for many, one in both]),
        "p99_many_over_one": spread([many["p99_ms"] / one["p99_ms"] for many, one in both]),
    }


def _saturated(url: str, count: int, concurrency: int, calls: EventLoopThread, *, many: bool) -> dict[str, float]:
    backend = Resilient(Endpoint("pairs", url, http_transport()))
    reranker = HttpReranker(backend, "stub", APIS["vllm_score"], documents=MOST_PAIRS)
    if not many:
        reranker.capacity = replace(reranker.capacity, queries=1)
    load = ClosedLoop(queries(count), concurrency, calls.wakeup)
    taken = _seconds(lambda: Operator(reranker, 2)(Source(load), Sink(load), calls))
    calls.run(reranker.aclose(), 10)
    latencies = sorted(load.latencies)
    assert len(latencies) == count
    assert all(each.outcome.rerank_scores for each in load.answered)
    return {
        "queries_per_s": count / taken,
        "p50_ms": 1000 * percentile(latencies, 500),
        "p99_ms": 1000 * percentile(latencies, 990),
    }


def figures(rounds: int) -> dict[str, Any]:
    """Both comparisons."""
    return {"rounds": rounds, "in_process": in_process(rounds), "pairs": pairs(rounds, 640, 128)}


def _seconds(subject: Callable[[], Any]) -> float:
    started = time.perf_counter()
    subject()
    return time.perf_counter() - started
