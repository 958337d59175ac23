"""The page about the command line: every command with its arguments and options, of the program's own declarations."""

import inspect
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

import typer.main
from typer.core import TyperArgument, TyperGroup

from docs.site.markdown import code, item, paragraph
from flows.cli.main import command_line

_HEAD: Final = """\
# Command line

Every command of `rankstream` with its arguments, in capitals, and its options. This page is generated; `rankstream
COMMAND --help` prints the same.

| exit code | meaning |
| --- | --- |
| 0 | success |
| 1 | a failure, such as a server that does not answer, or what the command names below |
| 2 | a wrong command, option or configuration; the message names it |
| 130 | a second signal ended the process before it had drained |

Results go to standard output; errors, warnings and progress to standard error. Programs should read `--json`: the other
output may change. [configuration.md](configuration.md) has the keys of the file `--config`.
"""

_COMMON: Final = 3
"""An option that so many commands have alike is described once, ahead of them."""

_WORDS: Final = {str: "text", int: "integer", float: "number", Path: "path"}


def page() -> str:
    """The page, as it is kept in the repository."""
    group = typer.main.get_command(command_line())
    assert isinstance(group, TyperGroup)
    counted = Counter(_parameter(each) for command in group.commands.values() for each in command.params)
    common = [line for line, count in counted.items() if count >= _COMMON]
    described = dict.fromkeys(common, "above")
    parts = [_HEAD, "## Before the command\n", _lines(map(_parameter, group.params))]
    parts += ["## Options of several commands\n", _lines(common)]
    for name, command in group.commands.items():
        parts += _command(name, command, described)
    return "\n".join(parts)


def _command(name: str, command: Any, described: dict[str, str]) -> Iterator[str]:
    """A heading, what the command does, and its parameters: those that are described elsewhere by name."""
    yield f"## `{name}`\n"
    for part in re.split(r"\n\s*\n", inspect.cleandoc(command.help)):
        yield paragraph(_plain(part)) + "\n"
    lines: list[str] = []
    repeated: dict[str, list[str]] = {}
    for parameter in command.params:
        where = described.setdefault(line := _parameter(parameter), f"in {code(name)}")
        if where == f"in {code(name)}":
            lines.append(line)
        else:
            repeated.setdefault(where, []).append(f"**{code(parameter.opts[0])}**")
    yield _lines([*lines, *(item(f"As {where}: {', '.join(names)}.") for where, names in repeated.items())])


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _parameter(parameter: Any) -> str:
    """What a parameter does, behind the values that it takes and its default."""
    name = parameter.opts[0]
    if isinstance(parameter, TyperArgument):
        name = name.upper()
    facts = [] if getattr(parameter, "is_flag", False) else [_values(parameter)]
    if parameter.required:
        facts.append("required")
    elif facts and parameter.default is not None and "Default:" not in parameter.help:
        facts.append(f"default {code(str(parameter.default))}")
    return item(
        f"**{code(name)}**{' (' if facts else ''}{', '.join(facts)}{')' if facts else ''}: {_plain(parameter.help)}"
    )


def _values(parameter: Any) -> str:
    """The values that a parameter takes, in words."""
    annotation = parameter.type_descriptor.annotation
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(map(code, get_args(annotation)))
    [kind, *_] = [*get_args(annotation), annotation]
    if parameter.metavar:
        return code(parameter.metavar)
    if issubclass(kind, Enum):
        return "one of " + ", ".join(code(str(each.value)) for each in kind)
    bounds = [(word, getattr(parameter, side)) for word, side in (("from", "min"), ("to", "max"))]
    return " ".join([_WORDS[kind], *(f"{word} {bound:,}" for word, bound in bounds if bound is not None)])


def _plain(text: str) -> str:
    """A help text on one line, its options as code."""
    spans = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(
        span if span.startswith("`") else re.sub(r"(?<![\w-])--[a-z][a-z-]*", r"`\g<0>`", span) for span in spans
    )
