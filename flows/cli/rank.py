"""`rankstream rank`: candidate pools in, result events out."""

import sys
from typing import Annotated

import typer

from flows.cli.output import Config, emit, stderr
from flows.cli.pool_ranking import PoolRanker
from schemas.errors import InputError
from schemas.settings import load


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
