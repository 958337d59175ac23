"""`rankstream evaluate`: how good recipes are on judged queries, through the real flow or on recorded pools."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from flows.cli.evaluate.evaluation import Row, variants
from flows.cli.evaluate.sources import Documents, Given, IndexDir, Models, Pools, Qrels, Queries, Recipes, print_report
from flows.cli.output import Json, emit, say, stderr
from flows.process import logs
from schemas.settings import TelemetrySettings
from schemas.texts import printable


def evaluate(
    qrels: Qrels,
    queries: Queries = None,
    documents: Documents = None,
    pools: Pools = None,
    config: Models = None,
    recipe: Recipes = None,
    stages: Annotated[bool, typer.Option("--stages", help="Add a row for each stage of a recipe.")] = False,
    index_dir: IndexDir = None,
    run_dir: Annotated[
        Path | None, typer.Option("--run", help="Directory for run files in TREC format, which `compare` takes.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure recipes on judged queries.

    The queries run through the real flow (--queries, with --documents, --config, or both), or recorded pools are ranked
    (--pools). Each recipe is measured without its model, and with it if it has one.
    """
    logs.configure(TelemetrySettings(log_level="error", log_format="console"))
    given = Given.check(qrels, queries, documents, pools, config, index_dir)
    rows = []
    with given.open(variants(recipe or given.known, given.known, stages=stages), run_dir) as source:
        for row in source.rows:
            rows.append(row)
            if as_json:
                fit = {"nothing": row.separation._asdict()} if row.separation is not None else {}
                emit({"recipe": row.name, **row.figures, **fit, "judged": len(source.judged), "answers": row.answered})
            else:
                say(stderr, f"{row.name}: done")
    if not as_json:
        apart = [separation_table(rows)] if any(row.separation is not None for row in rows) else []
        print_report([figures_table(rows), *apart, source.note])


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
