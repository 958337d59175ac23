"""`rankstream evaluate` and `rankstream compare`: figures of recipes on judged queries, and of two run files."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import RenderableType
from rich.table import Column, Table

from flows.cli.config import begin_quietly
from flows.cli.evaluate import sources
from flows.cli.evaluate.evaluation import Qrels, ReportRow, groups, read_qrels, read_trec, select_judged, variants
from flows.cli.output import Json, emit, make_table, say, stderr
from operators.evaluation.comparison import CONFIDENCE, LEAST_CHANGED, ByQuery, Comparison, Verdict, compare_systems
from operators.evaluation.metrics import TABLE, by_query, parse_run, relevant
from schemas.errors import DeadLetterClass, InputError
from schemas.texts import printable

MOVES: Final = 10
"""Queries that are shown; JSON has all."""

_SAID: Final = {
    Verdict.BETTER: ("B is better", "is above"),
    Verdict.WORSE: ("B is worse", "is below"),
    Verdict.UNDECIDED: ("Neither is shown to be better", "contains"),
}


def _metric(name: str) -> str:
    if name not in TABLE:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(TABLE)}")
    return name


Metric = Annotated[str, typer.Option(parser=_metric, help="Metric that decides.")]


def evaluate(
    qrels: sources.QrelsOption,
    queries: sources.QueriesOption = None,
    documents: sources.DocumentsOption = None,
    pools: sources.PoolsOption = None,
    config: sources.ModelsOption = None,
    recipe: sources.RecipesOption = None,
    stages: Annotated[bool, typer.Option("--stages", help="Add a row for each stage of a recipe.")] = False,
    by: Annotated[
        str | None,
        typer.Option(help="Column of --queries, such as `kind`: add the figures of each of its values."),
    ] = None,
    index_dir: sources.IndexDir = None,
    run_dir: Annotated[
        Path | None, typer.Option("--run", help="Directory for run files in TREC format, which `compare` takes.")
    ] = None,
    allow_partial: sources.AllowPartial = False,
    allow_rejected: sources.AllowRejected = False,
    as_json: Json = False,
) -> None:
    """Measure recipes on judged queries.

    The queries run through the real flow (--queries, with --documents, --config, or both), or recorded pools are ranked
    (--pools). A recipe with a model is measured with and without it. Exit code 1 if an answer is not whole.
    """
    begin_quietly()
    given = sources.Given(qrels, queries, documents, pools, config, index_dir, allow_rejected)
    if by is not None and queries is None:
        raise typer.BadParameter("it needs --queries, which have the column", param_hint="--by")
    grouped = groups(queries, by) if by is not None and queries is not None else {}
    rows = []
    with given.open(variants(recipe or given.named_recipes, given.named_recipes, stages=stages), run_dir) as source:
        for row in source.rows:
            rows.append(row)
            if as_json:
                figures: dict[str, Any] = {"recipe": row.name, **row.figures}
                if row.separation is not None:
                    figures["nothing"] = row.separation._asdict()
                if grouped:
                    figures["by"] = {name: {**some, "judged": count} for name, count, some in row.split(grouped)}
                emit({**figures, **source.counts, "answers": row.tally.answered, "lost": row.tally.lost})
            else:
                say(stderr, f"{row.name}: done")
    if not as_json:
        apart = [separation_table(rows)] if any(row.separation is not None for row in rows) else []
        tables = [figures_table(rows), *apart, *(group_tables(rows, by, grouped) if by is not None else ())]
        sources.print_report([*tables, source.note])
    sources.report_lost(((row.name, row.tally) for row in rows), allowed=allow_partial)


def separation_table(rows: list[ReportRow]) -> Table:
    """A row a recipe: does its relevance tell the queries that nothing answers, and by which threshold."""
    head = "recipe", "AUC of nothing", "min_relevance", "answered", "nothing left out"
    return make_table(head, ((row.name, *row.separation) for row in rows if row.separation is not None), "Nothing fits")


def figures_table(rows: list[ReportRow]) -> Table:
    """A row a recipe: its figures, and its answers by status."""
    answers = (", ".join(f"{count} {status}" for status, count in sorted(row.tally.answered.items())) for row in rows)
    cells = ((row.name, *row.figures.values(), answer) for row, answer in zip(rows, answers, strict=True))
    return make_table(("recipe", *rows[0].figures, "answers"), cells)


def group_tables(rows: list[ReportRow], by: str, grouped: Mapping[str, str]) -> Iterator[Table]:
    """The figures of each group of queries, with their number, a table a recipe; `by` names the groups' column."""
    for row in rows:
        cells = ((name, counted, *figures.values()) for name, counted, figures in row.split(grouped))
        yield make_table((printable(by), "queries", *row.figures), cells, row.name)


