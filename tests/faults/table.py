"""The table: a line for each scenario and client, and beneath it what was measured and what was broken."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.faults.run import Row

_NUMBERS = ("in", "out", "dead", "lost", "twice", "outage s", "MiB", "restarts", "took s")


def show(rows: Sequence[Row], console: Console) -> None:
    """Print all rows, the figures of those that have some, and every breach in full."""
    table = Table(box=None, pad_edge=False)
    for column in ("kind", "scenario", "client"):
        table.add_column(column, no_wrap=True)
    for column in _NUMBERS:
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("answers")
    table.add_column("law", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row))
    console.print(table)
    if measured := [row for row in rows if row.figures]:
        console.print(_figures(measured))
    for row in rows:
        for breach in row.breaches:
            console.print(Text(f"{row.scenario} ({row.client}): {breach}", style="red"))
        if row.skipped is not None:
            console.print(Text(f"{row.scenario} ({row.client}) was skipped: {row.skipped}", style="yellow"))


def line(row: Row) -> str:
    """The row in one line, for when it is done."""
    return "  ".join(str(cell) for cell in _cells(row))


def _cells(row: Row) -> list[Text | str]:
    counts = (row.asked, row.results, row.dead_letters, row.lost, row.twice)
    if row.skipped is not None:
        return [row.kind, row.scenario, row.client, *[""] * (len(_NUMBERS) + 1), Text("skipped", style="yellow")]
    kinds = " ".join(f"{kind} {count}" for kind, count in sorted(row.kinds.items(), key=lambda item: -item[1]))
    return [
        row.kind,
        row.scenario,
        row.client,
        *(str(count) for count in counts),
        f"{row.outage_s:.1f}",
        f"{row.memory_mb:.0f}",
        str(row.restarts),
        f"{row.seconds:.0f}",
        kinds,
        Text("kept", style="green") if row.held else Text("BROKEN", style="bold red"),
    ]


def _figures(rows: Sequence[Row]) -> Table:
    table = Table("scenario", "client", "figure", "value", box=None, pad_edge=False)
    for row in rows:
        for name, value in row.figures.items():
            table.add_row(row.scenario, row.client, name, value)
    return table
