"""Judging: what rerank scores make of the order that a recipe gave. The same in the flow and offline."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from operators.query.outcome import Outcome
from operators.query.rerank_scores import Scores
from operators.ranking.candidate import Candidate
from operators.ranking.distance import pick
from operators.ranking.relevance import merge
from schemas.recipes import Recipe
from schemas.recipes.stages import LlmRerank

_PICK: Final = LlmRerank(enabled=True)


@dataclass(frozen=True, slots=True)
class Judging:
    """What rerank scores do: their weight in the score, 0 to 1; or, if the reranker `picks`, a candidate goes first."""

    weight: float = 1.0
    picks: bool = False


def judged(
    recipe: Recipe, outcome: Outcome, candidates: Sequence[Candidate], scores: Scores, top: int, judging: Judging
) -> list[Candidate]:
    """The candidates in the order that the scores of their first `top` give them; a pick moves one to the front."""
    if recipe.picking is None and not judging.picks:
        return merge(candidates, scores, top, judging.weight, outcome.explanations)
    read = [candidate.id for candidate in candidates[:top] if candidate.id in scores]
    if not read:
        return list(candidates)
    return pick(candidates, max(read, key=scores.__getitem__), recipe.picking or _PICK, outcome.explanations)
