"""`rankstream run`, `index` and `learn`: the flows until a signal; `index --from` sends documents to a running one."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from flows.assembly.collections import indexing_kafka
from flows.cli.config import begin
from flows.cli.exports import Unwritten, find_unwritten
from flows.cli.ingestion import SHOWN, TIMEOUT, Ingested, ingest_with_bar
from flows.cli.output import Config, Json, emit, input_file, out, say, stderr
from flows.cli.records import Records
from flows.process.replica import Build, feedback_replica, indexing_replica, search_replica
from flows.process.serve import serve
from flows.process.supervision import run_replicas


def run(
    config: Config = None,
    replicas: Annotated[
        int,
        typer.Option(
            min=1,
            help="Processes to start on this machine, all in the consumer group; one that ends is started again. Health"
            " ports: telemetry.port plus the index from 0, or the first free ones.",
        ),
    ] = 1,
    with_indexing: Annotated[
        bool,
        typer.Option(
            "--with-indexing", help="Run the indexing flow in the same process, too, as qdrant.path requires."
        ),
    ] = False,
) -> None:
    """Run the search flow: read queries, write results, until SIGTERM.

    A second one on this machine needs another delivery.replica; with the same one it ends the first.
    """
    settings = begin(config, as_replica=replicas == 1)
    telemetry = settings.telemetry
    if replicas > 1:
        arguments = ["run"] if config is None else ["run", "--config", str(config)]
        arguments += ["--with-indexing"] if with_indexing else []
        port = None if telemetry.finds_port else telemetry.port
        raise typer.Exit(run_replicas(arguments, settings.delivery.replica, port, replicas))
    # The indexing flow first: it makes the collections that do not exist.
    indexing: dict[str, Build] = {"indexing": indexing_replica} if with_indexing else {}
    raise typer.Exit(serve(settings, {**indexing, "search": search_replica}, telemetry.port))


def index(
    config: Config = None,
    source: Annotated[
        Path | None,
        input_file(
            "File of documents (JSON Lines, JSON or CSV), folder of Markdown or HTML, or - for standard input: send it"
            " and wait until each document is applied or rejected.",
            "--from",
            folder=True,
            stdin=True,
        ),
    ] = None,
    allow_rejected: Annotated[
        bool, typer.Option("--allow-rejected", help="Exit with 0 although documents were rejected.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run the indexing flow until SIGTERM, or send a file to a running one (--from).

    A second one on this machine needs another delivery.replica; with the same one it ends the first. With --from it
    counts what the index then has (with qdrant.path: what was sent), and exits with 1 if a document was
    rejected; --json prints these.
    """
    settings = begin(config, as_replica=source is None)
    if source is None:
        raise typer.Exit(serve(settings, {"indexing": indexing_replica}, settings.telemetry.indexing_port))
    with Records.open(source, settings.documents) as records:
        wrong, total = records.survey()
        name, sent = records.path.name, total - len(wrong)
        given = name, records.usable(), sent, stderr, TIMEOUT, settings.documents
        ingested = ingest_with_bar(indexing_kafka(settings), *given)
        unwritten = find_unwritten(records, settings, {each.where for each in ingested.rejected})
    ingested = Ingested(total, [*wrong, *ingested.rejected])
    print_outcome(ingested, unwritten, as_json=as_json)
    raise typer.Exit(1 if ingested.rejected and not allow_rejected else 0)


def learn(config: Config = None) -> None:
    """Run the feedback flow until SIGTERM: read feedback on experiments, write users' preferences."""
    settings = begin(config, as_replica=True)
    raise typer.Exit(serve(settings, {"feedback": feedback_replica}, settings.telemetry.port))


def print_outcome(ingested: Ingested, unwritten: Unwritten | None, *, as_json: bool) -> None:
    """Print the outcome of the documents; for people, with the first rejected ones alone."""
    known = unwritten._asdict() if unwritten is not None else {}
    if as_json:
        for each in ingested.rejected:
            emit(asdict(each))
        emit({"sent": ingested.sent, "applied": ingested.applied, "rejected": len(ingested.rejected), **known})
        return
    number = f"indexed: {ingested.applied - sum(unwritten)}" if unwritten is not None else f"sent: {ingested.sent}"
    say(out, f"documents {number}, rejected: {len(ingested.rejected)}")
    if unwritten is not None and any(unwritten):
        say(stderr, f"not indexed: {unwritten}", "yellow")
    for each in ingested.rejected[:SHOWN]:
        say(stderr, str(each))
    if (more := len(ingested.rejected) - SHOWN) > 0:
        say(stderr, f"{more} more were rejected: --json prints all")
