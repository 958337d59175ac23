"""A terminal of 80 columns, as text."""

import io
from collections.abc import Iterable

from rich.console import Console, RenderableType


def printed(parts: Iterable[RenderableType]) -> str:
    """What the parts look like there."""
    console = Console(file=io.StringIO(), width=80, record=True)
    for part in parts:
        console.print(part, highlight=False, markup=False)
    return console.export_text()
