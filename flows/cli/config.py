"""`rankstream config` and `rankstream schema`: the configuration in effect, by which commands begin, and contracts."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, get_args

import orjson
import typer

from flows.cli.output import Config, Json, emit, out, say
from flows.process import logs
from schemas import contracts
from schemas.settings import Settings, TelemetrySettings, load
from schemas.settings.reading import EffectiveValue, effective
from schemas.texts import json_line

_INDENT: Final = "  "

_PLAIN: Final = re.compile(r"[^\W\d][\w.-]*(?: [\w.-]+)*|\.{0,2}/[\w./-]+")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""Plain words that YAML does not read as texts."""


def begin(path: Path | None, *, as_replica: bool = False) -> Settings:
    """The configuration of a command, which logs as it says from now on; a replica by its name. Raises ConfigError."""
    settings = load(path)
    logs.configure(settings.telemetry, settings.delivery.replica if as_replica else None)
    return settings


def begin_quietly() -> None:
    """Have a command log errors alone: it shows the rest."""
    logs.configure(TelemetrySettings(log_level="error", log_format="console"))


def config(config: Config = None, as_json: Json = False) -> None:
    """Print every setting with its value, as YAML; a comment says whether the file or a variable set it.

    Secrets are masked. Exit code 2 if the configuration cannot be used.
    """
    values = effective(config)
    if as_json:
        for each in values:
            emit({"path": ".".join(map(str, each.path)), "value": each.value, "source": each.source})
    else:
        for line in yaml_lines(values):
            say(out, line)


def yaml_lines(
    values: Iterable[EffectiveValue], notes: Mapping[tuple[Any, ...], Sequence[str]] = MappingProxyType({})
) -> Iterator[str]:
    """The values as YAML of a configuration file; secrets, and sections of nothing else, are comments.

    `notes` are lines above the value, or the section, at a path.
    """
    values = list(values)
    shown = {each.path[:depth] for each in values if not each.secret for depth in range(len(each.path) + 1)}
    before: tuple[Any, ...] = ()
    for path, value, source, secret in values:
        if secret and value is None:
            continue
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(path[:-1], before, strict=False)))
        for depth in range(shared, len(path)):
            begin, indent = path[: depth + 1], _INDENT * depth
            yield from (f"{indent}{line}" for line in notes.get(begin, ()))
            came = "" if source == "default" else f"  # {source}"
            said = f" {_write(value)}{came}" if begin == path else ""
            yield f"{indent}{'' if begin in shown else '# '}{_write(path[depth])}:{said}"
        before = path[:-1]


def _write(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    # JSON is YAML.
    return f"[{', '.join(map(_write, value))}]" if isinstance(value, list) else json_line(value)


Contract = Literal["config", "query", "result", "document", "deletion", "dead-letter", "pool", "rule", "asyncapi"]


def schema(
    name: Annotated[Contract | None, typer.Argument(help="Which one to print. Default: all names.")] = None,
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
        for each in get_args(Contract):
            say(out, each)
    else:
        emit(made[name])
