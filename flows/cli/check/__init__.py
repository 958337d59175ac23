"""Findings: what `rankstream check` says of one thing, and what to do about it."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Final, Literal

from rich.text import Text

from flows.assembly.clients import InProcess
from flows.cli.output import emit, out
from schemas.settings import Settings
from schemas.texts import printable

Level = Literal["ok", "warning", "error"]

_STYLES: Final = {"ok": "green", "warning": "yellow", "error": "red"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: `ok`; `warning`, it works, but not in all parts or not as well; `error`, it does not work.

    `subject` is what was looked at, such as `qdrant documents`; `remedy` says what to do, if there is anything.
    """

    level: Level
    subject: str
    what: str
    remedy: str | None = None


PartCheck = Callable[[Settings, InProcess], Iterator[Finding]]
"""Looks at one part of the deployment; whatever fails there is a finding, and nothing is raised."""


def show(finding: Finding, *, as_json: bool) -> None:
    """Print one finding on a line of its own."""
    if as_json:
        emit(asdict(finding))
        return
    line = Text.assemble(
        (f"{finding.level:<8}", _STYLES[finding.level]), printable(f"{finding.subject}: {finding.what.rstrip('.')}.")
    )
    if finding.remedy is not None:
        line.append(printable(f" {finding.remedy}"))
    out.print(line, soft_wrap=True)
