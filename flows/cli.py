"""The command line. Exit codes: 0 ok, 1 failure, 2 usage or configuration."""

import sys
import uuid
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console

from flows import demo as demonstration
from flows import evaluate as evaluation
from flows import logs, tuning
from flows import replay as replaying
from flows.asking import Asker
from flows.backends import Resources
from flows.process import ensure_collections, indexing_replica, search_replica, serve
from flows.progress import index_file
from flows.ranking import PoolRanker
from flows.replay import moment
from flows.replicas import run_replicas
from operators.delivery import topics as kafka_topics
from operators.delivery.kafka_python import KAFKA
from operators.delivery.replay import Filter, Place
from operators.telemetry import tracer_provider
from schemas.errors import ConfigError, DeadLetterClass, InputError, RankstreamError
from schemas.query import MAX_LIMIT
from schemas.recipes import SHIPPED
from schemas.settings import TelemetrySettings, load

app = typer.Typer(
    name="rankstream",
    help="Answers query events from Kafka with ranked results from Qdrant, exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

out = Console()
stderr = Console(stderr=True)

Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
Config = Annotated[Path | None, typer.Option("--config", help="The YAML file; missing: the environment alone.")]


@app.command()
def run(
    config: Config = None,
    replicas: Annotated[int, typer.Option(min=1, help="Processes to run here, each a member of the group.")] = 1,
) -> None:
    """Run the search flow until SIGTERM."""
    settings = load(config)
    logs.configure(settings.telemetry)
    if replicas > 1:
        arguments = ["run"] if config is None else ["run", "--config", str(config)]
        port = settings.telemetry.port
        raise typer.Exit(run_replicas(arguments, settings.delivery.replica, port, replicas))
    raise typer.Exit(serve(settings, search_replica))


@app.command()
def index(
    config: Config = None,
    source: Annotated[
        Path | None, typer.Option("--from", help="A JSON Lines file of document events: produce it, wait, stop.")
    ] = None,
) -> None:
    """Run the indexing flow until SIGTERM, or until a file is indexed."""
    settings = load(config)
    logs.configure(settings.telemetry)
    if source is None:
        raise typer.Exit(serve(settings, indexing_replica))
    count = index_file(settings.kafka, source, stderr)
    out.print(f"indexed {count} documents")


@app.command()
def query(
    text: Annotated[str, typer.Argument(help="What to look for.")],
    config: Config = None,
    namespace: Annotated[str | None, typer.Option(help="The tenant.")] = None,
    profile: Annotated[str | None, typer.Option(help="What the query gets: fast, balanced, deep, or another.")] = None,
    recipe: Annotated[str | None, typer.Option(help="How it is ranked; missing: as its profile says.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_LIMIT, help="Results wanted.")] = 10,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the answer.")] = 30.0,
    as_json: Json = False,
) -> None:
    """Produce one query event and print its result."""
    settings = load(config)
    logs.configure(settings.telemetry)
    event: dict[str, Any] = {"query_id": f"cli-{uuid.uuid4()}", "text": text, "limit": limit}
    given = {"namespace": namespace, "profile": profile, "recipe": recipe}
    event |= {name: value for name, value in given.items() if value is not None}
    with Asker(settings.kafka, KAFKA, tracer_provider().get_tracer("rankstream.query")) as asker:
        for result in asker.ask([event], timeout):
            show(result, text, as_json)


@app.command()
def demo(
    query: Annotated[list[str] | None, typer.Option("--query", help="Your own query; may be repeated.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_LIMIT, help="Results a query.")] = 5,
    serve_on: Annotated[bool, typer.Option("--serve", help="Keep broker and flow up until Ctrl-C.")] = False,
    cache_dir: Annotated[
        Path, typer.Option(envvar="RANKSTREAM_CACHE_DIR", help="Where the model's graph and the index are kept.")
    ] = Path("~/.cache/rankstream"),
    as_json: Json = False,
) -> None:
    """Search the Python standard library's documentation, everything embedded, no server needed."""
    logs.configure(TelemetrySettings(log_level="error", log_format="console"))
    queries = query or demonstration.QUERIES
    cache = cache_dir.expanduser()
    results = demonstration.demo(cache, queries, limit=limit, serve=serve_on, console=stderr if as_json else out)
    for result, text in zip(results, queries, strict=False):
        show(result, text, as_json)


@app.command()
def evaluate(
    documents: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Document events, JSON Lines.")],
    queries: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Query events, JSON Lines.")],
    qrels: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="TREC judgements.")],
    recipe: Annotated[
        list[str] | None, typer.Option(help="A recipe, by name or YAML file; may be repeated. Missing: all.")
    ] = None,
    stages: Annotated[bool, typer.Option("--stages", help="A row for each stage of a recipe, too.")] = False,
    tune: Annotated[
        list[tuning.Knob] | None,
        typer.Option(
            parser=tuning.Knob.parse,
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
    ways = evaluation.ways(recipe or SHIPPED, stages=stages)
    judged = evaluation.judgements(qrels)
    with evaluation.searched(documents, index_dir, [way.recipe for way in ways], stderr) as running:
        if tune:
            whole = [way.recipe for way in ways if way.rerank]
            for tuned in tuning.tuned(running, queries, whole, tune, judged, metric):
                emit(tuned.report()) if as_json else out.print(tuning.table(tuned))
            return
        rows = []
        for row in evaluation.compare(running, queries, ways, judged, run_dir):
            rows.append(row)
            if as_json:
                emit({"recipe": row.name, **row.figures, "answers": row.answered})
            else:
                stderr.print(f"{row.name}: done", highlight=False)
    if not as_json:
        out.print(evaluation.table(rows))


@app.command()
def rank(
    recipe: Annotated[
        str | None, typer.Option(help="Rank every pool by this recipe, a name or a YAML file; missing: as it says.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say of each result how it came to its score.")] = False,
    config: Config = None,
) -> None:
    """Rank candidate pools from standard input, JSON Lines, and print a result event a line.

    A line that can't be ranked is an error on standard error; the others are ranked, and the exit code is 1.
    """
    ranker = PoolRanker.of(load(config) if config is not None else None, recipe, explain=explain)
    failed = False
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        try:
            emit(ranker(line))
        except InputError as error:
            failed = True
            stderr.print(f"line {number}: {error}", highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(1 if failed else 0)


@app.command()
def topics(config: Config = None) -> None:
    """Create the topics and collections that don't exist yet."""
    settings = load(config)
    logs.configure(settings.telemetry)
    for name in kafka_topics.create(settings.kafka):
        out.print(f"created topic {name}")
    resources = Resources(settings)
    for name in ensure_collections(settings, resources):
        out.print(f"created collection {name}")
    resources.close()


@app.command()
def replay(
    config: Config = None,
    kinds: Annotated[list[DeadLetterClass] | None, typer.Option("--class", help="Of this class.")] = None,
    stage: Annotated[str | None, typer.Option(help="Rejected by this stage.")] = None,
    topic: Annotated[str | None, typer.Option(help="Of this original topic.")] = None,
    places: Annotated[
        list[Place] | None,
        typer.Option("--offset", parser=Place.parse, metavar="TOPIC:PARTITION:OFFSET", help="Of this original place."),
    ] = None,
    since: Annotated[float | None, typer.Option(parser=moment, metavar="TIME", help="Sent then or later.")] = None,
    until: Annotated[float | None, typer.Option(parser=moment, metavar="TIME", help="Sent before then.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Replay at most so many.")] = None,
    rate: Annotated[float, typer.Option(min=0.001, max=100_000, help="At most so many a second.")] = replaying.RATE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be sent, send nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Send dead letters back as new queries and documents: those for which every given filter holds.

    --class and --offset may be repeated: any of them. A TIME is RFC 3339 with an offset, or Unix seconds, and compared
    with the time at which the original was sent. Replaying twice sends twice: by law two queries, two answers.
    """
    settings = load(config)
    logs.configure(settings.telemetry)
    wanted = Filter(frozenset(kinds or ()), stage, topic, frozenset(places or ()), since, until)
    tally = replaying.Tally()
    try:
        if dry_run:
            rows = replaying.rehearse(settings.kafka, wanted, limit, stderr, tally)
            if as_json:
                for row in rows:
                    emit(row)
            else:
                out.print(replaying.table(rows))
        else:
            replaying.replay(settings.kafka, wanted, limit, rate, stderr, tally)
    finally:
        if as_json and not dry_run:
            emit(tally.report())
        else:
            for line in tally.lines("would be sent" if dry_run else "sent"):
                stderr.print(line, highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(1 if tally.refused else 0)


def show(result: dict[str, Any], text: str, as_json: bool) -> None:
    """Print one result event."""
    if as_json:
        emit(result)
    else:
        out.print(demonstration.answer_table(result, text))


def emit(value: object) -> None:
    """Print one JSON object on a line of its own, whatever the terminal's width."""
    sys.stdout.write(orjson.dumps(value).decode() + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run the command line; errors of ours are one line each, not a traceback."""
    try:
        app()
    except ConfigError as error:
        stderr.print(f"configuration: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        raise SystemExit(2) from None
    except RankstreamError as error:
        stderr.print(str(error), style="red", highlight=False, markup=False, soft_wrap=True)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
