"""The sources of formulas are named, and explaining them costs nothing where no explanation is asked for."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from operators.evaluation import comparison, metrics, search
from operators.evaluation import comparison as bootstrap
from operators.evaluation import comparison as sign_test
from operators.ranking import blend, candidate, distance, pipeline
from operators.ranking import composite as quality
from operators.ranking import content as keywords
from operators.ranking import fusion as linear
from operators.ranking.candidate import Candidate
from operators.ranking.normalise import NORMALISERS
from operators.ranking.run import Facts, Run, ScoreExplanations
from schemas.recipes.stages import Dedupe

FORMULAS: set[Callable[..., Any]] = {
    *pipeline._FUSION.values(),
    *pipeline._LATER.values(),
    *distance._FACTORS.values(),
    *NORMALISERS.values(),
    *(
        candidate.best_first,
        candidate.best_first_by_id,
        linear.resolve_decay,
        linear.weigh_age,
        distance.rank_by_distance,
        distance.pick,
    ),
    *(keywords.keywords, keywords.overlap, linear.bound, blend.rank_reflections, quality.proximity),
    *(pipeline.keep_order, pipeline.first_phase, pipeline.second_phase),
    *(quality.importance, quality.weekly_recency, quality.quality, quality.salience, quality.confidence),
    *(metrics.any_at, metrics.recall_at, metrics.reciprocal_rank_at, metrics.ndcg_at, metrics.evaluate_run),
    *(metrics.by_query, metrics.mean, bootstrap.interval, sign_test.sign_test, comparison.compare_systems),
    *(metrics.halves, search.coordinate_search),
}


@pytest.mark.parametrize("formula", sorted(FORMULAS, key=lambda each: str(each.__doc__)))
def test_every_formula_names_its_source(formula: Callable[..., Any]) -> None:
    """A function that computes a score, a weight or an order says whose formula it is, or that it is our own."""
    assert "Source: " in (formula.__doc__ or "")


def test_columns_are_read_for_explanations_only() -> None:
    """A stage's columns are taken only for an explained query, each candidate with its own values and the shared."""
    candidates = [Candidate("a", 2.0), Candidate("b", 1.0)]

    def column() -> Iterator[int]:
        read.append(True)
        yield from (1, 2)

    read: list[bool] = []
    Run(Facts()).rescore(Dedupe(), candidates, (5.0, 6.0), {"column": column()}, {"shared": 0})
    assert not read
    run = Run(Facts(), ScoreExplanations({}))
    run.rescore(Dedupe(), candidates, (3.0, 4.0), {"column": column()}, {"shared": 0})
    assert run.explanations is not None
    assert [
        (id_, step["input"], step["output"], step["values"])
        for id_, explanation in run.explanations.by_id.items()
        for step in explanation.stages
    ] == [("a", 5.0, 3.0, {"column": 1, "shared": 0}), ("b", 6.0, 4.0, {"column": 2, "shared": 0})]
    assert [each.score for each in candidates] == [3.0, 4.0]
