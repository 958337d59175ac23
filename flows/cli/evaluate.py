"""`rankstream evaluate`: what recipes reach on judged queries, through the real flow."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli import evaluation, tuning
from flows.cli.output import Json, emit, out, stderr
from flows.cli.pool_ranking import find
from flows.process import logs
from schemas.recipes import SHIPPED
from schemas.settings import TelemetrySettings


def evaluate(
    documents: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="JSON Lines file of documents.")],
    queries: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="JSON Lines file of queries.")],
    qrels: Annotated[
        Path, typer.Option(exists=True, dir_okay=False, help="Relevance judgements in TREC format (qrels).")
    ],
    recipe: Annotated[
        list[str] | None,
        typer.Option(help="Recipe: a name or a YAML file; may be repeated. Default: all shipped recipes."),
    ] = None,
    stages: Annotated[bool, typer.Option("--stages", help="Add a row for each stage of a recipe.")] = False,
    tune: Annotated[
        list[tuning.Hyperparameter] | None,
        typer.Option(
            parser=tuning.Hyperparameter.parse,
            metavar="STAGE.PARAMETER=V,V",
            help="Values to try: chosen on one half of the queries, reported on the other; may be repeated.",
        ),
    ] = None,
    metric: Annotated[str, typer.Option(help="Metric that --tune maximises.")] = "nDCG@10",
    index_dir: Annotated[
        Path | None, typer.Option("--index", help="Directory for the index. Default: a temporary one.")
    ] = None,
    run_dir: Annotated[Path | None, typer.Option("--run", help="Directory for run files in TREC format.")] = None,
    as_json: Json = False,
) -> None:
    """Measure recipes on judged queries: index documents in this process, run the queries, print metrics per recipe.

    Each recipe runs without its model, and with it if it has one. With --tune, parameters are tuned on one half of the
    queries.
    """
    logs.configure(TelemetrySettings(log_level="error", log_format="console"))
    variants = evaluation.variants(recipe or SHIPPED, stages=stages)
    judged = evaluation.judgements(qrels)
    with evaluation.searched(documents, index_dir, [variant.recipe for variant in variants], stderr) as running:
        if tune:
            whole = [find(name, SHIPPED) for name in recipe or SHIPPED]
            for tuned in tuning.tuned(running, queries, whole, tune, judged, metric):
                emit(tuned.report()) if as_json else out.print(tuning.table(tuned))
            return
        rows = []
        for row in evaluation.compare(running, queries, variants, judged, run_dir):
            rows.append(row)
            if as_json:
                emit({"recipe": row.name, **row.figures, "answers": row.answered})
            else:
                stderr.print(f"{row.name}: done", highlight=False)
    if not as_json:
        out.print(evaluation.table(rows))
