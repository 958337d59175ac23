"""Fusion: the legs' lists become one."""

from collections.abc import Iterable, Sequence
from typing import Final

from operators.ranking.candidate import KEYWORD, VECTOR, Candidate, Leg, pool

DEFAULT_ALPHA: Final = 0.5


def min_max(scores: Sequence[float]) -> list[float]:
    """Rescale to [0, 1], best 1 and worst 0; scores that are all equal become 1."""
    if not scores:
        return []
    low, high = min(scores), max(scores)
    # Halves, so that a spread wider than the largest float stays finite.
    spread = high / 2 - low / 2
    if not spread > 0:
        return [1.0] * len(scores)
    return [(score / 2 - low / 2) / spread for score in scores]


def by_score(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Best first; equal scores keep their order."""
    return sorted(candidates, key=lambda candidate: -candidate.score)


def score(legs: Sequence[Leg], alpha: float = DEFAULT_ALPHA) -> list[Candidate]:
    """Weighted sum of the legs' min-max scores: the vector leg weighs `alpha`, the keyword leg 1 - `alpha`.

    A document that a leg didn't return gets nothing there; a lost leg's weight isn't shared. Ties: legs in the order
    vector, keyword, then rank. Raises ValueError for an alpha outside [0, 1].

    Source: relative score fusion (`FuseScores`), a convex combination of the legs.
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha is {alpha}, not in [0, 1]")
    candidates = pool(legs)
    for name, weight in ((VECTOR, alpha), (KEYWORD, 1 - alpha)):
        offered = [candidate for candidate in candidates if name in candidate.legs]
        normalised = min_max([candidate.legs[name][1] for candidate in offered])
        for candidate, value in zip(offered, normalised, strict=True):
            candidate.score += weight * value
    return by_score(candidates)
