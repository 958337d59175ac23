"""Normalisers put the scores of all legs on one scale. Scores are 32-bit floats, so no sum here overflows."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple


class Scale(NamedTuple):
    """normalised = (score - offset) / divisor; where the divisor is 0, all are `constant`. Source: own."""

    offset: float
    divisor: float
    constant: float

    def of(self, scores: Sequence[float]) -> list[float]:
        """The normalised scores."""
        if self.divisor == 0:
            return [self.constant] * len(scores)
        offset, divisor = self.offset, self.divisor
        return [(score - offset) / divisor for score in scores]


def min_max(scores: Sequence[float]) -> Scale:
    """To [0, 1], best 1 and worst 0; scores that are all equal become 1. Source: memini's `search.FuseScores`."""
    low, high = min(scores), max(scores)
    return Scale(low, high - low, 1.0)


def rescale(scores: Sequence[float]) -> tuple[list[float], Scale]:
    """The min-max scores, and by what scale; of no scores none."""
    scale = min_max(scores) if scores else Scale(0.0, 0.0, 1.0)
    return scale.of(scores), scale


def three_sigma(scores: Sequence[float]) -> Scale:
    """Mean - 3 sample deviations becomes 0, mean + 3 becomes 1, not clamped; one score or equal ones become 0.5.

    Source: Qdrant's `three_sigma`, distribution-based score fusion (Mazzeschi 2023).
    """
    mean, deviation = _moments(scores, len(scores) - 1)
    return Scale(mean - 3 * deviation, 6 * deviation, 0.5)


def z_score(scores: Sequence[float]) -> Scale:
    """Deviations from the mean, in standard deviations of the population; equal scores become 0.

    Source: OpenSearch's normalisation technique `z_score`.
    """
    mean, deviation = _moments(scores, len(scores))
    return Scale(mean, deviation, 0.0)


def l2(scores: Sequence[float]) -> Scale:
    """Divided by the Euclidean norm of the leg's scores; where that is 0, all become 0.

    Source: OpenSearch's normalisation technique `l2`.
    """
    return Scale(0.0, math.hypot(*scores), 0.0)


NORMALISERS: Final[Mapping[str, Callable[[Sequence[float]], Scale]]] = {
    "min_max": min_max,
    "theoretical": min_max,
    "credited": min_max,
    "dbsf": three_sigma,
    "z_score": z_score,
    "l2": l2,
}
"""By their names in recipes; each takes at least one score. `theoretical` and `credited` take a leg's theoretical
minimum, too."""


def _moments(scores: Sequence[float], freedom: int) -> tuple[float, float]:
    if freedom < 1 or min(scores) == max(scores):
        return scores[0], 0.0
    mean = math.fsum(scores) / len(scores)
    return mean, math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / freedom)
