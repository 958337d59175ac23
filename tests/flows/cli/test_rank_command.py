"""The command `rankstream rank`: pools on standard input, a result a line, and how it ends."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.recipes import SHIPPED, Recipe
from schemas.result import ResultEvent
from schemas.settings import load
from tests import warm
from tests.flows.cli.test_pool_ranking import NOW, pool

pytestmark = pytest.mark.slow

Done = subprocess.CompletedProcess[bytes]


def rank(lines: Sequence[object], *arguments: str, seed: str | None = None) -> Done:
    """Run the command on these lines to its end, with hashes of this seed; what isn't bytes is written as JSON."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("RANKSTREAM_")}
    env |= {"TERM": "dumb", "COLUMNS": "40"}
    given = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    if seed is None:
        done = warm.run(["rank", *arguments], env, 120, given)
        return Done(done.args, done.returncode, done.stdout.encode(), done.stderr.encode())
    command = [sys.executable, "-m", "flows.cli", "rank", *arguments]
    return subprocess.run(command, input=given, env={**env, "PYTHONHASHSEED": seed}, capture_output=True, timeout=120)


def results(done: Done) -> list[dict[str, Any]]:
    """The results that were printed, one a line, each of which must hold to the contract."""
    for line in done.stdout.splitlines():
        ResultEvent.model_validate_json(line)
    return [json.loads(line) for line in done.stdout.splitlines()]


def asked(query_id: str, **fields: Any) -> dict[str, Any]:
    """A pool of a query with this id."""
    document = pool(**fields)
    return {**document, "query": {**document["query"], "query_id": query_id}}


def test_a_result_a_line_in_the_order_of_the_pools() -> None:
    """Each pool gives one line, in its place; blank lines and a missing last line end are nothing; exit 0."""
    recipes = [name for name in SHIPPED for _ in range(3)]
    lines: list[object] = [asked(f"q{at}", recipe=name, at=NOW) for at, name in enumerate(recipes)]
    done = rank([b"", *lines[:5], b"  \t", *lines[5:]])
    assert (done.returncode, done.stderr) == (0, b"")
    assert [(result["query_id"], result["provenance"]["recipe"]) for result in results(done)] == [
        (f"q{at}", name) for at, name in enumerate(recipes)
    ]
    assert done.stdout.endswith(b"}\n")


def test_nothing_in_is_nothing_out() -> None:
    """Without a pool there is no result and no error."""
    done = rank([b"", b"\r"])
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_line_that_cannot_be_ranked_leaves_the_others() -> None:
    """Each bad line is one line on standard error with its number, blank ones counted; the rest is ranked; exit 1."""
    bad: dict[int, tuple[object, str]] = {
        1: (b"{", "unexpected end"),
        3: (b"\xff\xfe", "line 3: "),
        5: ([1, 2], "a JSON object is expected, not list"),
        6: ({"query": {"query_id": "q", "text": "x"}}, "legs: missing"),
        7: (asked("q", recipe="composite"), "now: required by the stage temporal"),
        8: (asked("q", recipe="[red]nope"), "recipe: not configured"),
        9: (asked("q", overrides={"score": {"alpha": 7}}), "score.alpha: Input should be less than or equal to 1"),
        11: (asked("q", text="y" * 9000), "text: 9000 characters, at most 8192"),
    }
    lines = [bad[number][0] if number in bad else asked(f"q{number}") for number in range(1, 13)]
    lines[1] = b""
    done = rank(lines)
    assert done.returncode == 1
    assert [result["query_id"] for result in results(done)] == ["q4", "q10", "q12"]
    said = done.stderr.decode().splitlines()
    assert [line.split(":")[0] for line in said] == [f"line {number}" for number in bad]
    for line, (_, problem) in zip(said, bad.values(), strict=True):
        assert problem in line
    assert "[red]nope" in said[5]


