"""`rankstream compare`: two run files, by means with intervals, the sign test, and the queries that moved most."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import RenderableType
from rich.table import Table

from flows.cli.config import begin_quietly
from flows.cli.evaluate.evaluation import Judgements, read_qrels, read_trec, select_judged
from flows.cli.evaluate.sources import Qrels, print_report
from flows.cli.output import Json, emit
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


def compare(
    first: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Run file in TREC format.")],
    second: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Another one, which may be better.")],
    qrels: Qrels,
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
        print_report(describe_comparison(comparison, str(first), str(second)))
        if absent:
            print_report([f"{absent} more judged queries are in neither run, and do not count"])


def read_run(path: Path) -> dict[str, list[str]]:
    """A TREC run: query -> documents, best first. Raises InputError naming the wrong line."""
    return read_trec(path, parse_run)


def judgements_of_runs(qrels: Path, runs: Mapping[Path, Mapping[str, object]]) -> tuple[Judgements, int]:
    """The judgements of queries that are in one of the runs, by their files, and the number of other judged queries.

    A query that a run lacks counts 0 there. One that both lack was hardly asked: qrels may be those of a larger set.
    Raises InputError if there are none.
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
    names = ("metric", first, second, "difference", f"{CONFIDENCE:.0%} interval")
    table = Table(*names, title=title, title_justify="left")
    for metric, (before, after, difference, low, high) in comparison.means.items():
        table.add_row(metric, f"{before:.3f}", f"{after:.3f}", f"{difference:+.3f}", f"{low:+.3f} to {high:+.3f}")
    return table


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
        table = Table(title=f"Queries whose {comparison.metric} moved most", title_justify="left")
        table.add_column("query", overflow="fold")
        for name in ("A", "B", "difference"):
            table.add_column(name, justify="right")
        for query, before, after in moved[:MOVES]:
            table.add_row(printable(query), f"{before:.3f}", f"{after:.3f}", f"{after - before:+.3f}")
        yield table
