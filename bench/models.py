"""The models in this process, each beside a plain loop around the same model, measured in turn in one run.

Tokens, documents and queries are counted over CPU seconds, so that what else the machine does changes little: a rate is
that of one core. The plain loop embeds with the 32-bit graph in batches of like length; its batches and its threads'
spinning are the best of those tried. It writes no index, and so do the documents of the flow's row.
"""

import itertools
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
from matplotlib.figure import Figure
from rich.console import Console
from tokenizers import Tokenizer

from bench import reranking
from bench.figures import spread
from flows.cli.demo import NAMESPACE, docstrings
from flows.cli.ingestion import ingest_with_bar
from flows.cli.query import QueryClient
from flows.process.embedded import Embedded, embedded_settings, start_with_settings
from operators.clients.local.inference import batches, mask, pad
from operators.clients.local.minilm import MAX_TOKENS, MiniLM, ensure_graph, model_file
from operators.clients.local.quantisation import chosen

DOCUMENTS: Final = 400
QUERIES: Final = 200
BUDGETS: Final = (256, 1024, 4096)
ROWS: Final = {
    "tokens": "tokens embedded",
    "documents": "documents into the index, over those that the loop embeds",
    "queries": "queries answered, over those that the loop embeds",
    "pairs": "pairs reranked, by the clock",
}
_TIMEOUT: Final = 300.0


@dataclass(frozen=True)
class PlainLoop:
    """MiniLM in 32 bits around one session: tokenised at once, sorted by length, cut by the budget."""

    session: Any
    tokenizer: Tokenizer
    budget: int

    def __call__(self, texts: Sequence[str]) -> int:
        """Make a vector of each text; the number of tokens."""
        ids = [each.ids for each in self.tokenizer.encode_batch_fast(list(texts))]
        for group in batches([len(each) for each in ids], self.budget):
            rows = [ids[index] for index in group]
            attended = mask(rows)
            (hidden,) = self.session.run(None, {"input_ids": pad(rows), "attention_mask": attended})
            means = (hidden * attended[:, :, None]).sum(axis=1) / attended.sum(axis=1)[:, None]
            means /= np.linalg.norm(means, axis=1, keepdims=True)
        return sum(map(len, ids))


def best_loop(cache: Path, texts: Sequence[str]) -> PlainLoop:
    """The plain loop that takes the least CPU for the texts."""
    tokenizer = Tokenizer.from_file(str(model_file("tokenizer.json")))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    graph = ensure_graph(cache)
    tried = []
    for threads, spinning in itertools.product((0, 1), "01"):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning", spinning)
        session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        for budget in BUDGETS:
            loop = PlainLoop(session, tokenizer, budget)
            loop(texts[:8])
            tried.append((min(cpu(partial(loop, texts)) for _ in range(2)), loop))
    return min(tried, key=lambda each: each[0])[1]


def figures(rounds: int, cache: Path, documents: int = DOCUMENTS, queries: int = QUERIES) -> dict[str, Any]:
    """The rates of both sides and their ratios, by what is counted."""
    events = list(docstrings())
    events = events[:: max(1, len(events) // documents)][:documents]
    texts = [f"{event['title']}\n{event['text']}" for event in events]
    asked = [event["text"].split("\n")[0] for event in events[:queries]]
    model, loop = MiniLM(cache, precision=chosen("auto")), best_loop(cache, texts[:64])
    ours: dict[str, list[float]] = {"tokens": [], "documents": [], "queries": []}
    theirs: dict[str, list[float]] = {name: [] for name in ours}
    for number in range(rounds):
        tokens = loop(texts)
        embed: dict[str, Callable[[], Any]] = {
            "ours": lambda: model.encode(texts, "document"),
            "theirs": lambda: loop(texts),
        }
        spent = {name: cpu(embed[name]) for name in (list(embed) if number % 2 else reversed(list(embed)))}
        for side, name in ((ours, "ours"), (theirs, "theirs")):
            side["tokens"].append(tokens / spent[name])
        theirs["documents"].append(len(texts) / spent["theirs"])
        theirs["queries"].append(len(asked) / cpu(lambda: [loop([text]) for text in asked]))
        with (
            tempfile.TemporaryDirectory() as directory,
            start_with_settings(embedded_settings(Path(directory))) as running,
        ):
            ours["documents"].append(len(texts) / cpu(partial(_index, running, events)))
            ours["queries"].append(len(asked) / _searched(running, asked))
    pairs = reranking.in_process(rounds)
    rows = {
        name: {
            "ours": spread(ours[name]),
            "loop": spread(theirs[name]),
            "ratio": spread([mine / other for mine, other in zip(ours[name], theirs[name], strict=True)]),
        }
        for name in ours
    }
    rates = pairs["pairs_per_s"]
    rows["pairs"] = {"ours": rates["operator"], "loop": rates["loop"], "ratio": pairs["operator_over_loop"]}
    return {"rounds": rounds, "model": model.model, "loop": f"{loop.budget} tokens", "rows": rows}


def plot(measured: dict[str, Any], path: Path) -> None:
    """Write a PNG: the ratios to the plain loop, with their range."""
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    axes = figure.subplots()
    for name, row in measured["rows"].items():
        ratio = row["ratio"]
        around = [[ratio["median"] - ratio["min"]], [ratio["max"] - ratio["median"]]]
        axes.barh(ROWS[name], ratio["median"], xerr=around, color="steelblue")
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xlabel("times the plain loop: median and range")
    figure.savefig(path, dpi=110)


def cpu(subject: Callable[[], Any]) -> float:
    """CPU seconds of the process while `subject` runs."""
    started = time.process_time()
    subject()
    return time.process_time() - started


def _index(running: Embedded, events: Sequence[dict[str, str]]) -> None:
    quiet = Console(quiet=True)
    with running.indexing():
        numbered = enumerate(events, 1)
        ingest_with_bar(running.settings.kafka.indexing, "documents", numbered, len(events), quiet, _TIMEOUT)


def _searched(running: Embedded, texts: Sequence[str]) -> float:
    """CPU seconds of the queries, behind one that the flow warms up with."""
    with running.searching(), QueryClient.connect(running.kafka, running.settings.kafka.topics) as client:
        list(client.ask([{"query_id": "first", "text": "first", "namespace": NAMESPACE}], _TIMEOUT))
        made = ({"query_id": str(each), "text": text, "namespace": NAMESPACE} for each, text in enumerate(texts))
        return cpu(lambda: list(client.ask(made, _TIMEOUT)))
