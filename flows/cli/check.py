"""`rankstream check`: whether everything that the flows need is there and fits, and what to do if not."""

from typing import Final

import typer

from flows.assembly.clients import InProcess
from flows.cli.findings import Section, show
from flows.cli.model_findings import embedder, reranker
from flows.cli.output import Config, Json
from flows.cli.qdrant_findings import qdrant
from flows.process import logs
from schemas.settings import load

SECTIONS: Final[tuple[Section, ...]] = (qdrant, embedder, reranker)


def check(config: Config = None, as_json: Json = False) -> None:
    """Check the configured Qdrant collections, the embedder and the reranker. Exit code 1 if there is an error.

    Each line is ok, a warning or an error, and says what to do. Nothing is changed.
    """
    settings = load(config)
    logs.configure(settings.telemetry)
    in_process = InProcess(settings)
    failed = False
    try:
        for section in SECTIONS:
            for finding in section(settings, in_process):
                show(finding, as_json=as_json)
                failed = failed or finding.level == "error"
    finally:
        in_process.close()
    raise typer.Exit(1 if failed else 0)
