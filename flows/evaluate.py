"""Evaluate: documents indexed embedded, queries through the real flow, figures for what came back."""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from flows.asking import Asker
from flows.embedded import Embedded, embedded
from flows.feeding import read_jsonl
from flows.progress import indexed
from operators.delivery.kafka_python import EMBEDDED
from operators.evaluation.metrics import evaluate
from operators.evaluation.trec import parse_qrels, run_lines
from operators.fuse import RECIPE
from schemas.errors import ConfigError, DeadLetterClass, InputError
from schemas.query import QueryEvent

TIMEOUT_MS: Final = 60_000
DEPTH: Final = 100
"""Results asked for a query."""

_ANSWER_TIMEOUT: Final = 120.0
_EVENT_FIELDS: Final = frozenset(QueryEvent.model_fields)


@dataclass(frozen=True)
class Row:
    """One way to rank, and its figures."""

    name: str
    figures: Mapping[str, float]
    answered: Mapping[str, int]


def events(path: Path, rerank: bool) -> Iterator[dict[str, Any]]:
    """The file's queries as events; columns that an event doesn't have go into its metadata.

    Raises InputError for a line that isn't an object with a `query_id`.
    """
    for number, query in enumerate(read_jsonl(path), 1):
        if not isinstance(query.get("query_id"), str):
            raise InputError(DeadLetterClass.INVALID, f"{path}:{number}: query_id: missing, or not a string")
        event = {name: value for name, value in query.items() if name in _EVENT_FIELDS}
        metadata = {name: value for name, value in query.items() if name not in _EVENT_FIELDS}
        yield {**event, "metadata": metadata, "rerank": rerank, "limit": DEPTH, "timeout_ms": TIMEOUT_MS}


def run(
    documents: Path,
    queries: Path,
    qrels: Path,
    recipe: str,
    *,
    index: Path | None,
    runs: Path | None,
    console: Console,
) -> list[Row]:
    """Index, ask and judge, once without and once with the reranker.

    `index` keeps the index for the next time, `runs` is a directory for TREC runs. Raises ConfigError, InputError and
    DeliveryError.
    """
    if recipe != RECIPE:
        raise ConfigError(f"recipe {recipe}: there is only {RECIPE}")
    with qrels.open(encoding="utf-8") as lines:
        judged = parse_qrels(lines)
    rows = []
    with contextlib.ExitStack() as stack:
        directory = index if index is not None else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        running = stack.enter_context(embedded(directory))
        indexed(running, documents.name, lambda: read_jsonl(documents), directory, console)
        stack.enter_context(running.searching())
        for name, rerank in ((recipe, False), (f"{recipe}+rerank", True)):
            rows.append(_row(running, name, queries, rerank, judged, runs))
    return rows


def _row(
    running: Embedded,
    name: str,
    queries: Path,
    rerank: bool,
    judged: Mapping[str, Mapping[str, int]],
    runs: Path | None,
) -> Row:
    ranked: dict[str, list[tuple[str, float]]] = {}
    answered: dict[str, int] = {}
    with Asker(running.settings.kafka, EMBEDDED) as asker:
        for result in asker.ask(events(queries, rerank), _ANSWER_TIMEOUT):
            ranked[result["query_id"]] = [(hit["id"], hit["score"]) for hit in result["results"]]
            answered[result["status"]] = answered.get(result["status"], 0) + 1
    if runs is not None:
        runs.mkdir(parents=True, exist_ok=True)
        with (runs / f"{name}.run").open("w", encoding="utf-8") as out:
            for query in sorted(ranked):
                out.writelines(run_lines(query, ranked[query], name))
    order = {query: [document for document, _ in hits] for query, hits in ranked.items()}
    return Row(name, evaluate(order, judged), answered)


def table(rows: list[Row]) -> Table:
    """The figures, a row a recipe."""
    shown = Table("recipe", *rows[0].figures, "answers")
    for row in rows:
        answers = ", ".join(f"{count} {status}" for status, count in sorted(row.answered.items()))
        shown.add_row(row.name, *(f"{figure:.3f}" for figure in row.figures.values()), answers)
    return shown
