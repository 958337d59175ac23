"""The command line. Exit codes: 0 ok, 1 failure, 2 usage or configuration."""

import ast
import importlib
import importlib.metadata
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Final

import typer

from flows.cli.output import out, say, stderr
from operators.telemetry import remove_absent_propagators
from schemas.errors import ConfigError, RankstreamError

_NAME: Final = "rankstream"
_DEBUG: Final = "--debug"
_LINE_END: Final = re.compile(r"(?<!\n)\n(?!\n)")
"""The end of a line within a paragraph."""

COMMANDS: Final = {
    "run": "run",
    "index": "run",
    "learn": "run",
    "query": "query",
    "console": "console.server",
    "demo": "demo",
    "init": "init",
    "evaluate": "evaluate.command",
    "tune": "evaluate.tune",
    "compare": "evaluate.command",
    "rank": "rank",
    "experiment": "experiment",
    "judgements": "experiment",
    "rules": "rules",
    "topics": "collections",
    "collections": "collections",
    "reindex": "reindex",
    "check": "check.command",
    "config": "config",
    "schema": "config",
    "replay": "replay",
    "forget": "forget",
}
"""In the order of the help: each is the function of this name in this module of the package."""


def _version(wanted: bool) -> None:
    if wanted:
        say(out, f"rankstream {importlib.metadata.version('rankstream')}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option(_DEBUG, help="Before the command: print the whole traceback of a failure.")
    ] = False,
) -> None:
    pass


def _load(name: str) -> Callable[..., None]:
    """The function of a command."""
    function: Callable[..., None] = getattr(importlib.import_module(f"flows.cli.{COMMANDS[name]}"), name)
    return function


def outline(name: str) -> Callable[..., None]:
    """A command in its name and docstring alone, read from the source: importing all of them takes seconds."""
    source = Path(__file__).parent.joinpath(*COMMANDS[name].split(".")).with_suffix(".py")
    body = ast.parse(source.read_bytes()).body
    [function] = (node for node in body if isinstance(node, ast.FunctionDef) and node.name == name)

    def command() -> None:
        pass

    command.__name__, command.__doc__ = name, ast.get_docstring(function)
    return command


def command_line(commands: Iterable[str] = COMMANDS, load: Callable[[str], Callable[..., None]] = _load) -> typer.Typer:
    """The command line with these commands, each as `load` gives it."""
    app = typer.Typer(
        name=_NAME,
        help="Streaming search: queries from Kafka, ranked results from Qdrant back to Kafka, each exactly once.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
        callback=_options,
    )
    for name in commands:
        command = load(name)
        # The lines of a docstring are longer than a terminal's.
        app.command(help=_LINE_END.sub(" ", inspect.getdoc(command) or ""))(command)
    return app


def run_command_line() -> None:
    """Run the command line; a failure is one line, not a traceback."""
    remove_absent_propagators(os.environ)
    # To import a command takes longer than many commands take.
    named = next((argument for argument in sys.argv[1:] if not argument.startswith("-")), None)
    app = command_line([named]) if named in COMMANDS else command_line(load=outline)
    try:
        code = app(standalone_mode=False, prog_name=_NAME)
    except typer.TyperException as error:
        say(stderr, _usage(error), "red")
        raise SystemExit(2) from None
    except Exception as error:  # noqa: BLE001  each is printed, and ends the process
        # Behind the command it is an option of that.
        if not isinstance(error, RankstreamError | OSError) or _DEBUG in sys.argv[1:2]:
            # Python's own would have the terminal obey what the error quotes.
            stderr.print("".join(traceback.format_exception(error)), soft_wrap=True, end="")
            raise SystemExit(1) from None
        is_config = isinstance(error, ConfigError)
        # A configuration has a line for each problem.
        for line in f"configuration: {error}".split("\n") if is_config else [str(error)]:
            say(stderr, line, "red")
        raise SystemExit(2 if is_config else 1) from None
    raise SystemExit(code)


def _usage(error: typer.TyperException) -> str:
    """The mistake in the arguments, and the command that prints help."""
    said: Callable[[], str] = getattr(error, "format_message", error.__str__)
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else _NAME
    # What pydantic calls an argument that is refused says nothing to who gave it.
    words = " ".join(said().replace("Value error, ", "").split())
    return f"{words} (see {command} --help)"
