"""Runs compared: which files are taken, and what is shown."""

import os
import threading
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from flows.cli.evaluate.command import (
    compare_values,
    describe_comparison,
    judgements_of_runs,
    read_run,
    summarise,
)
from flows.cli.evaluate.evaluation import read_qrels
from flows.cli.main import command_line
from flows.process import logs
from operators.evaluation.metrics import by_query, run_lines
from schemas.errors import InputError
from tests.flows.cli.terminal import printed

A = "q1 Q0 x 1 2 a\nq1 Q0 r 2 1 a\nq2 Q0 r 1 1 a\nq3 Q0 x 1 1 a\n"
B = "q1 Q0 r 1 2 b\nq2 Q0 r 1 1 b\nq4 Q0 r 1 1 b\n"
QRELS = "q1 0 r 1\nq2 0 r 1\nq3 0 r 1\nq4 0 r 1\nq5 0 r 1\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Two runs and judgements."""
    for name, text in (("a.run", A), ("b.run", B), ("qrels", QRELS)):
        (tmp_path / name).write_text(text)
    return tmp_path / "a.run", tmp_path / "b.run", tmp_path / "qrels"


def test_two_run_files_by_hand(files: tuple[Path, Path, Path]) -> None:
    """MRR: q1 1/2 -> 1, q2 1 in both, q3 0 in both, q4 0 -> 1, which the first run lacks; q5 is in neither."""
    first, second, qrels = files
    judged, _ = judgements_of_runs(qrels, {each: read_run(each) for each in (first, second)})
    found = compare_values(by_query(read_run(first), judged), by_query(read_run(second), judged), "MRR@10", 0)
    told = orjson.loads(orjson.dumps(summarise(found)))
    assert told["means"]["MRR@10"]["first"] == 0.375
    assert told["means"]["MRR@10"]["second"] == 0.75
    assert told["means"]["MRR@10"]["difference"] == 0.375
    assert told["sign_test"] == {"wins": 2, "losses": 0, "ties": 2, "p": 0.5}
    assert told["verdict"] == "undecided"
    assert told["queries"] == [
        {"query_id": "q4", "first": 0.0, "second": 1.0},
        {"query_id": "q1", "first": 0.5, "second": 1.0},
        {"query_id": "q2", "first": 1.0, "second": 1.0},
        {"query_id": "q3", "first": 0.0, "second": 0.0},
    ]


def test_a_terminal_has_80_columns(files: tuple[Path, Path, Path]) -> None:
    """Long names of files and queries, and brackets in them, are shown whole; queries that didn't move are not."""
    first, second, qrels = files
    long = "[red]" + "q" * 90
    for path in files:
        path.write_text(path.read_text().replace("q1", long))
    judged, _ = judgements_of_runs(qrels, {each: read_run(each) for each in (first, second)})
    found = compare_values(by_query(read_run(first), judged), by_query(read_run(second), judged), "MRR@10", 0)
    text = printed(describe_comparison(found, str(first), "b" * 100))
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "[red]" in text
    assert "better on 2 queries, worse on 0, equal on 2; sign test p = 0.5" in " ".join(text.split())
    assert "Neither is shown to be better: 2 queries differ, 6 are needed." in text
    moved = text[text.index("Queries whose MRR@10 moved most") :]
    assert (moved.count("+1.000"), moved.count("+0.500")) == (1, 1)
    assert "q3" not in moved


def against_itself(qrels: Path, first: Path, second: Path) -> None:
    """A run compared with itself, by the judgements of two."""
    judged, _ = judgements_of_runs(qrels, {each: read_run(each) for each in (first, second)})
    values = by_query(read_run(first), judged)
    compare_values(values, values, "MRR@10", 0)


@pytest.mark.parametrize(
    ("qrels", "said"),
    [("x 0 r 1\n", "none of its 1 queries, such as x, is in .*a.run or .*b.run"), ("q1 0 r 0\n", "relevant document")],
)
def test_runs_of_another_set_are_refused(files: tuple[Path, Path, Path], qrels: str, said: str) -> None:
    """Every figure would be 0."""
    first, second, judgements = files
    judgements.write_text(qrels)
    with pytest.raises(InputError, match=said):
        against_itself(judgements, first, second)


def test_a_line_of_no_run_is_named(files: tuple[Path, Path, Path]) -> None:
    """By its file."""
    files[1].write_text("q1 r 1\n")
    with pytest.raises(InputError, match=r"b\.run: line 1: expected"):
        judgements_of_runs(files[2], {each: read_run(each) for each in files[:2]})


def test_a_byte_order_mark_and_a_pipe_lose_no_line(
    files: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first query counts; a run may be a pipe, which is read once."""
    # The process that runs the tests keeps its own logs.
    monkeypatch.setattr(logs, "configure", lambda *_: None)
    before = compared(*files)
    for path in files:
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert compared(*files) == before
    pipe = files[0].with_name("pipe")
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(files[0].read_bytes(),), daemon=True)
    writer.start()
    assert compared(pipe, *files[1:]) == before
    writer.join()


def compared(first: Path, second: Path, qrels: Path) -> Any:
    """The command's JSON, without the files' names."""
    done = CliRunner().invoke(command_line(), ["compare", str(first), str(second), "--qrels", str(qrels), "--json"])
    assert done.exit_code == 0, done.output
    return {name: value for name, value in orjson.loads(done.stdout).items() if name not in {"first", "second"}}


def test_another_encoding_is_one_line(files: tuple[Path, Path, Path]) -> None:
    """It names the file."""
    files[2].write_bytes("q1 0 Größe 1\n".encode("cp1252"))
    with pytest.raises(InputError, match=r"qrels: UTF-8 is expected$"):
        read_qrels(files[2])


def test_judged_queries_of_neither_run_are_counted_apart(
    files: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Qrels may be those of a larger set, whose other queries would make every figure smaller: the output says how many
    have a relevant document, and the figures are of those that one of the runs has.
    """
    monkeypatch.setattr(logs, "configure", lambda *_: None)
    before = compared(*files)
    assert (before["judged"], before["in_neither"]) == (4, 1)
    files[2].write_text(QRELS + "q6 0 r 1\nq7 0 r 0\n")
    after = compared(*files)
    assert (after["judged"], after["in_neither"], after["means"]) == (4, 2, before["means"])
    shown = CliRunner().invoke(command_line(), ["compare", *map(str, files[:2]), "--qrels", str(files[2])]).stdout
    assert "2 more judged queries are in neither run, and do not count" in shown
    # A run that answers one of them with nothing counts it.
    files[0].write_text(A + "".join(run_lines("q6", [], "a")))
    counted = compared(*files)
    assert (counted["judged"], counted["in_neither"]) == (5, 1)
    assert counted["means"]["MRR@10"]["first"] == before["means"]["MRR@10"]["first"] * 4 / 5
