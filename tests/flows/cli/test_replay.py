"""The replay command: what it takes, and what it prints of what others wrote."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from flows.cli.main import command_line
from flows.cli.output import Terminal
from flows.cli.replay import Tally, moment, rehearsal_table
from operators.delivery.error_codes import RefusalCode
from operators.delivery.replay import Position, Skip
from schemas.errors import DeadLetterClass


@pytest.mark.parametrize(
    "arguments",
    [
        ["--class", "bogus"],
        ["--offset", "queries:1"],
        ["--since", "yesterday"],
        ["--until", "2026-01-01T00:00:00"],
        ["--since", "nan"],
        ["--limit", "0"],
        ["--rate", "0"],
    ],
)
def test_what_cannot_be_meant_is_usage(arguments: list[str]) -> None:
    """An unknown class, a place or a time that is none, a limit or a rate of nothing: exit 2 before anything starts."""
    done = CliRunner().invoke(command_line(), ["replay", *arguments])
    assert done.exit_code == 2
    assert arguments[0] in done.output


def test_an_unknown_class_is_answered_with_those_there_are() -> None:
    """The list is closed, and named."""
    output = CliRunner().invoke(command_line(), ["replay", "--class", "bogus"]).output
    assert all(kind in output.replace("\n", "") for kind in (DeadLetterClass.INVALID, DeadLetterClass.NOT_JSON))


@given(st.floats(0, 1e11))
def test_unix_seconds_are_read_as_they_are_written(seconds: float) -> None:
    """A timestamp that a dry run prints can be given back."""
    assert moment(repr(seconds)) == seconds


def test_an_rfc_3339_time_is_read() -> None:
    """With whatever offset it has."""
    assert moment("2026-01-01T01:00:00+01:00") == moment("2026-01-01T00:00:00Z") == 1_767_225_600
    assert not math.isnan(moment("0"))


def test_messages_are_text() -> None:
    """A message's quotes are neither markup nor obeyed by the terminal."""
    row = {"class": "[red]x", "stage": "s", "place": "q:0:1", "age_s": -5.0, "bytes": 3, "message": "[bold]m"}
    console = Terminal(width=100)
    with console.capture() as captured:
        console.print(rehearsal_table([row]))
    assert "[red]x" in captured.get()
    assert "[bold]m" in captured.get()


def test_a_terminal_of_80_columns_shows_every_column() -> None:
    """Long names of classes and places wrap, and the message has room."""
    row = {
        "class": "unsupported_version",
        "stage": "decode",
        "place": "team.product.queries:12:123456789",
        "age_s": 604_800.0,
        "bytes": 1_048_576,
        "message": "schema_version: 2, this version reads 1",
    }
    console = Terminal(width=80)
    with console.capture() as captured:
        console.print(rehearsal_table([row]))
    assert max(map(len, captured.get().splitlines())) <= 80
    assert all(part in captured.get() for part in ("168.0 h", "1048576", "schema_version: 2"))


def test_the_summary_says_what_became_of_each() -> None:
    """Every one that matched is sent, skipped with its reason, or named as failed."""
    tally = Tally(matched=4, sent=1, refused={Position("q\x1b", 0, 7): RefusalCode.MESSAGE_TOO_LARGE.why})
    tally.skipped[Skip.NO_PAYLOAD] += 2
    assert list(tally.lines("sent")) == [
        "4 matched; 1 sent; 2 skipped, without payload and without an original",
        "failed: q\N{REPLACEMENT CHARACTER}:0:7 is larger than the topic takes",
    ]
    assert tally.report() == {
        "matched": 4,
        "sent": 1,
        "skipped": {"no_payload": 2, "other_topic": 0, "returned": 0},
        "failed": ["q\x1b:0:7"],
        "foreign": 0,
    }