def compare(
    first: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Run file in TREC format.")],
    second: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Another one, which may be better.")],
    qrels: sources.QrelsOption,
    metric: Metric = "nDCG@10",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the intervals.")] = 0,
    as_json: Json = False,
) -> None:
    """Compare two run files query by query: those that --run of `evaluate` writes, or another system's."""
    begin_quietly()
    # Each is read once: it may be a pipe.
    runs = {path: read_run(path) for path in (first, second)}
    judged, absent = judgements_of_runs(qrels, runs)
    values = [by_query(runs[path], judged) for path in (first, second)]
    comparison = compare_values(values[0], values[1], metric, seed)
    if as_json:
        about = {"first": str(first), "second": str(second), "judged": len(comparison.moves), "in_neither": absent}
        emit({**about, **summarise(comparison)})
    else:
        sources.print_report(describe_comparison(comparison, str(first), str(second)))
        if absent:
            sources.print_report([f"{absent} more judged queries are in neither run, and do not count"])


def read_run(path: Path) -> dict[str, list[str]]:
    """A TREC run: query -> documents, best first. Raises InputError naming the wrong line."""
    return read_trec(path, parse_run)


def judgements_of_runs(qrels: Path, runs: Mapping[Path, Mapping[str, object]]) -> tuple[Qrels, int]:
    """The judgements of queries that are in one of the runs, and the number of other judged queries. Raises InputError.

    A query that a run lacks counts 0 there. One that both lack was hardly asked: qrels may be those of a larger set.
    """
    every = read_qrels(qrels)
    judged = select_judged(every, {query for run in runs.values() for query in run}, qrels, *runs)
    return judged, len(relevant(every).keys() - judged.keys())


def compare_values(first: ByQuery, second: ByQuery, metric: str, seed: int) -> Comparison:
    """The comparison of two systems on the same judged queries. Raises InputError without a relevant document."""
    if not first[metric]:
        raise InputError(DeadLetterClass.INVALID, "no query that is judged has a relevant document")
    return compare_systems(first, second, metric, seed)


def summarise(comparison: Comparison) -> dict[str, Any]:
    """The comparison as JSON, every query's values last, the greatest change first."""
    return {
        "metric": comparison.metric,
        "verdict": comparison.verdict,
        "means": {metric: each._asdict() for metric, each in comparison.means.items()},
        "confidence": CONFIDENCE,
        "sign_test": comparison.signs._asdict(),
        "queries": [move._asdict() for move in comparison.moves],
    }


def means_table(comparison: Comparison, first: str, second: str, title: str) -> Table:
    """Each metric of both, and the difference with its interval."""
    rows = (
        (metric, *values, f"{difference:+.3f}", f"{low:+.3f} to {high:+.3f}")
        for metric, (*values, difference, low, high) in comparison.means.items()
    )
    return make_table(("metric", first, second, "difference", f"{CONFIDENCE:.0%} interval"), rows, title)


def signs(comparison: Comparison, second: str) -> str:
    """The sign test, as a line."""
    wins, losses, ties, p = comparison.signs
    counted = f"{second} is better on {wins} queries, worse on {losses}, equal on {ties}"
    return f"{comparison.metric}: {counted}; sign test p = {p:.2g}"


def too_few(comparison: Comparison) -> str:
    """The reason for which there is no verdict, whatever the interval; empty if enough queries differ."""
    changed = comparison.changed
    return f"{changed} queries differ, {LEAST_CHANGED} are needed" if changed < LEAST_CHANGED else ""


def describe_comparison(comparison: Comparison, first: str, second: str) -> Iterator[RenderableType]:
    """The comparison of two systems of these names, for a terminal of 80 columns."""
    yield f"A: {first}\nB: {second}"
    yield means_table(comparison, "A", "B", f"{len(comparison.moves)} judged queries")
    yield signs(comparison, "B")
    said, where = _SAID[comparison.verdict]
    reason = too_few(comparison) or f"the interval of the difference in {comparison.metric} {where} 0"
    yield f"{said}: {reason}."
    moved = [move for move in comparison.moves if move.first != move.second]
    if moved:
        figures = (Column(name, justify="right") for name in ("A", "B", "difference"))
        rows = ((query, before, after, f"{after - before:+.3f}") for query, before, after in moved[:MOVES])
        title = f"Queries whose {comparison.metric} moved most"
        yield make_table((Column("query", overflow="fold"), *figures), rows, title)
