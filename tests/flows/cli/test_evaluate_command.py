"""`evaluate`, `tune` and `compare` on recorded pools and run files, from arguments to what they print and write."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from flows.cli.main import command_line
from flows.process import logs
from schemas.recipes import SHIPPED
from schemas.settings import load


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the pools of twelve queries, which want what the keyword leg prefers, and their judgements."""
    # The process that runs the tests keeps its own logs.
    monkeypatch.setattr(logs, "configure", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    vector = [{"id": "v", "score": 0.9}, {"id": "k", "score": 0.1}]
    keyword = [{"id": "k", "score": 9.0}, {"id": "v", "score": 1.0}]
    legs = [{"name": "vector", "hits": vector}, {"name": "keyword", "hits": keyword}]
    queries = [f"q{number}" for number in range(12)]
    lines = (orjson.dumps({"query": {"query_id": query, "text": query}, "now": 0, "legs": legs}) for query in queries)
    (tmp_path / "pools.jsonl").write_bytes(b"\n".join(lines))
    (tmp_path / "qrels").write_text("".join(f"{query} 0 k 1\n" for query in queries))
    return tmp_path


def printed(command: str, *arguments: str) -> str:
    """The standard output of the command; it must succeed."""
    done = CliRunner().invoke(command_line(), [command, "--qrels", "qrels", *arguments])
    assert done.exit_code == 0, done.stderr
    return done.stdout


def objects(text: str) -> list[dict[str, Any]]:
    """The lines as JSON."""
    return [orjson.loads(line) for line in text.splitlines()]


def test_pools_have_the_rows_of_a_flow(judged: Path) -> None:
    """One a recipe, with the figures, how many queries are judged, and how they are answered."""
    asked = ("--pools", "pools.jsonl", "--recipe", "hybrid", "--recipe", "keyword")
    rows = objects(printed("evaluate", *asked, "--json"))
    assert [(row["recipe"], row["MRR@10"], row["judged"], row["answers"]) for row in rows] == [
        ("hybrid", 0.5, 12, {"ok": 12}),
        ("keyword", 1.0, 12, {"ok": 12}),
    ]
    assert "12 queries are judged; 0 of their pools hold rerank scores" in " ".join(printed("evaluate", *asked).split())


def test_figures_of_lost_answers_are_an_error_unless_told_otherwise(judged: Path) -> None:
    """A query that no leg answered fails: the table is printed, and so is how many are not whole; the code is 1."""
    with (judged / "pools.jsonl").open("ab") as pools, (judged / "qrels").open("a") as qrels:
        pools.write(b"\n" + orjson.dumps({"query": {"query_id": "lost", "text": "x"}, "now": 0, "legs": []}))
        qrels.write("lost 0 k 1\n")
    asked = ["evaluate", "--qrels", "qrels", "--pools", "pools.jsonl", "--recipe", "keyword"]
    done = CliRunner().invoke(command_line(), asked)
    assert done.exit_code == 1
    assert "13 queries are judged" in done.stdout
    assert "keyword: 1 of 13 answers are not whole (1 failed)" in done.stderr
    assert "--allow-partial" in done.stderr
    allowed = CliRunner().invoke(command_line(), [*asked, "--allow-partial"])
    assert allowed.exit_code == 0
    assert "1 of 13 answers are not whole" in allowed.stderr


def test_the_runs_of_rows_are_compared(judged: Path) -> None:
    """The files that `evaluate` wrote have the figures of its rows; a terminal has the verdict."""
    asked = ("--pools", "pools.jsonl", "--recipe", "hybrid", "--recipe", "keyword", "--run", "runs")
    rows = objects(printed("evaluate", *asked, "--json"))
    files = ("runs/hybrid.run", "runs/keyword.run", "--metric", "MRR@10")
    (compared,) = objects(printed("compare", *files, "--json"))
    assert (compared["first"], compared["second"]) == files[:2]
    for metric, means in compared["means"].items():
        assert [means["first"], means["second"]] == [row[metric] for row in rows]
    assert (compared["verdict"], compared["sign_test"]["wins"], len(compared["queries"])) == ("better", 12, 12)
    assert "B is better: the interval of the difference in MRR@10 is above 0." in printed("compare", *files)


def test_queries_without_a_result_count_in_both_commands(judged: Path) -> None:
    """The flow was asked and found nothing: the figures of `compare` are those of `evaluate`."""
    nothing = {"query": {"query_id": "none", "text": "x"}, "now": 0, "legs": [{"name": "keyword", "hits": []}]}
    with (judged / "pools.jsonl").open("ab") as pools, (judged / "qrels").open("a") as qrels:
        pools.write(b"\n" + orjson.dumps(nothing))
        qrels.write("none 0 k 1\nabsent 0 k 1\n")
    asked = ("--pools", "pools.jsonl", "--recipe", "keyword", "--recipe", "hybrid", "--run", "runs", "--allow-partial")
    rows = objects(printed("evaluate", *asked, "--json"))
    (compared,) = objects(printed("compare", "runs/keyword.run", "runs/hybrid.run", "--json"))
    assert [row["judged"] for row in rows] == [compared["judged"]] * 2 == [13, 13]
    assert compared["in_neither"] == 1
    for metric, means in compared["means"].items():
        assert [means["first"], means["second"]] == [row[metric] for row in rows]


def test_a_judged_query_has_a_relevant_document(judged: Path) -> None:
    """One that has none is in no figure, and every command says one number; how many were left out is said apart."""
    lines = (judged / "pools.jsonl").read_bytes().splitlines()
    more = [{**orjson.loads(lines[0]), "query": {"query_id": name, "text": name}, "rerank": {"k": 1}} for name in "xy"]
    (judged / "pools.jsonl").write_bytes(b"\n".join([*lines, *map(orjson.dumps, more)]))
    with (judged / "qrels").open("a") as qrels:
        qrels.write("x 0 k 0\ny 0 v -1\n")
    asked = ("--pools", "pools.jsonl", "--recipe", "keyword")
    rows = objects(printed("evaluate", *asked, "--run", "runs", "--json"))
    assert [(row["recipe"], row["judged"], row["not_relevant"], row["MRR@10"]) for row in rows] == [
        ("keyword", 12, 2, 1.0)
    ]
    (compared,) = objects(printed("compare", "runs/keyword.run", "runs/keyword.run", "--json"))
    assert (compared["judged"], compared["in_neither"]) == (12, 0)
    (tuned,) = objects(printed("tune", "score.alpha=0.2", "--pools", "pools.jsonl", "--recipe", "hybrid", "--json"))
    assert tuned["chosen_on"] + tuned["judged_on"] == 12
    note = "12 queries are judged; 0 of their pools hold rerank scores; 2 have no relevant document, and don't count"
    assert note in " ".join(printed("evaluate", *asked).split())


def test_a_recipe_is_tuned_and_written(judged: Path) -> None:
    """The file configures the tuned recipe, and says on its first line what the held-out queries say."""
    asked = ("fuse", "--pools", "pools.jsonl", "--recipe", "hybrid", "--metric", "MRR@10")
    (tuned,) = objects(printed("tune", *asked, "--write", "tuned.yaml", "--json"))
    assert (tuned["verdict"], tuned["chosen_on"], tuned["judged_on"]) == ("better", 6, 6)
    configured = load(judged / "tuned.yaml", {"qdrant": {"url": "http://127.0.0.1:9"}})
    assert configured.recipes["hybrid"].definition == tuned["definition"]
    assert configured.recipes["hybrid"].hash != SHIPPED["hybrid"].hash
    assert (judged / "tuned.yaml").read_text().startswith("# hybrid: the tuned recipe is better")
    assert "hybrid: the tuned recipe is better on the held-out queries" in printed("tune", *asked)
    # Only a recipe that is shown to be better is to be copied.
    worse = ["tune", "--qrels", "qrels", "score.fuzzy=1.5", *asked[1:], "--write"]
    for arguments, said in (
        (["tune", "--qrels", "qrels", *asked, "--write"], "copy hybrid"),
        (worse, "no recipe in it"),
    ):
        done = CliRunner().invoke(command_line(), [*arguments, f"{said}.yaml"])
        assert f"wrote {said}.yaml: {said}" in " ".join(done.stderr.split())
    # Of the same seed the same search.
    assert objects(printed("tune", *asked, "--json")) == [tuned]
