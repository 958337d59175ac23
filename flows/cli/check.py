"""`rankstream check`: what will not work, and what to do about it."""

from collections.abc import Sequence
from dataclasses import asdict

import typer
from rich.table import Table

from flows.assembly.clients import InProcess
from flows.cli.output import Config, Json, emit, out
from flows.process import logs
from operators.indexing.findings import Finding, Level
from schemas.settings import load

_STYLES = {Level.OK: "green", Level.WARNING: "yellow", Level.ERROR: "red"}


def check(config: Config = None, as_json: Json = False) -> None:
    """Check the Qdrant collections against the configuration. Exit code 1 if something will not work."""
    # Qdrant's models take a second to import: only the commands that need them wait for them.
    from flows.assembly.inspection import described, findings

    settings = load(config)
    logs.configure(settings.telemetry)
    in_process = InProcess(settings)
    try:
        found = findings(settings, described(settings, in_process))
    finally:
        in_process.close()
    if as_json:
        for finding in found:
            emit(asdict(finding))
    else:
        out.print(_table(found))
    raise typer.Exit(1 if any(finding.level is Level.ERROR for finding in found) else 0)


def _table(found: Sequence[Finding]) -> Table:
    table = Table("", "what", "found", "what to do", box=None, pad_edge=False)
    for finding in found:
        level = f"[{_STYLES[finding.level]}]{finding.level}[/]"
        table.add_row(level, *(_plain(text) for text in (finding.subject, finding.found, finding.remedy)))
    return table


def _plain(text: str) -> str:
    # Texts of servers may hold what rich takes for markup.
    return text.replace("[", r"\[")
