"""`rankstream index`: the indexing flow, until a signal, or until a file is indexed."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.output import Config, out, stderr
from flows.cli.progress import index_file
from flows.process import logs
from flows.process.replica import indexing_replica
from flows.process.serve import serve
from schemas.settings import load


def index(
    config: Config = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="JSON Lines file of documents: send it to a running indexing flow, and wait until it is applied.",
        ),
    ] = None,
) -> None:
    """Run the indexing flow until SIGTERM, or send a file to a running one (--from)."""
    settings = load(config)
    logs.configure(settings.telemetry)
    if source is None:
        raise typer.Exit(serve(settings, indexing_replica))
    count = index_file(settings.kafka, source, stderr)
    out.print(f"indexed {count} documents")
