"""Relevance: how well a candidate fits its query, from 0 to 1, by what means the same for every query.

Scores only order the candidates of one query: the best has about the same one whether or not it fits.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final

from operators.ranking.candidate import Leg
from operators.ranking.coverage import share_of_words
from operators.ranking.fusion import bound
from operators.ranking.run import Run
from schemas.pool import ScoreMeasure

_WORDS: Final = 0.25
_COSINE: Final = 0.2
_MODEL: Final = 0.55

_DECIMALS: Final = 6


def _clip(score: float) -> float:
    return min(1.0, max(0.0, score))


_SHARES: Final[Mapping[ScoreMeasure, Callable[[float], float]]] = {
    "share": _clip,
    "similarity": _clip,
    "logit": lambda score: 1.0 / (1.0 + math.exp(-max(-700.0, min(700.0, score)))),
}
"""A model's score as a share of 1, by what it is."""


class Relevance:
    """The relevance of a query's candidates, each worked out where it is asked for: a page has a few of them."""

    __slots__ = ("_parts", "_whole")

    def __init__(self, vector: Leg | None, run: Run) -> None:
        """The parts that are known: the weight of each, a share by id, the share of other ids, and what turns scores
        into shares.
        """
        self._parts: list[tuple[float, Mapping[str, float], float, Callable[[float], float]]] = []
        if run.evidence is not None:
            self._parts.append((_WORDS, share_of_words(run.evidence.units), 0.0, _SHARES["share"]))
        if vector is not None and vector.ids:
            self._parts.append((_COSINE, vector.scores_by_id(), bound(vector), _SHARES["share"]))
        model = run.model
        if model is not None and not model.selects and model.scores and model.measure in _SHARES:
            self._parts.append((_MODEL, model.scores, min(model.scores.values()), _SHARES[model.measure]))
        self._whole = math.fsum(weight for weight, *_ in self._parts)

    def of(self, id_: str) -> float | None:
        """A candidate's relevance: the mean of the parts that are known, weighted; None where none is.

        - The share of the query's words that it has, each by its weight, a word that no candidate has among them: 0.25.
        - Its cosine, at least 0; of one that the vector leg did not return, the bound: 0.2.
        - The model's score; of one that it did not read, the least of those that it read: 0.55.

        Source: own.
        """
        if not self._parts:
            return None
        total = 0.0
        for weight, known, least, share in self._parts:
            total += weight * share(known.get(id_, least))
        return round(total / self._whole, _DECIMALS)
