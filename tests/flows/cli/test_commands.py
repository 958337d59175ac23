"""The command line: what it prints, and how it ends."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flows.cli.answers import answer_table
from flows.cli.evaluation import events
from schemas.recipes import SHIPPED

pytestmark = pytest.mark.slow

CACHE = Path(__file__).parents[3] / ".cache" / "rankstream"
COMMANDS = ("demo", "run", "index", "query", "rank", "evaluate", "topics", "collections", "check", "replay")


def rankstream(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("RANKSTREAM_")}
    return subprocess.run(
        [sys.executable, "-m", "flows.cli", *arguments],
        env={**env, "RANKSTREAM_CACHE_DIR": str(CACHE), "TERM": "dumb", **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_help_names_every_command() -> None:
    """Help exits 0 and has a line for each command."""
    done = rankstream("--help")
    assert done.returncode == 0
    assert all(f" {command} " in done.stdout for command in COMMANDS)


def test_a_wrong_configuration_is_said_at_once(tmp_path: Path) -> None:
    """Every wrong path is named, no value is repeated, and the exit code is 2."""
    config = tmp_path / "c.yaml"
    config.write_text("kafka: {session_timeout: 1}\nqdrant: {url: canary}\nbogus: canary\n")
    done = rankstream("run", "--config", str(config))
    assert done.returncode == 2
    assert all(path in done.stderr for path in ("kafka.session_timeout", "qdrant.url", "bogus"))
    assert "canary" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_option_is_usage() -> None:
    """An option that there isn't exits 2."""
    assert rankstream("run", "--bogus").returncode == 2


def test_a_line_that_is_no_document_is_named(tmp_path: Path) -> None:
    """A broken line of a file is an error with the file's name and the line's number, exit 1."""
    for name, text in {"d": '{"id": "a", "text": "b"}\n{', "q": "", "r": ""}.items():
        (tmp_path / name).write_text(text)
    done = rankstream(
        "evaluate",
        *("--documents", str(tmp_path / "d"), "--queries", str(tmp_path / "q"), "--qrels", str(tmp_path / "r")),
    )
    assert done.returncode == 1
    assert f"{tmp_path / 'd'}:2" in done.stderr.replace("\n", "")


def evaluated(directory: Path, *options: str) -> list[dict[str, Any]]:
    """What `evaluate` prints of three documents and two queries."""
    texts = {"tide": "The tide rises under the moon.", "bread": "Bread rises with yeast.", "law": "A law of motion."}
    lines = [json.dumps({"id": name, "text": text, "namespace": "n"}) for name, text in texts.items()]
    (directory / "d.jsonl").write_text("\n".join(lines))
    queries = [("q1", "what makes dough grow"), ("q2", "why does the sea come in")]
    (directory / "q.jsonl").write_text(
        "\n".join(json.dumps({"query_id": q, "text": t, "namespace": "n", "kind": 1}) for q, t in queries)
    )
    (directory / "qrels").write_text("q1 0 bread 1\nq2 0 tide 1\n")
    done = rankstream(
        "evaluate",
        *("--documents", str(directory / "d.jsonl"), "--queries", str(directory / "q.jsonl")),
        *("--qrels", str(directory / "qrels"), "--json", *options),
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.weights
def test_evaluate_runs_the_real_flow_embedded(tmp_path: Path) -> None:
    """Every recipe answers, reranked or not, with nothing but this process; the figures are those of the answers."""
    rows = evaluated(tmp_path, "--run", str(tmp_path / "runs"))
    assert [row["recipe"] for row in rows] == [
        name + end for name, recipe in SHIPPED.items() for end in ("", "+rerank") if not end or recipe.reranking
    ]
    assert all(row["answers"] == {"ok": 2} for row in rows)
    figures = {row["recipe"]: row["MRR@10"] for row in rows}
    assert figures["hybrid+rerank"] == 1.0
    run = (tmp_path / "runs" / "hybrid+rerank.run").read_text().splitlines()
    assert next(line.split()[:4] for line in run if line.startswith("q1")) == ["q1", "Q0", "bread", "1"]


@pytest.mark.weights
def test_evaluate_tunes_on_one_half(tmp_path: Path) -> None:
    """Pools come from the real flow; one query chooses among the values, the other says what they are worth."""
    (tuned,) = evaluated(tmp_path, "--recipe", "hybrid", "--tune", "score.alpha=1,0", "--metric", "MRR@10")
    assert (tuned["recipe"], tuned["tried"], tuned["chosen_on"], tuned["judged_on"]) == ("hybrid", 2, 1, 1)
    assert tuned["values"].keys() == {"score.alpha"}
    assert tuned["after"].keys() == tuned["before"].keys() >= {"MRR@10"}


def test_unknown_columns_of_queries_are_metadata(tmp_path: Path) -> None:
    """What an event has no field for travels in its metadata."""
    path = tmp_path / "q.jsonl"
    path.write_text('{"query_id": "a", "text": "b", "category": 2, "now": "2023-01-01T00:00:00Z"}')
    (event,) = events(path, rerank=False)
    assert event["metadata"] == {"category": 2}
    assert event["now"] == "2023-01-01T00:00:00Z"


def test_markup_in_answers_is_text() -> None:
    """Brackets in documents and queries are printed, not obeyed."""
    hit = {"id": "[red]x", "rank": 1, "score": 1.0, "text": "[bold]y", "legs": {}}
    result = {"results": [hit], "legs": [], "degraded": [], "status": "ok", "total": 1}
    table = answer_table(result, "[blink]q")
    assert "\\[blink]q" in str(table.title)
