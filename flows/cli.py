"""The command line. Exit codes: 0 ok, 1 failure, 2 usage or configuration."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from flows import logs
from schemas.errors import ConfigError, RankstreamError
from schemas.settings import load

app = typer.Typer(
    name="rankstream",
    help="Answers query events from Kafka with ranked results from Qdrant, exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

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
        from flows.replicas import run_replicas  # noqa: PLC0415

        raise typer.Exit(run_replicas(settings, config, replicas))
    from flows.process import serve  # noqa: PLC0415

    raise typer.Exit(serve(settings))


@app.command()
def topics(config: Config = None) -> None:
    """Create the topics that don't exist yet."""
    from operators.delivery import topics as kafka_topics  # noqa: PLC0415

    settings = load(config)
    for name in kafka_topics.create(settings.kafka):
        Console().print(f"created topic {name}")


def main() -> None:
    """Run the command line; errors of ours are one line each, not a traceback."""
    try:
        app()
    except ConfigError as error:
        Console(stderr=True).print(f"configuration: {error}", style="red", highlight=False, markup=False)
        raise SystemExit(2) from None
    except RankstreamError as error:
        Console(stderr=True).print(str(error), style="red", highlight=False, markup=False)
        raise SystemExit(1) from None
