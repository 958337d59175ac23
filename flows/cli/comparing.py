"""What commands show of a comparison: means with their intervals, the sign test, and the queries that moved most."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import RenderableType
from rich.table import Table

from flows.cli.evaluation import Row, about, read_qrels
from operators.evaluation.comparison import CONFIDENCE, ByQuery, Comparison, Verdict, compare
from operators.evaluation.metrics import by_query, parse_run
from schemas.errors import ConfigError, DeadLetterClass, InputError
from schemas.texts import printable

MOVES: Final = 10
"""Queries that are shown; JSON has all."""

_SAID: Final = {
    Verdict.BETTER: ("B is better", "is above"),
    Verdict.WORSE: ("B is worse", "is below"),
    Verdict.UNDECIDED: ("Neither is shown to be better", "contains"),
}

Judgements = Mapping[str, Mapping[str, int]]


def is_run(name: str, rows: Sequence[str]) -> bool:
    """Whether this names a run file; what names a row is that. Raises ConfigError if it is neither."""
    if name in rows:
        return False
    if Path(name).is_file():
        return True
    among = f", nor one of {', '.join(rows)}" if rows else ""
    raise ConfigError(f"--compare {name}: no such run file{among}")


def run(path: Path) -> dict[str, list[str]]:
    """A TREC run: query -> documents, best first. Raises InputError naming the wrong line."""
    with path.open(encoding="utf-8") as lines:
        try:
            return parse_run(lines)
        except InputError as error:
            raise InputError(error.kind, f"{path}: {error}") from error


def row(path: Path, judged: Judgements) -> Row:
    """What a run file reaches. Raises InputError naming the wrong line."""
    return Row(str(path), {}, {}, by_query(run(path), judged))


def judged_in(qrels: Path, *paths: Path) -> Judgements:
    """The judgements of queries that are in one of the runs; a query that a run lacks counts 0 there.

    Raises InputError if there are none.
    """
    return about(read_qrels(qrels), {query for path in paths for query in run(path)}, qrels, *paths)


def compared(first: ByQuery, second: ByQuery, metric: str, seed: int) -> Comparison:
    """The comparison of two systems on the same judged queries. Raises InputError without a relevant document."""
    if not first[metric]:
        raise InputError(DeadLetterClass.INVALID, "no query that is judged has a relevant document")
    return compare(first, second, metric, seed)


def report(comparison: Comparison) -> dict[str, Any]:
    """The comparison as JSON, but for the queries."""
    means = {
        metric: {
            "first": each.first,
            "second": each.second,
            "difference": each.difference,
            "low": each.interval.low,
            "high": each.interval.high,
        }
        for metric, each in comparison.means.items()
    }
    return {
        "metric": comparison.metric,
        "verdict": comparison.verdict,
        "means": means,
        "confidence": CONFIDENCE,
        "sign_test": comparison.signs._asdict(),
    }


def moves(comparison: Comparison) -> list[dict[str, Any]]:
    """Every query's values as JSON, the greatest change first."""
    return [{"query_id": move.query, "first": move.first, "second": move.second} for move in comparison.moves]


def means_table(comparison: Comparison, first: str, second: str, title: str) -> Table:
    """Each metric of both, and the difference with its interval."""
    shown = Table(
        "metric", first, second, "difference", f"{CONFIDENCE:.0%} interval", title=title, title_justify="left"
    )
    for metric, (before, after, difference, (low, high)) in comparison.means.items():
        cells = (f"{before:.3f}", f"{after:.3f}", f"{difference:+.3f}", f"{low:+.3f} to {high:+.3f}")
        shown.add_row(metric, *cells)
    return shown


def signs(comparison: Comparison, second: str) -> str:
    """The sign test, as a line."""
    wins, losses, ties, p = comparison.signs
    counted = f"{second} is better on {wins} queries, worse on {losses}, equal on {ties}"
    return f"{comparison.metric}: {counted}; sign test p = {p:.2g}"


def shown(comparison: Comparison, first: str, second: str) -> Iterator[RenderableType]:
    """The comparison of two systems of these names, for a terminal of 80 columns."""
    yield f"A: {first}\nB: {second}"
    yield means_table(comparison, "A", "B", f"{len(comparison.moves)} judged queries")
    yield signs(comparison, "B")
    said, where = _SAID[comparison.verdict]
    yield f"{said}: the interval of the difference in {comparison.metric} {where} 0."
    moved = [move for move in comparison.moves if move.first != move.second]
    if moved:
        table = Table(title=f"Queries whose {comparison.metric} moved most", title_justify="left")
        table.add_column("query", overflow="fold")
        for name in ("A", "B", "difference"):
            table.add_column(name, justify="right")
        for query, before, after in moved[:MOVES]:
            table.add_row(printable(query), f"{before:.3f}", f"{after:.3f}", f"{after - before:+.3f}")
        yield table
