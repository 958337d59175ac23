"""`rankstream evaluate`: what recipes reach on judged queries, through the real flow or on recorded pools."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType

from flows.cli import comparing, evaluation, recipe_file, recorded_pools, tuning
from flows.cli.evaluation import Row, Variant
from flows.cli.output import Json, emit, out, say, stderr
from flows.cli.rank import PoolRanker, ReadPool, find_recipe
from flows.cli.recorded_pools import Judgements, Recorded
from flows.cli.tuning import Rules
from flows.process import logs
from flows.process.embedded import Embedded
from operators.evaluation.comparison import ByQuery
from operators.evaluation.halves import By
from operators.evaluation.metrics import TABLE
from operators.evaluation.search_space import Wanted
from schemas.recipes import SHIPPED, Recipe
from schemas.settings import TelemetrySettings, load


def _metric(name: str) -> str:
    if name not in TABLE:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(TABLE)}")
    return name


def evaluate(
    qrels: Annotated[
        Path, typer.Option(exists=True, dir_okay=False, help="Relevance judgements in TREC format (qrels).")
    ],
    queries: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="JSON Lines file of queries, to run.")
    ] = None,
    documents: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="JSON Lines file of documents, which are indexed in this process. Default: the configured index is"
            " searched as it is.",
        ),
    ] = None,
    pools: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="JSON Lines file of recorded pools, or of results that carry them, to rank in place of --queries.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="YAML configuration file of your models, recipes and index; nothing is written to that index, and its"
            " Kafka isn't used. Default: the models and recipes that are shipped."
        ),
    ] = None,
    recipe: Annotated[
        list[str] | None,
        typer.Option(
            help="Recipe: a name or a YAML file; may be repeated. Default: all shipped recipes, and those of --config."
        ),
    ] = None,
    stages: Annotated[bool, typer.Option("--stages", help="Add a row for each stage of a recipe.")] = False,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="A B",
            help="Compare two run files in TREC format, or rows of this command such as hybrid+rerank.",
        ),
    ] = None,
    tune: Annotated[
        list[Wanted] | None,
        typer.Option(
            parser=tuning.parse,
            metavar="STAGE[.PARAMETER[=V,V]]",
            help="What to tune: a stage (or fuse, or all), a parameter, or its values to try; may be repeated. It is"
            " chosen on one half of the queries, and reported on the other.",
        ),
    ] = None,
    write: Annotated[
        Path | None, typer.Option(help="New YAML file for the tuned recipes: a section of the configuration.")
    ] = None,
    metric: Annotated[
        str, typer.Option(parser=_metric, help="Metric that --tune maximises, and by which --compare decides.")
    ] = "nDCG@10",
    hold_out: Annotated[
        By, typer.Option(help="The other half of --tune: of the queries of each namespace, or of the namespaces.")
    ] = By.QUERIES,
    trials: Annotated[int, typer.Option(min=1, help="Settings that --tune tries of a recipe at most.")] = 300,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the halves and of the intervals.")] = 0,
    index_dir: Annotated[
        Path | None, typer.Option("--index", help="Directory for the index. Default: a temporary one.")
    ] = None,
    run_dir: Annotated[Path | None, typer.Option("--run", help="Directory for run files in TREC format.")] = None,
    as_json: Json = False,
) -> None:
    """Measure recipes on judged queries, tune them, or compare two of them.

    The queries run through the real flow (--queries, with --documents, --config, or both), or recorded pools are ranked
    (--pools). Each recipe is measured without its model, and with it if it has one.

    With --tune, parameters are tuned on one half of the queries. Two run files are compared by --qrels and --compare.
    """
    logs.configure(TelemetrySettings(log_level="error", log_format="console"))
    searched = {"--queries": queries, "--documents": documents, "--index": index_dir}
    tuned = {"--compare": compare, "--run": run_dir, "--stages": stages or None}
    if pools is not None:
        _without("--pools", searched, "they hold what was found")
    if tune:
        _without("--tune", tuned, "it measures what it tunes")
    elif write is not None:
        raise typer.BadParameter("it writes what --tune finds", param_hint="--write")
    if write is not None and write.exists():
        raise typer.BadParameter(f"{write} exists", param_hint="--write")
    if compare is not None and not any((queries, documents, pools, config)):
        _run_files(qrels, compare, metric, seed, as_json)
        return
    if pools is None and queries is None:
        raise typer.BadParameter("nothing to measure: give --queries, --pools, or --compare with two run files")
    if pools is None and documents is None and config is None:
        raise typer.BadParameter("nothing to search: give --documents, or --config with an index")
    if index_dir is not None and documents is None:
        raise typer.BadParameter("it keeps the index of --documents", param_hint="--index")
    settings = load(config) if config is not None else None
    known = settings.recipes if settings is not None else SHIPPED
    variants = evaluation.variants(recipe or known, known, stages=stages)
    for name in compare or ():
        comparing.is_run(name, [variant.name for variant in variants])
    whole = tuning.fitting([find_recipe(name, known) for name in recipe or known], tune) if tune else []
    ranker = PoolRanker.of(settings, None, explain=False)
    with contextlib.ExitStack() as stack:
        if pools is not None:
            source = _recorded(recorded_pools.recorded(pools, qrels, ranker), ranker, variants, run_dir)
        else:
            assert queries is not None
            judged = evaluation.judgements(qrels, queries, documents)
            recipes = [variant.recipe for variant in variants]
            flow = evaluation.searched(settings, documents, index_dir, recipes, stderr, deep=bool(tune))
            source = _asked(stack.enter_context(flow), queries, ranker, variants, judged, run_dir)
        if tune:
            rules = tuning.Rules(metric, hold_out, seed, trials)
            _tune(source, ranker, whole, tune, rules, write, as_json)
        else:
            _measure(source, compare, metric, seed, as_json)


@dataclass(frozen=True)
class _Source:
    """Where rows and pools come from: the flow, or a file of recorded pools."""

    judged: Judgements
    rows: Iterator[Row]
    pools: Callable[[Recipe], Iterable[ReadPool]]
    note: str


def _asked(
    running: Embedded,
    queries: Path,
    ranker: PoolRanker,
    variants: Sequence[Variant],
    judged: Judgements,
    run_dir: Path | None,
) -> _Source:
    return _Source(
        judged,
        evaluation.measured(running, queries, variants, judged, run_dir),
        lambda recipe: tuning.record(running, queries, recipe.name, judged, ranker),
        f"{len(judged)} queries are judged",
    )


def _recorded(recorded: Recorded, ranker: PoolRanker, variants: Sequence[Variant], run_dir: Path | None) -> _Source:
    note = f"{len(recorded.judged)} queries are judged; {recorded.reranked} of their pools hold rerank scores"
    if recorded.unrecorded:
        note += f"; {recorded.unrecorded} judged queries have results without a pool, and don't count"
    return _Source(
        recorded.judged,
        recorded_pools.ranked(recorded, ranker, variants, run_dir),
        lambda _: [recorded_pools.asking(read, rerank=True) for read in recorded.pools.values()],
        note,
    )


def _tune(
    source: _Source,
    ranker: PoolRanker,
    recipes: Iterable[Recipe],
    wanted: Sequence[Wanted],
    rules: Rules,
    write: Path | None,
    as_json: bool,
) -> None:
    found = []
    for recipe in recipes:
        pools = source.pools(recipe)
        with tuning.counted(recipe.name, stderr) as tried:
            tuned = tuning.tune(ranker, recipe, pools, wanted, source.judged, rules, tried)
        found.append(tuned)
        if as_json:
            emit(tuned.report())
        else:
            _print(tuning.shown(tuned))
    if write is not None:
        recipe_file.write(write, {each.recipe.name: each.recipe for each in found}, [each.verdict() for each in found])
        say(stderr, f"wrote {write}: copy its section `recipes` into your configuration")
    if not as_json:
        _print([source.note])


def _measure(source: _Source, compare: tuple[str, str] | None, metric: str, seed: int, as_json: bool) -> None:
    rows = {}
    for row in source.rows:
        rows[row.name] = row
        if as_json:
            emit({"recipe": row.name, **row.figures, "judged": len(source.judged), "answers": row.answered})
        else:
            say(stderr, f"{row.name}: done")
    if not as_json:
        _print([evaluation.table(list(rows.values())), source.note])
    if compare is not None:
        values = [(rows[name] if name in rows else comparing.row(Path(name), source.judged)).values for name in compare]
        _compare(compare, values, metric, seed, as_json)


def _run_files(qrels: Path, names: tuple[str, str], metric: str, seed: int, as_json: bool) -> None:
    for name in names:
        comparing.is_run(name, ())
    paths = [Path(name) for name in names]
    judged = comparing.judged_in(qrels, *paths)
    _compare(names, [comparing.row(path, judged).values for path in paths], metric, seed, as_json)


def _compare(names: tuple[str, str], values: Sequence[ByQuery], metric: str, seed: int, as_json: bool) -> None:
    compared = comparing.compared(values[0], values[1], metric, seed)
    if as_json:
        first, second = names
        emit({"first": first, "second": second, **comparing.report(compared), "queries": comparing.moves(compared)})
    else:
        _print(comparing.shown(compared, *names))


def _without(option: str, others: Mapping[str, object], why: str) -> None:
    """Raise BadParameter if one of the others is given beside the option."""
    given = [name for name, value in others.items() if value is not None]
    if given:
        raise typer.BadParameter(f"not with {', '.join(given)}: {why}", param_hint=option)


def _print(parts: Iterable[RenderableType]) -> None:
    for part in parts:
        out.print(part)
