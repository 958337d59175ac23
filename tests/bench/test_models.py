"""The benchmark of the models in the process measures both sides of every row."""

from pathlib import Path

import pytest

from bench import models
from bench.figures import spread


@pytest.mark.weights
@pytest.mark.slow
def test_each_row_has_both_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One small round gives every row rates of both sides and a ratio, and a plot of them."""
    pairs = {"pairs_per_s": {"operator": spread([2.0]), "loop": spread([1.0])}}
    monkeypatch.setattr("bench.reranking.in_process", lambda _: {**pairs, "operator_over_loop": spread([2.0])})
    monkeypatch.setattr(models, "BUDGETS", models.BUDGETS[:1])
    cache = Path("~/.cache/rankstream").expanduser()
    measured = models.figures(1, cache, documents=8, queries=4)
    assert list(measured["rows"]) == list(models.ROWS)
    assert all(row[side]["median"] > 0 for row in measured["rows"].values() for side in ("ours", "loop", "ratio"))
    models.plot(measured, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size
