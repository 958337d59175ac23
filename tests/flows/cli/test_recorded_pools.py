"""Recorded pools judged without an index: which pools count, what is refused, and the figures by hand."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from flows.cli.evaluate.command import read_run
from flows.cli.evaluate.evaluation import AnswerCounts, ReportRow, make_row, variants
from flows.cli.evaluate.sources import Recorded, rank_pools, read_pools
from flows.cli.rank import PoolRanker
from operators.evaluation.metrics import evaluate_run
from schemas.errors import InputError

RANKER = PoolRanker.of(None, None, explain=False)
HITS = {
    "vector": [{"id": "v", "score": 0.9}, {"id": "k", "score": 0.1}],
    "keyword": [{"id": "k", "score": 9.0}, {"id": "v", "score": 0.0}],
}


def pool(query_id: str, said: dict[str, float] | None = None, **query: Any) -> dict[str, Any]:
    """A pool in which the vector leg prefers `v` and the keyword leg `k`."""
    legs = [{"name": name, "hits": hits} for name, hits in HITS.items()]
    asked = {"query_id": query_id, "text": "x", **query}
    return {"query": asked, "now": 0, "legs": legs, **({"rerank": said} if said else {})}


def result(query_id: str, **carried: Any) -> dict[str, Any]:
    """The reading of a result event."""
    return {"schema_version": 1, "query_id": query_id, "result_id": f"r{query_id}", "status": "ok", **carried}


def read(directory: Path, qrels: str, *lines: Any) -> Recorded:
    """The recording in a file of these lines, together with these judgements."""
    content = b"\n".join(line if isinstance(line, bytes) else orjson.dumps(line) for line in lines)
    (directory / "pools.jsonl").write_bytes(content)
    (directory / "qrels.txt").write_text(qrels)
    return read_pools(directory / "pools.jsonl", directory / "qrels.txt", RANKER)


def rows(found: Recorded, *names: str, runs: Path | None = None) -> dict[str, ReportRow]:
    """The rows of these recipes."""
    return {row.name: row for row in rank_pools(found, RANKER, variants(names, stages=False), runs)}


def test_pools_and_results_that_carry_them_are_judged(tmp_path: Path) -> None:
    """By hand: at equal weights the vector leg's document is first. What isn't judged isn't read; a judged query whose
    result carries no pool is counted apart.
    """
    found = read(
        tmp_path,
        "a 0 v 1\nb 0 k 1\nc 0 v 1\nabsent 0 v 1\nd 0 v 0\n",
        pool("a"),
        b"",
        result("b", pool=pool("b")),
        result("c"),
        result("d"),
        pool("unjudged"),
        result("unjudged too"),
    )
    assert found.pools.keys() == found.judged.keys() == {"a", "b"}
    assert (found.unrecorded, found.reranked) == (1, 0)
    row = rows(found, "hybrid")["hybrid"]
    assert row.figures["MRR@10"] == 0.75
    assert row.tally.answered == {"ok": 2}
    assert row.values["MRR@10"] == {"a": 1.0, "b": 0.5}


def test_a_model_has_a_row_where_its_scores_are_recorded(tmp_path: Path) -> None:
    """The row without the model ranks without it, the other with it, whether or not the query had asked for it."""
    for rerank in (True, False):
        found = read(tmp_path, "a 0 k 1\n", pool("a", {"v": 0.1, "k": 0.9}, rerank=rerank))
        assert {name: row.figures["MRR@10"] for name, row in rows(found, "hybrid").items()} == {
            "hybrid": 0.5,
            "hybrid+rerank": 1.0,
        }
    assert rows(read(tmp_path, "a 0 k 1\n", pool("a")), "hybrid").keys() == {"hybrid"}


def test_the_page_that_was_asked_for_does_not_matter(tmp_path: Path) -> None:
    """All of the pool is judged, from its first candidate on."""
    found = read(tmp_path, "a 0 k 1\n", {**pool("a", limit=1), "skip": 1})
    assert rows(found, "hybrid")["hybrid"].figures["MRR@10"] == 0.5


def test_a_missing_leg_is_said_by_the_answers(tmp_path: Path) -> None:
    """A recipe that wants more than was recorded has partial answers."""
    keyword = {**pool("a"), "legs": pool("a")["legs"][1:]}
    found = read(tmp_path, "a 0 k 1\n", keyword)
    assert rows(found, "hybrid")["hybrid"].tally.answered == {"partial": 1}
    assert rows(found, "keyword")["keyword"].tally.answered == {"ok": 1}


def test_runs_are_written(tmp_path: Path) -> None:
    """In TREC's format, as for queries that run through the flow."""
    rows(read(tmp_path, "a 0 k 1\n", pool("a")), "vector", runs=tmp_path / "runs")
    assert (tmp_path / "runs" / "vector.run").read_text() == "a Q0 v 1 0.9 vector\na Q0 k 2 0.1 vector\n"


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("team/a", "team%2Fa.run"),
        ("team%2Fa", "team%252Fa.run"),
        ("../a", "..%2Fa.run"),
        ("a\\b", "a%5Cb.run"),
        ("score > dedupe", "score > dedupe.run"),
    ],
)
def test_a_run_is_a_file_of_its_directory(tmp_path: Path, name: str, file: str) -> None:
    """Whatever its recipe is called; two names are two files."""
    make_row(name, {"a": [("v", 1.0)]}, AnswerCounts(), {"a": {"v": 1}}, tmp_path / "runs")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [file]