def test_a_result_that_carries_its_pool_is_ranked_like_the_pool() -> None:
    """Results from their topic need no unpacking; a result without pool says what its query lacks."""
    carried = asked("a", record=True)
    (result,) = results(rank([carried]))
    (again,) = results(rank([result]))
    assert (again["results"], again["pool"]) == (result["results"], result["pool"])
    done = rank([{name: value for name, value in result.items() if name != "pool"}])
    assert done.returncode == 1
    assert b"pool: missing: the query of this result must ask with record: true" in done.stderr


def test_a_recipe_by_name_ranks_every_pool() -> None:
    """With --recipe NAME no pool is ranked by its own; without --explain none is explained."""
    done = rank([asked("a"), asked("b", recipe="keyword")], "--recipe", "rrf")
    assert done.returncode == 0
    assert [result["provenance"]["recipe"] for result in results(done)] == ["rrf", "rrf"]
    assert not any("explanation" in hit for result in results(done) for hit in result["results"])


def test_a_recipe_in_a_file_ranks_every_pool_and_explains(tmp_path: Path) -> None:
    """With --recipe FILE.yaml its stages are run, under the file's name; --explain explains every result. A query
    without a model has the stages on distances, too.
    """
    stages = ["vector", {"importance_boost": {"enabled": True, "importance_scale": 1}}]
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"stages": stages}))
    done = rank([asked("a"), asked("b", rerank=False)], "--recipe", str(path), "--explain")
    assert done.returncode == 0
    ran = ["vector", "importance_boost"]
    for result in results(done):
        assert result["provenance"]["recipe_hash"] == Recipe.parse("x", {"stages": stages}).hash
        assert result["provenance"]["recipe"] == "mine"
        assert [[step["stage"] for step in hit["explanation"]["stages"]] for hit in result["results"]] == [ran] * 3


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("stages: [{score: {alpha: 2}}]\n", "score.alpha: Input should be less than or equal to 1"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, content: str | None, said: str) -> None:
    """A file that is no recipe ends the command with 2 before anything is ranked, with its path and what is wrong."""
    path = tmp_path / "mine.yaml"
    if content is not None:
        path.write_text(content)
    done = rank([asked("a")], "--recipe", str(path))
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().startswith(f"configuration: {path}: ")
    assert said in done.stderr.decode()
    assert len(done.stderr.splitlines()) == 1


def test_an_unknown_recipe_is_named() -> None:
    """A name that is neither a recipe nor a file ends the command with 2, and the recipes that there are are listed."""
    done = rank([asked("a")], "--recipe", "hybird")
    assert (done.returncode, done.stdout) == (2, b"")
    assert all(name in done.stderr.decode() for name in ("hybird", *SHIPPED))


def test_a_configuration_is_ranked_under(tmp_path: Path) -> None:
    """With --config its recipes and profiles count, and its hash is in provenance; a wrong one ends with 2."""
    path = tmp_path / "rankstream.yaml"
    mine = {"recipes": {"mine": {"stages": ["dbsf"]}}, "profiles": {"balanced": {"recipe": "mine"}}}
    path.write_text(yaml.safe_dump({"qdrant": {"url": "http://q"}, **mine}))
    done = rank([asked("a")], "--config", str(path))
    assert done.returncode == 0
    (result,) = results(done)
    assert result["provenance"]["recipe"] == "mine"
    assert result["provenance"]["config_hash"] == load(path).config_hash()
    path.write_text("qdrant: {url: no}\n")
    done = rank([asked("a")], "--config", str(path))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"qdrant.url" in done.stderr


def test_the_same_pools_give_the_same_bytes() -> None:
    """In another process, with other hashes of strings, the output is the same to the byte."""
    lines = [asked(name, recipe=name, at=NOW, rerank_scores={"sum": 2.0, "old": 1.0}) for name in SHIPPED]
    first, second = (rank(lines, "--explain", seed=seed) for seed in ("1", "2"))
    assert first.returncode == 0
    assert len(first.stdout.splitlines()) == len(SHIPPED)
    assert first.stdout == second.stdout
