"""Stages that rank the first candidates, the head, again by a model or dense vectors; the tail stays behind."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from operators.ranking.candidate import Candidate, best_first_by_id
from operators.ranking.content import distinct_words
from operators.ranking.distance import pick
from operators.ranking.normalise import Scale, rescale
from operators.ranking.run import Run
from schemas.recipes.stages import Feedback, RecipeStage, Rerank, SimilarityStage, Smoothing


class Head(NamedTuple):
    """The first candidates, their min-max scores, a unit vector each (zeros where none was read), and the tail."""

    candidates: list[Candidate]
    order: list[float]
    scale: Scale
    vectors: NDArray[np.float64]
    tail: list[Candidate]

    def mix(
        self,
        values: Sequence[float],
        stage: Feedback | Smoothing,
        run: Run,
        columns: Mapping[str, Sequence[float]],
        scales: Mapping[str, Scale] = MappingProxyType({}),
    ) -> list[Candidate]:
        """The candidates by (1 - weight) * score + weight * value, the tail behind them."""
        scores = [
            (1 - stage.weight) * old + stage.weight * value for old, value in zip(self.order, values, strict=True)
        ]
        run.rescore(stage, self.candidates, scores, columns, {"order_scale": self.scale, **scales})
        place_tail(self.tail, stage, run, {})
        return best_first_by_id(self.candidates) + self.tail


def head(candidates: list[Candidate], stage: SimilarityStage, run: Run) -> Head | None:
    """The first candidates with their vectors; None where fewer than two of them have one."""
    first = candidates[: stage.candidates]
    # A vector of zeros has no direction.
    read = {each.id: run.vectors[each.id] for each in first if each.id in run.vectors and run.vectors[each.id].any()}
    # One has nothing to be compared with.
    if len(read) <= 1:
        return None
    vectors = np.zeros((len(first), len(next(iter(read.values())))))
    for row, candidate in zip(vectors, first, strict=True):
        row[:] = read.get(candidate.id, 0.0)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    order, scale = rescale([candidate.score for candidate in first])
    return Head(first, order, scale, vectors / np.where(lengths > 0, lengths, 1.0), candidates[stage.candidates :])


def place_tail(tail: Sequence[Candidate], stage: RecipeStage, run: Run, shared: Mapping[str, Any]) -> None:
    """Give the tail min-max scores minus 1, so that scores never rise with rank; `shared` is for explanations."""
    behind, scale = rescale([candidate.score for candidate in tail])
    run.rescore(stage, tail, [value - 1 for value in behind], {"tail": behind}, {**shared, "tail_scale": scale})


def rank_by_model(candidates: list[Candidate], stage: Rerank, run: Run) -> list[Candidate]:
    """Put the reranked candidates first, by weight * model score + (1 - weight) * score, both min-max over them.

    The tail are those that no model has read: the unscored ones of the first, and all behind these. A candidate that
    the model left out is dropped, and the tail with it. Otherwise the tail follows in its order, with min-max scores
    minus 1, so that scores never rise with rank. Candidates with equal scores go by the document's id. A model that
    selects moves one candidate to the front. Without a model nothing changes. Late interaction sums over the query's
    words: of n words, fewer than the stage's, it has n / words of the weight.
    Source: own; to drop the candidates that a reranker leaves out is the contract of memini's `rerank.Reranker`.
    """
    if run.model is None:
        return candidates
    if run.model.selects:
        return pick(candidates, run.model, stage, run)
    scores, top, unscored = run.model.scores, run.model.top, run.model.unscored
    asked, tail = candidates[:top], candidates[top:]
    if unscored:
        tail = [candidate for candidate in asked if candidate.id in unscored] + tail
        asked = [candidate for candidate in asked if candidate.id not in unscored]
    read = [candidate for candidate in asked if candidate.id in scores]
    tail = tail if len(read) == len(asked) else []
    relevance, of_relevance = rescale([scores[candidate.id] for candidate in read])
    order, of_order = rescale([candidate.score for candidate in read])
    weight = stage.weight
    if run.model.measure == "similarity" and stage.words > 1:
        weight *= min(1.0, len(distinct_words(run.facts.text or "")) / stage.words)
    mixed = [weight * new + (1 - weight) * old for new, old in zip(relevance, order, strict=True)]
    columns = {"score": (scores[candidate.id] for candidate in read), "relevance": relevance, "order": order}
    scales = {"relevance_scale": of_relevance, "order_scale": of_order}
    run.rescore(stage, read, mixed, columns, {"top": top, "weight": weight, **scales})
    place_tail(tail, stage, run, {"top": top})
    run.reranked = True
    return best_first_by_id(read) + tail


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
    similarity, of_similarity = rescale(cosines)
    columns = {"order": found.order, "cosine": cosines, "similarity": similarity}
    return found.mix(similarity, stage, run, columns, {"similarity_scale": of_similarity})


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
    return found.mix(means, stage, run, {"order": found.order, "mean": means})
