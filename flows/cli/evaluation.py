"""Evaluation: documents indexed embedded, queries through the real flow, figures for what came back."""

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from flows.cli.ingestion import numbered_jsonl, read_jsonl
from flows.cli.pool_ranking import find
from flows.cli.progress import indexed
from flows.cli.query_client import QueryClient
from flows.process.embedded import Embedded, embedded
from operators.evaluation.metrics import evaluate
from operators.evaluation.trec import parse_qrels, run_lines
from schemas.errors import ConfigError, DeadLetterClass, InputError
from schemas.query import QueryEvent
from schemas.recipes import MAX_DISTANCE, SHIPPED, Recipe
from schemas.recipes.stages import Rerank

TIMEOUT_MS: Final = 60_000
DEPTH: Final = 100
"""Results asked for a query."""

ANSWER_TIMEOUT: Final = 120.0

_EVENT_FIELDS: Final = frozenset(QueryEvent.model_fields)


@dataclass(frozen=True)
class Row:
    """One way to rank, and its figures."""

    name: str
    figures: Mapping[str, float]
    answered: Mapping[str, int]


@dataclass(frozen=True)
class Variant:
    """One way to rank: a recipe, with or without its model."""

    recipe: Recipe
    rerank: bool

    @property
    def name(self) -> str:
        """How it is called in tables and runs."""
        return f"{self.recipe.name}+rerank" if self.rerank else self.recipe.name


def events(path: Path, **asked: Any) -> Iterator[dict[str, Any]]:
    """The file's queries as events, asking for this; columns that an event doesn't have go into its metadata.

    Raises InputError for a line that isn't an object with a `query_id`.
    """
    for number, query in numbered_jsonl(path):
        if not isinstance(query.get("query_id"), str):
            raise InputError(DeadLetterClass.INVALID, f"{path}:{number}: query_id: missing, or not a string")
        event = {name: value for name, value in query.items() if name in _EVENT_FIELDS}
        metadata = {name: value for name, value in query.items() if name not in _EVENT_FIELDS}
        yield {**event, "metadata": metadata, "limit": DEPTH, "timeout_ms": TIMEOUT_MS, **asked}


def variants(names: Iterable[str], *, stages: bool) -> list[Variant]:
    """Recipes without and with their model, shipped ones or YAML files; with `stages` first their beginnings.

    Raises ConfigError.
    """
    found: dict[str, Variant] = {}
    for recipe in (find(name, SHIPPED) for name in names):
        for beginning in _beginnings(recipe) if stages else ():
            like = found.get(beginning.name)
            if like is not None and like.recipe.hash != beginning.hash:
                beginning = replace(beginning, name=f"{recipe.name}: {beginning.name}")
            found.setdefault(beginning.name, Variant(beginning, False))
        model = [Variant(recipe, True)] if recipe.reranking is not None or recipe.picking is not None else []
        for variant in (Variant(recipe, False), *model):
            if variant.name in found and found[variant.name].recipe.hash != recipe.hash:
                raise ConfigError(f"two recipes are called {recipe.name}")
            found[variant.name] = variant
    return list(found.values())


def _beginnings(recipe: Recipe) -> Iterator[Recipe]:
    running = [stage.name for stage in recipe.running if not isinstance(stage, Rerank)]
    for count in range(1, len(running)):
        listed = [{name: dict(recipe.written[name])} for name in running[:count]]
        yield Recipe.parse(" > ".join(running[:count]), {"stages": listed, MAX_DISTANCE: recipe.max_distance})


@contextlib.contextmanager
def searched(documents: Path, index: Path | None, recipes: Iterable[Recipe], console: Console) -> Iterator[Embedded]:
    """The search flow running embedded over the documents, with these recipes beside the shipped ones.

    `index` keeps the index for the next time. Raises ConfigError, InputError and DeliveryError.
    """
    with contextlib.ExitStack() as stack:
        directory = index if index is not None else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        definitions = {recipe.name: recipe.definition for recipe in recipes}
        running = stack.enter_context(embedded(directory, {"recipes": definitions}))
        indexed(running, documents.name, lambda: read_jsonl(documents), directory, console)
        stack.enter_context(running.searching())
        yield running


def judgements(qrels: Path) -> Mapping[str, Mapping[str, int]]:
    """The judgements in a TREC file. Raises InputError."""
    with qrels.open(encoding="utf-8") as lines:
        return parse_qrels(lines)


def compare(
    running: Embedded,
    queries: Path,
    variants: Iterable[Variant],
    judged: Mapping[str, Mapping[str, int]],
    runs: Path | None,
) -> Iterator[Row]:
    """Ask every query once in each way, and judge; `runs` is a directory for TREC runs."""
    for variant in variants:
        ranked: dict[str, list[tuple[str, float]]] = {}
        answered: dict[str, int] = {}
        with QueryClient.connected(running.kafka, running.settings.kafka.topics) as query_client:
            asked = events(queries, recipe=variant.recipe.name, rerank=variant.rerank)
            for result in query_client.ask(asked, ANSWER_TIMEOUT):
                ranked[result["query_id"]] = [(hit["id"], hit["score"]) for hit in result["results"]]
                answered[result["status"]] = answered.get(result["status"], 0) + 1
        if runs is not None:
            runs.mkdir(parents=True, exist_ok=True)
            with (runs / f"{variant.name}.run").open("w", encoding="utf-8") as out:
                for query in sorted(ranked):
                    out.writelines(run_lines(query, ranked[query], variant.name))
        order = {query: [document for document, _ in hits] for query, hits in ranked.items()}
        yield Row(variant.name, evaluate(order, judged), answered)


def table(rows: list[Row]) -> Table:
    """The figures, a row a recipe."""
    shown = Table("recipe", *rows[0].figures, "answers")
    for row in rows:
        answers = ", ".join(f"{count} {status}" for status, count in sorted(row.answered.items()))
        shown.add_row(row.name, *(f"{figure:.3f}" for figure in row.figures.values()), answers)
    return shown
