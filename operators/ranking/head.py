"""The head: the first candidates, which a stage ranks anew. The tail behind them keeps its order, and stays behind."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from operators.ranking.candidate import Candidate
from operators.ranking.normalise import Scale, min_max
from operators.ranking.run import Run
from schemas.recipes.parameters import RecipeStage
from schemas.recipes.similarity import SimilarityStage

_OF_NOTHING: Final = Scale(0.0, 0.0, 1.0)


class Head(NamedTuple):
    """The first candidates, their min-max scores, a unit vector each (zeros where none was read), and the tail."""

    candidates: list[Candidate]
    order: list[float]
    scale: Scale
    vectors: NDArray[np.float64]
    tail: list[Candidate]


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
    order, scale = rescaled([candidate.score for candidate in first])
    return Head(first, order, scale, vectors / np.where(lengths > 0, lengths, 1.0), candidates[stage.candidates :])


def follow(tail: Sequence[Candidate], stage: RecipeStage, run: Run, shared: Mapping[str, Any]) -> None:
    """Give the tail min-max scores minus 1, so that scores never rise with rank; `shared` is for explanations."""
    behind, scale = rescaled([candidate.score for candidate in tail])
    before = [candidate.score for candidate in tail]
    for candidate, value in zip(tail, behind, strict=True):
        candidate.score = value - 1
    run.explain(stage, tail, before, {"tail": behind}, shared, {"tail_scale": scale})


def rescaled(column: Sequence[float]) -> tuple[list[float], Scale]:
    """The min-max scores, and by what scale."""
    scale = min_max(column) if column else _OF_NOTHING
    return scale.of(column), scale
