"""`rankstream rank`: candidate pools in, result events out."""

import sys
from typing import Annotated

import typer

from flows.cli.output import Config, emit, say, stderr
from flows.cli.pool_ranking import PoolRanker
from schemas.errors import InputError
from schemas.settings import load


def rank(
    recipe: Annotated[
        str | None,
        typer.Option(help="Recipe for every pool: a name or a YAML file. Default: the recipe of the pool's query."),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Add a score explanation to each result.")] = False,
    config: Config = None,
) -> None:
    """Rank recorded candidate pools offline: JSON Lines from standard input, one result event per line.

    If a line cannot be ranked, its error goes to standard error, the other lines are ranked, and the exit code is 1.
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
            say(stderr, f"line {number}: {error}")
    raise typer.Exit(1 if failed else 0)
