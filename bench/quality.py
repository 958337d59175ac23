"""Quality beside cost: for each recipe its figures on judged queries, the CPU of a query, and the index of a document.

Each row has a flow of its own, so that none finds what another one has cached. CPU is that of the whole process: the
flow, the models, Qdrant's engine, the broker, and who asks and judges.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter
from rich.console import Console

from flows.assembly.clients import make_qdrant_client
from flows.cli.evaluate import evaluation
from flows.cli.evaluate.evaluation import Variant
from flows.cli.ingestion import read_jsonl
from flows.cli.query import QueryClient
from flows.process.embedded import Embedded
from operators.clients.qdrant.client import QdrantClient
from schemas.document import point_id
from schemas.recipes import SHIPPED
from schemas.result import KEYWORD, KEYWORD_CONTEXT, VECTOR, VECTOR_CONTEXT
from schemas.settings import Settings

SAMPLE: Final = 200
"""Documents whose vectors are counted."""

PLOTTED: Final = "nDCG@10"

_TIMEOUT: Final = 60.0
_BYTES: Final = {"turbo4": 0.5, "float16": 2.0}
"""Of a component of a token vector, by datatype."""
_DENSE: Final = 4
_TERM: Final = 8
"""Bytes of a component of a dense vector, and of a term and its weight in a sparse one."""


@dataclass(frozen=True)
class Asked:
    """The measured subject: the files, the recipes, and the index directory, None for a temporary one."""

    documents: Path
    queries: Path
    qrels: Path
    recipes: Sequence[str]
    settings: Settings | None
    index: Path | None


def rows(asked: Asked, console: Console) -> Iterator[dict[str, Any]]:
    """A row a recipe and, where it has a model, one with it. Raises RankstreamError."""
    known = asked.settings.recipes if asked.settings is not None else SHIPPED
    judged = evaluation.read_judgements(asked.qrels, asked.queries, asked.documents)
    with ExitStack() as stack:
        index = asked.index or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for variant in evaluation.variants(asked.recipes or known, known, stages=False):
            with evaluation.run_flow(asked.settings, asked.documents, index, [variant.recipe], console) as running:
                size = asyncio.run(_size(running, variant, asked.documents))
                _warm_up(running, variant)
                began = time.process_time()
                [row] = evaluation.measure(running, asked.queries, [variant], judged, None)
                spent = time.process_time() - began
            cost = {"cpu_ms": 1000 * spent / row.tally.answered.total(), "bytes": size}
            yield {
                "recipe": row.name,
                **row.figures,
                **cost,
                "answers": dict(row.tally.answered),
                "lost": dict(row.tally.lost),
            }


def plot(title: str, measured: Sequence[dict[str, Any]], path: Path) -> None:
    """Write a PNG: quality over CPU, each point as large as the index of a document."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for row in measured:
        axes.scatter(row["cpu_ms"], row[PLOTTED], s=row["bytes"] / 50, alpha=0.5)
        axes.annotate(row["recipe"], (row["cpu_ms"], row[PLOTTED]), fontsize="small")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_formatter(ScalarFormatter())
    axes.set_xlabel("CPU, ms a query")
    axes.set_ylabel(PLOTTED)
    axes.set_title(f"{title}: the area of a point is the bytes of vectors a document")
    figure.savefig(path, dpi=110)


def _warm_up(running: Embedded, variant: Variant) -> None:
    """Let the flow answer once: it loads its model then."""
    query = {"query_id": "warm-up", "text": "warm up", "recipe": variant.recipe.name, "rerank": variant.rerank}
    with QueryClient.connect(running.kafka, running.settings.kafka.topics) as query_client:
        list(query_client.ask([query], _TIMEOUT))


async def _size(running: Embedded, variant: Variant, documents: Path) -> float:
    """Bytes of the vectors of a document that the recipe searches or its model reads, as the index stores them."""
    settings, in_process = running.settings, running.in_process
    names = settings.qdrant.vectors
    client = make_qdrant_client(settings, in_process, in_process.metrics("size"))
    legs = {
        VECTOR: names.dense,
        KEYWORD: names.sparse,
        VECTOR_CONTEXT: names.dense_context,
        KEYWORD_CONTEXT: names.sparse_context,
    }
    wanted = [name for leg, name in legs.items() if leg in variant.recipe.fusion.legs and name is not None]
    if variant.rerank and names.tokens is not None and settings.rerank.kind == "late_interaction":
        wanted.append(names.tokens)
    destination, collection = next(iter(settings.qdrant.destinations.items()))
    events = list(read_jsonl(documents))
    some = events[:: max(1, len(events) // SAMPLE)]
    ids = [point_id(destination, event["namespace"], event["id"]) for event in some]
    sizes = [await _bytes(client, collection, ids, name, _BYTES[names.tokens_datatype]) for name in wanted]
    return sum(sizes) / len(ids)


async def _bytes(client: QdrantClient, collection: str, ids: Sequence[str], name: str, component: float) -> float:
    total = 0.0
    for id_ in ids:
        for vector in (await client.vectors(collection, [id_], name, timeout=_TIMEOUT)).values():
            if isinstance(vector, dict):
                total += _TERM * len(vector["indices"])
            elif isinstance(vector[0], list):
                total += component * len(vector) * len(vector[0])
            else:
                total += _DENSE * len(vector)
    return total
