"""`rankstream schema`: the contracts of the topics and of the configuration, generated from the models."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import orjson
import typer

from flows.cli.output import emit, out, say
from schemas import contracts


class Name(StrEnum):
    """What has a schema."""

    CONFIG = "config"
    QUERY = "query"
    RESULT = "result"
    DOCUMENT = "document"
    DEAD_LETTER = "dead-letter"
    POOL = "pool"
    ASYNCAPI = "asyncapi"


def schema(
    name: Annotated[Name | None, typer.Argument(help="Which one to print. Default: all names.")] = None,
    write: Annotated[
        Path | None, typer.Option("--write", file_okay=False, help="Write all of them into this directory.")
    ] = None,
) -> None:
    """Print the JSON Schema of an event or of the configuration, or the AsyncAPI document of all topics."""
    made = contracts.all_contracts()
    if write is not None:
        write.mkdir(parents=True, exist_ok=True)
        for file, content in made.items():
            (write / f"{file}.json").write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")
    elif name is None:
        for each in Name:
            say(out, each.value)
    else:
        emit(made[name])
