"""The benchmark of quality beside cost measures what it says."""

import json
from argparse import Namespace
from pathlib import Path

import pytest
from rich.console import Console

from bench import commands, quality, report
from bench.quality import Asked, plot, rows
from flows.process import logs

DIMENSION = 384


@pytest.mark.weights
@pytest.mark.slow
def test_a_row_has_what_a_recipe_reaches_and_what_it_costs(tmp_path: Path) -> None:
    """The model's row has the bytes of a vector for each token more, and that of keywords has no dense vector."""
    texts = {"a": "a boat in the harbor", "b": "a lantern of copper", "c": "an orchard in winter"}
    files = {
        "documents": [{"id": id_, "namespace": "n", "text": text} for id_, text in texts.items()],
        "queries": [{"query_id": f"q{id_}", "namespace": "n", "text": text} for id_, text in texts.items()],
    }
    for name, events in files.items():
        (tmp_path / name).write_text("".join(f"{json.dumps(event)}\n" for event in events))
    (tmp_path / "qrels").write_text("".join(f"q{id_} 0 {id_} 1\n" for id_ in texts))
    documents, queries, qrels = (tmp_path / name for name in ("documents", "queries", "qrels"))
    asked = Asked(documents, queries, qrels, ["hybrid", "keyword"], None, tmp_path / "index")
    measured = {row["recipe"]: row for row in rows(asked, Console(quiet=True))}
    assert list(measured) == ["hybrid", "hybrid+rerank", "keyword"]
    assert {row["MRR@10"] for row in measured.values()} == {1.0}
    assert all(row["cpu_ms"] > 0 and row["answers"] == {"ok": 3} for row in measured.values())
    # Eight bytes a word; stop words are in the index.
    words = measured["keyword"]["bytes"]
    assert words == pytest.approx(8 * (5 + 4 + 4) / 3)
    assert measured["hybrid"]["bytes"] == 4 * DIMENSION + words
    # Half a byte a component, of five, four and four words.
    tokens = measured["hybrid+rerank"]["bytes"] - measured["hybrid"]["bytes"]
    assert tokens == pytest.approx(DIMENSION / 2 * (5 + 4 + 4) / 3)
    plot("three", list(measured.values()), tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert report.quality_table("three", list(measured.values())).row_count == 3


@pytest.mark.parametrize("allowed", [False, True])
def test_figures_of_lost_answers_are_an_error(allowed: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The benchmark fails unless told otherwise, as `evaluate` does."""
    row = {"recipe": "keyword", "nDCG@10": 0.5, "cpu_ms": 1.0, "bytes": 9, "answers": {"ok": 1, "partial": 1}}
    monkeypatch.setattr(quality, "rows", lambda *_: iter([{**row, "lost": {"vector": 1}}]))
    monkeypatch.setattr(logs, "configure", lambda *_: None)
    files = dict.fromkeys(("documents", "queries", "qrels"), tmp_path)
    said = Namespace(**files, recipe=[], config=None, index=None, plot=None, json=True, allow_partial=allowed)
    assert commands.judged(said) == (0 if allowed else 1)
