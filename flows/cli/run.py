"""`rankstream run`: the search flow, until a signal."""

from typing import Annotated

import typer

from flows.cli.output import Config
from flows.process import logs
from flows.process.replica import Build, indexing_replica, search_replica
from flows.process.serve import serve
from flows.process.supervisor import run_replicas
from schemas.settings import load


def run(
    config: Config = None,
    replicas: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of processes to start on this machine; each is a member of the consumer group, and is started"
            " again if it ends. The health port of each is telemetry.port plus its index, from 0.",
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
        delivery = settings.delivery
        raise typer.Exit(
            run_replicas(arguments, delivery.replica, settings.telemetry.port, replicas, delivery.drain_timeout)
        )
    # The indexing flow first: it makes the collections that do not exist.
    indexing: dict[str, Build] = {"indexing": indexing_replica} if with_indexing else {}
    raise typer.Exit(serve(settings, {**indexing, "search": search_replica}, settings.telemetry.port))
