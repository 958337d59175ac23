"""The demo's corpus."""

import os
import subprocess
import sys
import textwrap
from functools import cache
from typing import Any

import pytest

from flows.cli.demo import SHORTEST, docstrings
from schemas.document import DocumentEvent


@cache
def events() -> dict[str, Any]:
    """The corpus by id."""
    return {event["id"]: event for event in docstrings()}


def test_there_are_thousands_of_documents_each_once() -> None:
    """The corpus is large enough to search in, and small enough to index while one waits."""
    assert 4_000 < len(events()) < 6_000
    assert len(list(docstrings())) == len(events())


@pytest.mark.parametrize(
    "identity",
    [
        "time.strptime",
        "datetime.datetime.strptime",
        "datetime.date.fromisoformat",
        "subprocess.run",
        "os.path.join",
        "json.JSONDecoder",
        "asyncio.gather",
        "builtins.str.split",
    ],
)
def test_names_are_those_that_a_reader_would_use(identity: str) -> None:
    """An object is found under its public name, not under that of the module that happens to define it."""
    assert identity in events()


def test_an_object_with_several_names_is_one_document() -> None:
    """Re-exports and the modules that define them are not repeated."""
    assert "json.decoder.JSONDecoder" not in events()
    assert "posixpath.join" not in events()
    assert "unittest.case.TestCase" not in events()


def test_what_another_program_put_into_the_library_is_not_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    """A debugger's or a test runner's hook in place of a function doesn't pass for the library's."""

    def hook() -> None:
        """Stand where a function of the library stood before."""

    monkeypatch.setattr(textwrap, "shorten", hook)
    assert "textwrap.shorten" not in {event["id"] for event in docstrings()}


def test_every_document_is_a_valid_event_with_something_to_read() -> None:
    """Title and text make the content; the text is the docstring, at least as long as promised."""
    for event in events().values():
        document = DocumentEvent.model_validate(event)
        assert document.title == event["id"]
        assert len(event["text"]) >= SHORTEST
        assert document.namespace == "python"


def _in_another_process(code: str, hash_seed: str) -> tuple[str, str]:
    # At its import kafka-python reads its schemas in a way that the standard library deprecates.
    kafka = ("-W", "ignore:read_text is deprecated", "-W", "ignore:open_text is deprecated")
    command = [sys.executable, "-W", "error", *kafka, "-c", code]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return run.stdout.strip(), run.stderr


@pytest.mark.slow
def test_modules_that_do_things_when_imported_are_left_alone() -> None:
    """Nothing opens a browser, prints a poem, warns or needs a display."""
    code = """
import sys
from flows.cli.demo import docstrings
list(docstrings())
print({"antigravity", "this", "tkinter"} & sys.modules.keys())
"""
    assert _in_another_process(code, "0") == ("set()", "")


@pytest.mark.slow
def test_every_process_yields_the_same_bytes() -> None:
    """Neither the hash seed nor an earlier call changes the corpus or its order."""
    code = """
import hashlib, orjson
from flows.cli.demo import docstrings
print(*{hashlib.sha256(orjson.dumps(list(docstrings()))).hexdigest() for _ in range(2)})
"""
    first, second = _in_another_process(code, "1"), _in_another_process(code, "2")
    assert first == second
    digest, errors = first
    assert len(digest) == 64
    assert errors == ""
