"""The page about the command line: every command with its arguments and options, of the program's own declarations."""

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

import typer.main
from typer.core import TyperArgument, TyperGroup

from docs.site.markdown import code, item, paragraph
from flows.cli.main import command_line

_HEAD: Final = """\
# Command line

After reading this page you can look up every command of `rankstream`, its arguments, its options, and its exit codes.

This page is generated from the program; `rankstream COMMAND --help` prints the same. Terms are in the
[glossary](../glossary.md).

- **Exit codes.** 0: all went well. 1: a failure, such as a server that does not answer; a command that has more to say
  of its code does so below. 2: a wrong command, option or configuration; the message names it. 130: the process was
  ended by a second signal, before it had drained.
- **Output.** Results go to standard output. Errors, warnings and progress go to standard error, a failure as one line.
  `--json` prints one JSON object a line, for programs. What commands print without `--json` may change.
- **`--config`.** Without it, the configuration consists of environment variables and defaults: see
  [configuration.md](configuration.md).
"""

_WORDS: Final = {str: "text", int: "integer", float: "number", Path: "path"}


def page() -> str:
    """The page, as it is kept in the repository."""
    group = typer.main.get_command(command_line())
    assert isinstance(group, TyperGroup)
    parts = [_HEAD, "## Before the command\n", _options(group)]
    for name, command in group.commands.items():
        parts += _command(name, command)
    return "\n".join(parts)


def _command(name: str, command: Any) -> Iterator[str]:
    """A heading, the usage, what the command does, and its parameters."""
    yield f"## `{name}`\n"
    for part in re.split(r"\n\s*\n", inspect.cleandoc(command.help)):
        yield paragraph(_plain(part)) + "\n"
    usage = " ".join(["rankstream", name, *(_placeholder(each) for each in command.params), "[OPTIONS]"])
    yield paragraph(f"Usage: {code(' '.join(usage.split()))}") + "\n"
    yield _options(command)


def _options(command: Any) -> str:
    return "".join(f"{_parameter(each)}\n" for each in command.params)


def _placeholder(parameter: Any) -> str:
    """How the usage shows a parameter that has a place of its own, or that must be given."""
    if isinstance(parameter, TyperArgument):
        return parameter.opts[0].upper() if parameter.required else f"[{parameter.opts[0].upper()}]"
    return f"{parameter.opts[0]} {parameter.metavar or parameter.name.upper()}" if parameter.required else ""


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
    return re.sub(r"(?<![\w`-])--[a-z][a-z-]*", r"`\g<0>`", " ".join(text.split()))
