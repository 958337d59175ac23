"""The page about events: every field and header is explained, and its examples are events."""

import re
from pathlib import Path
from typing import get_args

import orjson
import pytest
from pydantic import BaseModel

from schemas import headers as names
from schemas.document import DeletionEvent, DocumentEvent
from schemas.errors import DeadLetterClass, Reason
from schemas.feedback import FeedbackEvent, UbiEvent
from schemas.preference import PairedRankings
from schemas.query import QueryEvent
from schemas.result import Degradation, ResultEvent, Status

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGE = (REFERENCE / "events.md").read_text()
MODELS: dict[str, type[BaseModel]] = {
    "query": QueryEvent,
    "result": ResultEvent,
    "document": DocumentEvent,
    "feedback": FeedbackEvent,
}


def explained(section: str) -> list[str]:
    """The names in the first column of a section's table."""
    rows = PAGE.partition(f"\n## {section.capitalize()}\n")[2].partition("\n## ")[0]
    return [name for cell in re.findall(r"(?m)^\| (`.*?) \|", rows) for name in re.findall(r"`([\w.]+)`", cell)]


@pytest.mark.parametrize("name", MODELS)
def test_every_field_is_explained_once(name: str) -> None:
    """The tables have the fields of the models, and no others."""
    assert sorted(explained(name)) == sorted(field.alias or own for own, field in MODELS[name].model_fields.items())


def test_every_header_of_a_dead_letter_is_explained() -> None:
    """The headers are those that are written, and the classes those that there are."""
    written = [value for name, value in vars(names).items() if name.isupper() and name[0] != "_"]
    headers = [value for value in written if isinstance(value, str) and value.startswith("__connect.")]
    assert sorted(explained("dead letter")) == sorted({*headers} - {names.ERROR_PREFIX})
    classes = PAGE.partition("The class of the error: ")[2].partition("|")[0]
    assert {*re.findall(r"`(\w+)`", classes)} == {*DeadLetterClass}


def test_every_status_is_named() -> None:
    """The result's table lists them all."""
    row = next(line for line in PAGE.splitlines() if line.startswith("| `status`"))
    assert {*re.findall(r"`(\w+)`", row)} - {"status"} == {*Status}


@pytest.mark.parametrize(
    ("heading", "words"),
    [("reason", set(Reason)), ("stage", set(get_args(Degradation.model_fields["stage"].annotation)))],
)
def test_every_part_that_may_be_missing_is_explained(heading: str, words: set[str]) -> None:
    """The page of backends has a row for each reason, and for each stage."""
    [table] = re.findall(rf"(?m)^\| {heading} \|.*\n((?:\|.*\n)+)", (REFERENCE / "backends.md").read_text())
    assert {name for row in re.findall(r"(?m)^\| (.*?) \|", table) for name in re.findall(r"`(\w+)`", row)} == words, (
        f"docs/reference/backends.md: the table of each {heading}"
    )


@pytest.mark.parametrize(("name", "example"), re.findall(r"```json (\w+)\n(.*?)```", PAGE, re.DOTALL))
def test_every_example_is_an_event(name: str, example: str) -> None:
    """The page's queries can be sent, and its results are real ones."""
    models: dict[str, type[BaseModel]] = {
        **MODELS,
        "deletion": DeletionEvent,
        "comparison": PairedRankings,
        "ubi": UbiEvent,
    }
    models[name].model_validate(orjson.loads(example))
