"""Output of commands: results on standard output, everything else on standard error.

No text of others is obeyed: neither as markup or the name of an emoji by Rich, nor by the terminal (schemas.texts).
That holds for pipes and files, too: whoever shows them has a terminal.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from schemas.texts import json_line, printable


class Terminal(Console):
    """A console on which everything is text as it is; only Rich's own codes and line ends control it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Replace what `printable` replaces, in whatever part of a table or tree it stands."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text, "\n"), style, control)


out = Terminal()
stderr = Terminal(stderr=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
Config = Annotated[
    Path | None, typer.Option("--config", help="YAML configuration file. Default: environment variables only.")
]


def say(console: Console, line: str, style: str | None = None) -> None:
    """Print one line as it is: neither wrapped, ended nor coloured by what is in it."""
    console.print(printable(line), style=style, soft_wrap=True)


def emit(value: object) -> None:
    """Print one JSON object on a line of its own, whatever the terminal's width."""
    sys.stdout.write(json_line(value) + "\n")
    sys.stdout.flush()
