"""The tutorial, followed to the letter from an empty folder, and the lines that the page of errors quotes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.slow
@pytest.mark.weights
def test_own_documents_are_searched_from_an_empty_folder(tmp_path: Path) -> None:
    """Every command of the part without a server succeeds, and finds the document that is meant."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RANKSTREAM_")}
    environment |= {"PATH": path, "RANKSTREAM_CACHE_DIR": str(tmp_path / "cache"), "COLUMNS": "80"}
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(blocks("sh"))],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert "documents of export.jsonl indexed: 4" in done.stdout
    assert re.search(r"│ 1 +│ reset ", done.stdout)
    assert re.search(r"ok, \d matching", done.stdout)


def test_the_lines_of_the_errors_page_are_those_that_are_printed() -> None:
    """The tutorial's quotes, without their values, are in the program."""
    parts = [ROOT / part for part in ("flows", "operators", "schemas")]
    program = "".join(path.read_text() for part in parts for path in part.rglob("*.py"))
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    quoted = [
        "; did you mean ",
        "no such setting",
        "set one of url and path",
        "secrets come from the environment or from a file (..._file), not from YAML",
        "cannot listen on ",
        "no Kafka broker answers at ",
        "topics that don't exist: ",
        "is the indexing flow running?",
        "is the search flow running?",
        "the dead letter of a message of the largest size is kept without the message",
        "the query was refused (",
        "an upsert needs `text`, `title`, or its embedding as `vector`",
        "none of its ",
        "no answer that kafka-python understands; ",
        " is open in another process, and only one can have it:",
        "the embedded Qdrant can't use ",
    ]
    for line in quoted:
        assert line in page
        assert line in program
