"""The benchmark of recall measures what it says."""

from pathlib import Path

import pytest

from bench import recall, report
from bench.recall import Plan, figures, passages, questions


def test_recall_is_the_share_of_the_exact_hits() -> None:
    """Whatever their order, and whatever else was found."""
    assert recall.recall(["b", "a"], ["a", "b"]) == 1.0
    assert recall.recall(["a", "x", "y"], ["a", "b"]) == 0.5
    assert recall.recall([], ["a"]) == 0.0


def test_the_corpus_is_the_same_each_time() -> None:
    """As many passages as asked for, each once, and questions that are none of them."""
    found = passages(500)
    assert found == passages(500)
    assert len({*found}) == 500
    asked = questions(50)
    assert asked == questions(50)
    assert not {*asked} & {*found}


@pytest.mark.weights
def test_few_points_are_searched_exactly(tmp_path: Path) -> None:
    """Below the size at which Qdrant builds an index all of them are found, by any value, in one of the namespaces."""
    found = figures(Plan(points=200, namespaces=2, queries=3, rounds=1), tmp_path / "model", tmp_path / "index")
    assert (found["points"], found["namespaces"]) == (200, 2)
    assert [row["hnsw_ef"] for row in found["rows"]] == list(recall.VALUES)
    assert {row["recall"] for row in found["rows"]} == {1.0}
    assert found["rows"][0]["ratio"]["median"] == 1.0
    assert report.recall_table(found).row_count == len(recall.VALUES)
