"""The command line. Exit codes: 0 ok, 1 failure, 2 usage or configuration."""

import typer

from flows.cli.check import check
from flows.cli.collections import collections
from flows.cli.demo import demo
from flows.cli.evaluate import evaluate
from flows.cli.index import index
from flows.cli.output import stderr
from flows.cli.query import query
from flows.cli.rank import rank
from flows.cli.replay import replay
from flows.cli.run import run
from flows.cli.topics import topics
from schemas.errors import ConfigError, RankstreamError

app = typer.Typer(
    name="rankstream",
    help="Streaming search: queries from Kafka, ranked results from Qdrant back to Kafka, each exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

for command in (run, index, query, demo, evaluate, rank, topics, collections, check, replay):
    app.command()(command)


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
