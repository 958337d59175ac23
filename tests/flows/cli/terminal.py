"""A terminal of 80 columns, as text."""

import io
from collections.abc import Iterable

from rich.console import RenderableType

from flows.cli.output import Terminal


def printed(parts: Iterable[RenderableType]) -> str:
    """The parts as that terminal shows them."""
    console = Terminal(file=io.StringIO(), width=80, record=True)
    for part in parts:
        console.print(part)
    return console.export_text()
