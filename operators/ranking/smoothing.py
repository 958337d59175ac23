"""The stage `smoothing`: documents that are like each other get scores that are like each other."""

import numpy as np

from operators.ranking.candidate import Candidate, best_first_by_id
from operators.ranking.head import follow, head
from operators.ranking.run import Run
from schemas.recipes.similarity import Smoothing


def smoothing(candidates: list[Candidate], stage: Smoothing, run: Run) -> list[Candidate]:
    """(1 - weight) * score + weight * mean score of the nearest, min-max over the first candidates; the others follow.

    The mean is that of the nearest `neighbours` by cosine, each weighted by exp(cosine / temperature). A candidate
    without a vector keeps its score, and is nobody's neighbour. Without vectors nothing changes. Source: Diaz 2005,
    "Regularizing Ad Hoc Retrieval Scores", one step of it; the weights are our own.
    """
    found = head(candidates, stage, run)
    if found is None:
        return candidates
    order = np.array(found.order)
    known = found.vectors.any(axis=1)
    cosines = np.where(known, found.vectors @ found.vectors.T, -np.inf)
    np.fill_diagonal(cosines, -np.inf)
    means = list(found.order)
    for row in np.flatnonzero(known):
        nearest = np.argsort(-cosines[row], kind="stable")[: min(stage.neighbours, int(known.sum()) - 1)]
        # Only their ratios count, and no power of the greatest is too large.
        weights = np.exp((cosines[row][nearest] - cosines[row][nearest[0]]) / stage.temperature)
        means[row] = float(weights @ order[nearest] / weights.sum())
    before = [candidate.score for candidate in found.candidates]
    for candidate, old, mean in zip(found.candidates, found.order, means, strict=True):
        candidate.score = (1 - stage.weight) * old + stage.weight * mean
    run.explain(
        stage, found.candidates, before, {"order": found.order, "mean": means}, scales={"order_scale": found.scale}
    )
    follow(found.tail, stage, run, {})
    return best_first_by_id(found.candidates) + found.tail
