"""The demo's corpus."""

import hashlib
import os
import subprocess
import sys

import orjson
import pytest

from flows.docstrings import SHORTEST, docstrings
from schemas.document import DocumentEvent

EVENTS = {event["id"]: event for event in docstrings()}

OTHER_PROCESS = """
import hashlib, orjson
from flows.docstrings import docstrings
print(hashlib.sha256(orjson.dumps(list(docstrings()))).hexdigest())
"""


def test_there_are_thousands_of_documents_each_once() -> None:
    """The corpus is large enough to search in, and small enough to index while one waits."""
    assert 4_000 < len(EVENTS) < 6_000
    assert len(list(docstrings())) == len(EVENTS)


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
    assert identity in EVENTS


def test_an_object_with_several_names_is_one_document() -> None:
    """Re-exports and the modules that define them are not repeated."""
    assert "json.decoder.JSONDecoder" not in EVENTS
    assert "posixpath.join" not in EVENTS
    assert "unittest.case.TestCase" not in EVENTS


def test_every_document_is_a_valid_event_with_something_to_read() -> None:
    """Title and text make the content; the text is the docstring, at least as long as promised."""
    for event in EVENTS.values():
        document = DocumentEvent.model_validate(event)
        assert document.title is not None
        assert document.title.startswith(event["id"])
        assert len(event["text"]) >= SHORTEST
        assert document.namespace == "python"


def test_titles_show_parameters_without_their_defaults() -> None:
    """A title reads like a call; nothing in it depends on the process."""
    assert EVENTS["textwrap.shorten"]["title"] == "textwrap.shorten(text, width, **kwargs)"
    assert EVENTS["builtins.str.split"]["title"] == "builtins.str.split(sep, maxsplit)"
    assert EVENTS["textwrap.shorten"]["kind"] == "function"
    assert EVENTS["textwrap"]["kind"] == "module"


def test_modules_that_do_things_when_imported_are_left_alone() -> None:
    """Nothing opens a browser, prints a poem or needs a display."""
    code = "import sys, flows.docstrings as d; list(d.docstrings()); print('antigravity' in sys.modules or 'tkinter' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("False\n", "")


def test_another_process_yields_the_same_bytes() -> None:
    """Neither hash seed nor warning filters change the corpus or its order."""
    here = hashlib.sha256(orjson.dumps(list(docstrings()))).hexdigest()
    for seed in ("1", "2"):
        command = [sys.executable, "-W", "error", "-c", OTHER_PROCESS]
        run = subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}
        )
        assert (run.stdout.strip(), run.stderr) == (here, "")
