"""Commands on the pages: how a block of the shell is taken apart, and how each program's commands are checked."""

import re
import shlex
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Final

from tests.deploy.files import check_command
from tests.docs.pages import ROOT

_SEPARATORS: Final = {"|", "||", "&&", ";", "&"}
_REDIRECTIONS: Final = {"<", ">", ">>"}


def commands(text: str) -> Iterator[list[str]]:
    """The words of every command, without what is redirected, the text of here-documents, and comments."""
    text = re.sub(r"(?ms)<<'?(\w+)'?(.*?\n).*?^\1$", r"\2", text).replace("\\\n", " ")
    text = re.sub(r"'[^']*'", lambda quoted: quoted[0].replace("\n", " "), text)
    for line in text.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        words: list[str] = []
        skipping = False
        for word in lexer:
            if word in _SEPARATORS:
                yield words
                words = []
            elif skipping or word in _REDIRECTIONS:
                skipping = not skipping
            else:
                words.append(word)
        if words:
            yield words


def check(command: list[str]) -> None:
    """Fail if a command cannot be one: an unknown program, command, option, target or file."""
    program = command[0].removeprefix(".venv/bin/")
    assert program in CHECKS, f"no check for {program}: tests/docs/shell.py says how commands are checked"
    CHECKS[program](command[1:])


def _make(arguments: list[str]) -> None:
    targets = [each for each in arguments if "=" not in each]
    for target in targets:
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target


def _python(arguments: list[str]) -> None:
    """A module of the repository; `bench` with a command and options that it has."""
    assert arguments[0] == "-m"
    assert find_spec(arguments[1]) is not None
    if arguments[1] == "bench":
        source = (ROOT / "bench" / "__main__.py").read_text()
        assert f'add_parser("{arguments[2]}"' in source
        assert all(f'"{option}"' in source for option in arguments[3:] if option.startswith("--"))


def _files(arguments: list[str]) -> None:
    """Files of the repository that are named are there."""
    for argument in arguments:
        for path in re.findall(r"\b(?:deploy|docs|bench)/[\w./-]*\w", argument):
            assert (ROOT / path).exists(), path


def _offsets(arguments: list[str]) -> None:
    """Options of Kafka's kafka-consumer-groups.sh, which is not here: those of its documentation for 4.1."""
    known = {"--bootstrap-server", "--group", "--topic", "--reset-offsets", "--to-latest", "--to-current"}
    known |= {"--to-earliest", "--from-file", "--export", "--dry-run", "--execute", "--describe", "--command-config"}
    assert {argument for argument in arguments if argument.startswith("--")} <= known


def _any(_: list[str]) -> None:
    """Programs of the system, of which the syntax alone is checked."""


CHECKS: Final[dict[str, Callable[[list[str]], None]]] = {
    "rankstream": check_command,
    "make": _make,
    "python": _python,
    "kafka-consumer-groups.sh": _offsets,
    **dict.fromkeys(("docker", "kubectl", "helm", "kustomize", "promtool"), _files),
    # Those of a release of Kafka and of Qdrant, as their own pages start them.
    **dict.fromkeys(("bin/kafka-storage.sh", "bin/kafka-server-start.sh", "./qdrant"), _any),
    **dict.fromkeys(("awk", "cat", "curl", "echo", "export", "find", "grep", "wc"), _any),
}
"""Checks for the commands of each program. Those that can run here are run, too: see test_blocks.py."""
