"""Composite re-rank: relevance combined with a document's recency, importance and quality."""

from collections.abc import Iterable, Sequence
from typing import Final

from operators.ranking.candidate import Candidate, best_first
from operators.ranking.quality import Quality, importance, quality, recency, unused_days
from operators.ranking.run import Run
from schemas.recipes.stages import Composite

Column = list[float]

_LEAST: Final = -1e38
"""Lowest relevance: a negative score divided by a tiny maximum must not become infinite."""


def composite(candidates: Sequence[Candidate], stage: Composite, run: Run) -> list[Candidate]:
    """Weighted sum of relevance (score / maximum), recency, importance and quality (quality / maximum).

    Source: memini's `search.RerankWith`, with its weights, 0.80 for relevance and 0.20 for quality.
    """
    relevance, highest = _of_maximum([candidate.score for candidate in candidates])
    terms: dict[str, Column] = {}
    worths: list[Quality] = []
    ages: list[float | None] = []
    best = 0.0
    if stage.relevance:
        terms["relevance"] = relevance
    if stage.recency:
        now = run.now(stage)
        ages = [unused_days(candidate, now, run) for candidate in candidates]
        terms["recency"] = [recency(age) for age in ages]
    if stage.importance:
        terms["importance"] = [importance(candidate.payload, stage.importance_scale) for candidate in candidates]
    if stage.quality:
        now = run.now(stage)
        worths = [quality(candidate, now, stage, run) for candidate in candidates]
        terms["quality"], best = _of_maximum([worth.raw for worth in worths])
    weights = {name: getattr(stage, name) for name in terms}
    before = [candidate.score for candidate in candidates]
    for candidate in candidates:
        candidate.score = 0.0
    for name, weight in weights.items():
        for candidate, value in zip(candidates, terms[name], strict=True):
            candidate.score += weight * value
    columns: dict[str, Iterable[object]] = {**terms}
    if ages:
        columns["age_days"] = ages
    if worths:
        columns["quality_of"] = ({**worth._asdict(), "maximum": best} for worth in worths)
    run.explain(stage, candidates, before, columns, {"maximum": highest})
    return best_first(candidates)


def _of_maximum(column: Column) -> tuple[Column, float]:
    highest = max(column, default=0.0)
    if highest <= 0:
        return [0.0] * len(column), highest
    return [max(value / highest, _LEAST) for value in column], highest
