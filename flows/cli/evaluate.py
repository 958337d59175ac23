"""`rankstream evaluate`: what recipes reach on judged queries, through the real flow."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli import evaluation, tuning
from flows.cli.output import Json, emit, out, stderr
from flows.process import logs
from schemas.recipes import SHIPPED
from schemas.settings import TelemetrySettings


def evaluate(
    documents: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Document events, JSON Lines.")],
    queries: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Query events, JSON Lines.")],
    qrels: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="TREC judgements.")],
    recipe: Annotated[
        list[str] | None, typer.Option(help="A recipe, by name or YAML file; may be repeated. Missing: all.")
    ] = None,
    stages: Annotated[bool, typer.Option("--stages", help="A row for each stage of a recipe, too.")] = False,
    tune: Annotated[
        list[tuning.Hyperparameter] | None,
        typer.Option(
            parser=tuning.Hyperparameter.parse,
            metavar="STAGE.PARAMETER=V,V",
            help="Choose among values on half of the queries, judge on the others; may be repeated.",
        ),
    ] = None,
    metric: Annotated[str, typer.Option(help="What is tuned for.")] = "nDCG@10",
    index_dir: Annotated[Path | None, typer.Option("--index", help="Keep the index in this directory.")] = None,
    run_dir: Annotated[Path | None, typer.Option("--run", help="Write TREC runs into this directory.")] = None,
    as_json: Json = False,
) -> None:
    """Index documents embedded, run queries through the real flow, print figures a recipe.

    Each recipe without and with the reranker; with --tune, recipes tuned on half of the queries.
    """
    logs.configure(TelemetrySettings(log_level="error", log_format="console"))
    variants = evaluation.variants(recipe or SHIPPED, stages=stages)
    judged = evaluation.judgements(qrels)
    with evaluation.searched(documents, index_dir, [variant.recipe for variant in variants], stderr) as running:
        if tune:
            whole = [variant.recipe for variant in variants if variant.rerank]
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
