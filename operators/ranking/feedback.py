"""The stage `feedback`: pseudo-relevance feedback by dense vectors."""

import numpy as np

from operators.ranking.candidate import Candidate, best_first_by_id
from operators.ranking.head import follow, head, rescaled
from operators.ranking.run import Run
from schemas.recipes.similarity import Feedback


def feedback(candidates: list[Candidate], stage: Feedback, run: Run) -> list[Candidate]:
    """(1 - weight) * score + weight * similarity, both min-max over the first candidates; the others follow.

    The similarity is the cosine to the mean of the vectors of the best `top` that have one, weighted by 1 / place; 0
    without a vector. Without vectors nothing changes. Source: Rocchio 1971, whose moved query is compared here with the
    candidates alone; the weights and the mix are our own.
    """
    found = head(candidates, stage, run)
    if found is None:
        return candidates
    best = found.vectors[found.vectors.any(axis=1)][: stage.top]
    mean = (1 / np.arange(1, len(best) + 1)) @ best
    cosines = (found.vectors @ mean / (np.linalg.norm(mean) or 1.0)).tolist()
    similarity, of_similarity = rescaled(cosines)
    before = [candidate.score for candidate in found.candidates]
    for candidate, old, like in zip(found.candidates, found.order, similarity, strict=True):
        candidate.score = (1 - stage.weight) * old + stage.weight * like
    columns = {"order": found.order, "cosine": cosines, "similarity": similarity}
    scales = {"order_scale": found.scale, "similarity_scale": of_similarity}
    run.explain(stage, found.candidates, before, columns, scales=scales)
    follow(found.tail, stage, run, {})
    return best_first_by_id(found.candidates) + found.tail
