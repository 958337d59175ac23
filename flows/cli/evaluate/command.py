"""`rankstream evaluate`: how good recipes are on judged queries, through the real flow or on recorded pools."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from flows.cli.config import begin_quietly
from flows.cli.evaluate import sources
from flows.cli.evaluate.evaluation import Row, groups, variants
from flows.cli.output import Json, emit, say, stderr
from schemas.texts import printable


def evaluate(
    qrels: sources.Qrels,
    queries: sources.Queries = None,
    documents: sources.Documents = None,
    pools: sources.Pools = None,
    config: sources.Models = None,
    recipe: sources.Recipes = None,
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
    as_json: Json = False,
) -> None:
    """Measure recipes on judged queries.

    The queries run through the real flow (--queries, with --documents, --config, or both), or recorded pools are ranked
    (--pools). Each recipe is measured without its model, and with it if it has one. If an answer is not whole, the exit
    code is 1.
    """
    begin_quietly()
    given = sources.Given(qrels, queries, documents, pools, config, index_dir)
    if by is not None and queries is None:
        raise typer.BadParameter("it needs --queries, which have the column", param_hint="--by")
    grouped = groups(queries, by) if by is not None and queries is not None else {}
    rows = []
    with given.open(variants(recipe or given.known, given.known, stages=stages), run_dir) as source:
        for row in source.rows:
            rows.append(row)
            if as_json:
                figures: dict[str, Any] = {"recipe": row.name, **row.figures}
                if row.separation is not None:
                    figures["nothing"] = row.separation._asdict()
                if grouped:
                    figures["by"] = {name: {**some, "judged": count} for name, count, some in row.split(grouped)}
                emit({**figures, **source.counts, "answers": row.answered, "lost": row.lost})
            else:
                say(stderr, f"{row.name}: done")
    if not as_json:
        apart = [separation_table(rows)] if any(row.separation is not None for row in rows) else []
        tables = [figures_table(rows), *apart, *(group_tables(rows, by, grouped) if by is not None else ())]
        sources.print_report([*tables, source.note])
    sources.report_lost(((row.name, row.answered, row.lost) for row in rows), allowed=allow_partial)


def separation_table(rows: list[Row]) -> Table:
    """A row a recipe: does its relevance tell the queries that nothing answers, and by which threshold."""
    found = Table("recipe", "AUC of nothing", "min_relevance", "answered", "nothing left out", title="Nothing fits")
    for row in rows:
        if (each := row.separation) is not None:
            shares = (f"{each.answered:.3f}", f"{each.left_out:.3f}")
            found.add_row(printable(row.name), f"{each.auc:.3f}", f"{each.threshold:.3f}", *shares)
    return found


def figures_table(rows: list[Row]) -> Table:
    """The figures, a row a recipe."""
    found = Table("recipe", *rows[0].figures, "answers")
    for row in rows:
        answers = ", ".join(f"{count} {status}" for status, count in sorted(row.answered.items()))
        found.add_row(printable(row.name), *(f"{figure:.3f}" for figure in row.figures.values()), answers)
    return found


def group_tables(rows: list[Row], by: str, grouped: Mapping[str, str]) -> Iterator[Table]:
    """The figures of each group of queries, a table a recipe; `by` names the column that has the groups."""
    for row in rows:
        found = Table(printable(by), *row.figures, title=printable(row.name), title_justify="left")
        for name, _, figures in row.split(grouped):
            found.add_row(printable(name), *(f"{figure:.3f}" for figure in figures.values()))
        yield found
