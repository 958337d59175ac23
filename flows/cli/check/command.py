"""`rankstream check`: whether everything that the flows need is there and fits, and what to do if not."""

from collections.abc import Mapping
from contextlib import closing
from enum import StrEnum
from typing import Annotated, Final

import typer

from flows.assembly import query
from flows.assembly.clients import InProcess
from flows.cli.check import Finding, PartCheck, show
from flows.cli.check.kafka import check_kafka
from flows.cli.check.qdrant import check_qdrant
from flows.cli.check.servers import check_chat, check_clocks, check_embedder, check_reranker, check_sparse_encoder
from flows.cli.output import Config, Json
from flows.process import logs
from schemas.settings import load

CheckPart = StrEnum("CheckPart", ["kafka", "qdrant", "embedder", "sparse_encoder", "reranker", "chat", "clock"])
"""Parts that can be checked alone."""

CHECKS: Final[Mapping[CheckPart, PartCheck]] = {
    CheckPart.kafka: check_kafka,
    CheckPart.qdrant: check_qdrant,
    CheckPart.embedder: check_embedder,
    CheckPart.sparse_encoder: check_sparse_encoder,
    CheckPart.reranker: check_reranker,
    CheckPart.chat: check_chat,
    CheckPart.clock: check_clocks,
}


def check(
    config: Config = None,
    parts: Annotated[
        list[CheckPart] | None, typer.Option("--part", help="Check this part alone; may be repeated. Default: all.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check Kafka, Qdrant's collections, the models and the clocks. Exit code 1 if there is an error.

    Each line is ok, a warning or an error, and says what to do. Nothing is changed.
    """
    settings = load(config)
    # Without the secret that an experiment needs, the search flow does not start.
    query.tokens(settings)
    # Each finding says what they log, and what is logged of a backend that fails.
    quiet = {"log_level": "error"} if settings.telemetry.log_level != "debug" else {}
    logs.configure(settings.telemetry.model_copy(update=quiet), clients=False)
    failed = False
    if settings.unread_decay:
        what = f"no profile's recipe has the stage decay: {', '.join(settings.unread_decay)} are not read"
        show(Finding("warning", "decay", what, "Give a profile such a recipe, or remove the tiers."), as_json=as_json)
    with closing(InProcess(settings)) as in_process:
        for part in parts or CheckPart:
            for finding in CHECKS[part](settings, in_process):
                show(finding, as_json=as_json)
                failed = failed or finding.level == "error"
    raise typer.Exit(1 if failed else 0)
