"""Fusion: the legs' lists become one."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from operators.ranking.candidate import KEYWORD, VECTOR, Candidate, Leg, Payload, in_order

DEFAULT_ALPHA: Final = 0.5


def min_max(scores: Sequence[float]) -> list[float]:
    """Rescale to [0, 1], best 1 and worst 0; scores that are all equal become 1."""
    if not scores:
        return []
    low, high = min(scores), max(scores)
    spread = high - low
    if math.isinf(spread):
        return min_max([score / 2 for score in scores])
    if spread <= 0:
        return [1.0] * len(scores)
    return [(score - low) / spread for score in scores]


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
    weights = {VECTOR: alpha, KEYWORD: 1 - alpha}
    fused: dict[str, float] = {}
    payloads: dict[str, Payload] = {}
    for leg in in_order(legs):
        weight = weights.get(leg.name, 0.0)
        offered = dict(zip(leg.ids, min_max(leg.scores), strict=True))
        if len(offered) < len(leg.ids):
            # A repeated id counts at its first place only, in the leg's minimum and maximum, too.
            places = leg.places()
            offered = dict(zip(places, min_max([raw for _, raw in places.values()]), strict=True))
        for id_, value in offered.items():
            fused[id_] = fused.get(id_, 0.0) + weight * value
        payloads = dict(zip(leg.ids, leg.payloads, strict=True)) | payloads
    # Stable in reverse, too: equal scores stay in the order in which the legs offered them.
    order = sorted(fused, key=fused.__getitem__, reverse=True)
    return [Candidate(id_, fused[id_], payloads[id_]) for id_ in order]
