"""`rankstream run` and `rankstream index`: the flows until a signal; or a file, until it is indexed."""

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from flows.assembly.clients import InProcess
from flows.assembly.collections import indexing_kafka
from flows.cli.ingestion import SHOWN, Ingested, index_file
from flows.cli.output import Config, Json, emit, out, reread, say, stderr
from flows.process import logs
from flows.process.replica import Build, indexing_replica, search_replica
from flows.process.serve import serve
from flows.process.supervision import run_replicas
from schemas.settings import load


def run(
    config: Config = None,
    replicas: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of processes to start on this machine; each is a member of the consumer group, and is started"
            " again if it ends. The health port of each is telemetry.port plus its index, from 0; the first free one,"
            " if it is not set.",
        ),
    ] = 1,
    with_indexing: Annotated[
        bool,
        typer.Option(
            "--with-indexing",
            help="Run the indexing flow, too, in the same process: with qdrant.path only one can open the index.",
        ),
    ] = False,
) -> None:
    """Run the search flow: read queries, write results, until SIGTERM."""
    settings = load(config)
    supervised = replicas > 1
    logs.configure(settings.telemetry, None if supervised else settings.delivery.replica)
    if supervised:
        arguments = ["run"] if config is None else ["run", "--config", str(config)]
        arguments += ["--with-indexing"] if with_indexing else []
        delivery, telemetry = settings.delivery, settings.telemetry
        port = None if telemetry.finds_port else telemetry.port
        raise typer.Exit(run_replicas(arguments, delivery.replica, port, replicas, delivery.drain_timeout))
    # The indexing flow first: it makes the collections that do not exist.
    indexing: dict[str, Build] = {"indexing": indexing_replica} if with_indexing else {}
    raise typer.Exit(serve(settings, {**indexing, "search": search_replica}, settings.telemetry.port))


def index(
    config: Config = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            exists=True,
            dir_okay=False,
            callback=reread,
            help="JSON Lines file of documents: send it to a running indexing flow, and wait until each is applied or"
            " rejected.",
        ),
    ] = None,
    allow_rejected: Annotated[
        bool, typer.Option("--allow-rejected", help="Exit with 0 although documents were rejected.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run the indexing flow until SIGTERM, or send a file to a running one (--from).

    With --from the exit code is 1 if a document was rejected. --json prints each rejected document, and the counts.
    """
    settings = load(config)
    logs.configure(settings.telemetry, settings.delivery.replica if source is None else None)
    if source is None:
        raise typer.Exit(serve(settings, {"indexing": indexing_replica}, settings.telemetry.indexing_port))
    with closing(InProcess(settings)) as in_process:
        indexing = indexing_kafka(settings, in_process)
    ingested = index_file(settings.kafka, indexing, source, stderr)
    print_outcome(ingested, as_json=as_json)
    raise typer.Exit(1 if ingested.rejected and not allow_rejected else 0)


def print_outcome(ingested: Ingested, *, as_json: bool) -> None:
    """Print the outcome of the documents; for people, with the first rejected ones."""
    if as_json:
        for each in ingested.rejected:
            emit(asdict(each))
        emit({"sent": ingested.sent, "applied": ingested.applied, "rejected": len(ingested.rejected)})
        return
    say(out, f"documents indexed: {ingested.applied}, rejected: {len(ingested.rejected)}")
    for each in ingested.rejected[:SHOWN]:
        say(stderr, str(each))
    if (more := len(ingested.rejected) - SHOWN) > 0:
        say(stderr, f"{more} more were rejected: --json prints all")
