"""What commands print: results on standard output, everything else on standard error."""

import sys
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Console

out = Console()
stderr = Console(stderr=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
Config = Annotated[
    Path | None, typer.Option("--config", help="YAML configuration file. Default: environment variables only.")
]


def say(console: Console, line: str, style: str | None = None) -> None:
    """Print one line as it is: neither wrapped nor coloured by what is in it."""
    console.print(line, style=style, highlight=False, markup=False, soft_wrap=True)


def emit(value: object) -> None:
    """Print one JSON object on a line of its own, whatever the terminal's width."""
    sys.stdout.write(orjson.dumps(value).decode() + "\n")
    sys.stdout.flush()