def test_ids_with_white_space_are_judged_and_compared(tmp_path: Path) -> None:
    """In the qrels as in the runs they are encoded: both commands have the same figures."""
    hits = [{"id": id_, "score": 1.0 - rank} for rank, id_ in enumerate(("AB%2012", "AB 12"))]
    line = {**pool("my query"), "legs": [{"name": "keyword", "hits": hits}]}
    found = read(tmp_path, "my%20query 0 AB%2012 1\n", line)
    row = rows(found, "keyword", runs=tmp_path / "runs")["keyword"]
    run = read_run(tmp_path / "runs" / "keyword.run")
    assert row.figures["MRR@10"] == evaluate_run(run, found.judged)["MRR@10"] == 0.5


@pytest.mark.parametrize(
    ("qrels", "lines", "said"),
    [
        ("x 0 v 1\n", [pool("a")], "qrels.txt: none of its 1 queries, such as x, is in .*pools.jsonl"),
        ("a 0 z 1\na 0 v 0\n", [pool("a")], "none of its 1 relevant documents, such as z, is in .*pools.jsonl"),
        ("a 0 v 1\n", [result("a")], "none of its 1 queries, such as a, is in .*pools.jsonl"),
        ("a 0 v 1\n", [pool("a"), b"{"], "pools.jsonl:2: "),
        ("a 0 v 1\n", [pool("a"), {"query": {}}], "pools.jsonl:2: "),
        ("a 0 v\n", [pool("a")], "qrels.txt: line 1: expected `query 0 document grade`"),
        ("a 0 v 1\n", [pool("a"), pool("a", text="y")], "pools.jsonl:2: query a has another pool in line 1"),
    ],
)
def test_what_cannot_be_judged_is_refused(tmp_path: Path, qrels: str, lines: list[Any], said: str) -> None:
    """Judgements of another set, lines that are no pool, and two pools of one query, each by file and line."""
    with pytest.raises(InputError, match=said):
        read(tmp_path, qrels, *lines)


@pytest.mark.parametrize(("asked", "name"), [({}, "a#1"), ({"group_by": "doc"}, "a"), ({"group_by": "no"}, "a#1")])
def test_grouped_pools_are_judged_by_keys(tmp_path: Path, asked: dict[str, Any], name: str) -> None:
    """A judgement of the other name finds nothing, and is refused."""
    hits = [{"id": f"{doc}#1", "score": 1.0, "payload": {"doc": doc}} for doc in "ab"]
    line = {**pool("q", group_size=1, **asked), "legs": [{"name": "keyword", "hits": hits}]}
    found = read(tmp_path, f"q 0 {name} 1\n", line)
    assert rows(found, "keyword")["keyword"].figures["MRR@10"] == 1.0
    for other in {"a", "a#1"} - {name}:
        with pytest.raises(InputError, match="none of its 1 relevant documents"):
            read(tmp_path, f"q 0 {other} 1\n", line)


def test_a_result_that_came_twice_is_one(tmp_path: Path) -> None:
    """A topic of at-least-once delivery may hold the same pool twice."""
    assert read(tmp_path, "a 0 v 1\n", pool("a"), result("a", pool=pool("a"))).pools.keys() == {"a"}


def test_a_query_that_cannot_be_ranked_is_named(tmp_path: Path) -> None:
    """With the recipe that needs more of it than it has."""
    timeless = {name: value for name, value in pool("a").items() if name != "now"}
    with pytest.raises(InputError, match="query a, recipe composite: now: required by the stage temporal"):
        rows(read(tmp_path, "a 0 v 1\n", timeless), "composite")
