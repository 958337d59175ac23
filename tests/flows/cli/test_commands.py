"""The command line: what it prints, and how it ends."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flows.cli.console.server import TOKEN
from flows.cli.evaluate.evaluation import events
from schemas.recipes import SHIPPED
from tests import warm
from tests.flows.cli.browsing import ask

pytestmark = pytest.mark.slow

CACHE = Path(__file__).parents[3] / ".cache" / "rankstream"
COMMANDS = (
    "demo",
    "run",
    "index",
    "query",
    "console",
    "rank",
    "evaluate",
    "tune",
    "compare",
    "experiment",
    "judgements",
    "rules",
    "topics",
    "collections",
    "check",
    "replay",
)


def rankstream(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("RANKSTREAM_")}
    env |= {"RANKSTREAM_CACHE_DIR": str(CACHE), "TERM": "dumb", **environment}
    return warm.run(arguments, env, 240)


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
    texts = {"d": '{"id": "a", "text": "b"}\n{', "q": '{"query_id": "1", "text": "b"}', "r": "1 0 a 1\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    done = rankstream(
        "evaluate",
        *("--documents", str(tmp_path / "d"), "--queries", str(tmp_path / "q"), "--qrels", str(tmp_path / "r")),
    )
    assert done.returncode == 1
    assert f"{tmp_path / 'd'}: line 2" in done.stderr.replace("\n", "")


def evaluated(
    directory: Path, *options: str, documents: bool = True, command: str = "evaluate"
) -> list[dict[str, Any]]:
    """The output of a command on three documents, or on what is indexed already, and two queries."""
    texts = {"tide": "The tide rises under the moon.", "bread": "Bread rises with yeast.", "law": "A law of motion."}
    lines = [json.dumps({"id": name, "text": text, "namespace": "n"}) for name, text in texts.items()]
    (directory / "d.jsonl").write_text("\n".join(lines))
    queries = [("q1", "what makes dough grow"), ("q2", "why does the sea come in")]
    (directory / "q.jsonl").write_text(
        "\n".join(json.dumps({"query_id": q, "text": t, "namespace": "n", "kind": 1}) for q, t in queries)
    )
    (directory / "qrels").write_text("q1 0 bread 1\nq2 0 tide 1\n")
    done = rankstream(
        command,
        *(("--documents", str(directory / "d.jsonl")) if documents else ()),
        *("--queries", str(directory / "q.jsonl"), "--qrels", str(directory / "qrels"), "--json", *options),
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
def test_evaluate_takes_models_recipes_and_index_of_a_configuration(tmp_path: Path) -> None:
    """With --config, the configured recipes run beside those shipped. Documents go into an index of their own; without
    documents the configured index is searched, and gives the same answers.
    """
    config = tmp_path / "rankstream.yaml"
    config.write_text(
        f"qdrant: {{path: {tmp_path / 'index'}}}\nrerank: {{kind: none}}\n"
        "recipes: {mine: {stages: [{vector: {}}]}}\nkafka: {bootstrap_servers: nowhere:9}\n"
    )
    options = ("--config", str(config), "--recipe", "mine", "--recipe", "rrf")
    judged = evaluated(tmp_path, *options, "--index", str(tmp_path / "index"))
    assert [row["recipe"] for row in judged] == ["mine", "rrf", "rrf+rerank"]
    assert judged[0]["MRR@10"] == 1.0
    # No reranker is configured: the shipped one must not have run.
    assert judged[1] == {**judged[2], "recipe": "rrf"}
    assert evaluated(tmp_path, *options, documents=False) == judged


@pytest.mark.weights
def test_a_demo_that_goes_on_is_asked_by_query(tmp_path: Path) -> None:
    """`demo --serve` prints a command that, from another terminal, has a question answered, and its console's link.

    Its judgements are kept next to the index.
    """
    documents = tmp_path / "d.jsonl"
    documents.write_text('{"id": "tide", "text": "The tide rises under the moon.", "price": "1,5", "sort": "sea"}\n')
    own = {
        "documents": {"formats": {"price": "decimal_comma"}},
        "qdrant": {"path": "unused", "indexes": {"price": "float", "sort": "keyword"}},
        "kafka": {"topics": {"rules": "rules"}},
    }
    (tmp_path / "own.yaml").write_text(json.dumps(own))
    command = [sys.executable, "-m", "flows.cli", "demo", "--documents", str(documents), "--serve"]
    command += ["--config", str(tmp_path / "own.yaml")]
    env = {**os.environ, "RANKSTREAM_CACHE_DIR": str(tmp_path / "a cache"), "COLUMNS": "300", "PYTHONUNBUFFERED": "1"}
    (tmp_path / "a cache").mkdir()
    for built in CACHE.glob("*.onnx"):
        (tmp_path / "a cache" / built.name).symlink_to(built)
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as demo:
        try:
            assert demo.stdout is not None
            printed = next(line for line in demo.stdout if line.startswith("rankstream query "))
            link = next(line for line in demo.stdout if line.startswith("console: ")).split()[1]
            address, _, token = link.partition("/#token=")
            port = int(address.rpartition(":")[2])
            began = ask(port, "GET", "/api/begin", None, **{TOKEN: token})
            assert [each["name"] for each in began.json["configurations"]] == ["demo"]
            grade = json.dumps({"text": "moon", "namespace": "default", "id": "tide", "grade": 2}).encode()
            posted = ask(port, "POST", "/api/judge", grade, **{TOKEN: token, "content_type": "application/json"})
            assert posted.json == {"before": None}
            [qrels] = (tmp_path / "a cache").glob("*/judgements.qrels")
            assert qrels.read_text().split()[1:] == ["0", "tide", "2"]
            _, *arguments = shlex.split(printed)
            # The file is the demo's own: a value is of the index's type, and rules have their topic.
            asked = rankstream(*arguments, "--filter", "price=1.5", "--json")
            assert asked.returncode == 0, asked.stderr
            assert [hit["id"] for hit in json.loads(asked.stdout)["results"]] == ["tide"]
            listed = rankstream("rules", "list", *arguments[1:3])
            assert (listed.returncode, listed.stdout) == (0, ""), listed.stderr
            demo.send_signal(signal.SIGINT)
            assert demo.wait(60) == 0
        finally:
            demo.kill()


@pytest.mark.weights
def test_evaluate_tunes_on_one_half(tmp_path: Path) -> None:
    """Pools come from the real flow; one query chooses among the values, the other says what they are worth."""
    (tuned,) = evaluated(tmp_path, "score.alpha=1,0", "--recipe", "hybrid", "--metric", "MRR@10", command="tune")
    assert (tuned["recipe"], tuned["tried"], tuned["chosen_on"], tuned["judged_on"]) == ("hybrid", 2, 1, 1)
    assert tuned["values"].keys() == {"score.alpha"}
    assert tuned["after"].keys() == tuned["before"].keys() >= {"MRR@10"}


def test_unknown_columns_of_queries_are_metadata(tmp_path: Path) -> None:
    """A field that an event lacks travels in its metadata."""
    path = tmp_path / "q.jsonl"
    path.write_text('{"query_id": "a", "text": "b", "category": 2, "now": "2023-01-01T00:00:00Z"}')
    (event,) = events(path, rerank=False)
    assert event["metadata"] == {"category": 2}
    assert event["now"] == "2023-01-01T00:00:00Z"


def test_a_text_without_a_token_is_answered(tmp_path: Path) -> None:
    """Characters that are no word, to no model and no analyser: the answer lacks nothing that could be known."""
    documents = tmp_path / "documents.jsonl"
    documents.write_text("".join(json.dumps({"id": each, "text": f"a text of {each}"}) + "\n" for each in "abc"))
    texts = ("\u200b", "\u0301\u0301", "\ufeff\u2060", "\x7f", "\ufffd", "lantern")
    asked = [part for text in texts for part in ("--query", text)]
    done = rankstream("demo", "--documents", str(documents), *asked, "--json")
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["status"], each["degraded"]) for each in results] == [("ok", [])] * len(texts)
    for each in results[:-1]:
        assert any(warning.startswith("no_terms: ") for warning in each["warnings"])
