"""`rankstream run`: the search flow, until a signal."""

from typing import Annotated

import typer

from flows.cli.output import Config
from flows.process import logs
from flows.process.replica import search_replica
from flows.process.serve import serve
from flows.process.supervisor import run_replicas
from schemas.settings import load


def run(
    config: Config = None,
    replicas: Annotated[
        int,
        typer.Option(
            min=1, help="Number of processes to start on this machine; each is a member of the consumer group."
        ),
    ] = 1,
) -> None:
    """Run the search flow: read queries, write results, until SIGTERM."""
    settings = load(config)
    logs.configure(settings.telemetry)
    if replicas > 1:
        arguments = ["run"] if config is None else ["run", "--config", str(config)]
        port = settings.telemetry.port
        raise typer.Exit(run_replicas(arguments, settings.delivery.replica, port, replicas))
    raise typer.Exit(serve(settings, search_replica))
