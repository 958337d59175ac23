"""Relevance: how well a candidate fits its query, from 0 to 1, by what means the same for every query.

Scores only order the candidates of one query: the best has about the same one whether or not it fits.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from operators.ranking.candidate import Candidate, Leg
from operators.ranking.fusion import bound
from operators.ranking.run import Measure, Run

_WORDS: Final = 0.25
_COSINE: Final = 0.2
_MODEL: Final = 0.55

_DECIMALS: Final = 6

_SHARES: Final[Mapping[Measure, Callable[[float], float]]] = {
    "share": lambda score: min(1.0, max(0.0, score)),
    "logit": lambda score: 1.0 / (1.0 + math.exp(-max(-700.0, min(700.0, score)))),
}
"""A model's score as a share of 1, by what it is."""


def relevance(candidates: Sequence[Candidate], vector: Leg | None, run: Run) -> dict[str, float]:
    """Each candidate's relevance by its id: the mean of the parts that are known, weighted; empty where none is.

    - The share of the query's words that it has, each by its weight, a word that no candidate has among them: 0.25.
    - Its cosine, at least 0; of one that the vector leg did not return, the bound: 0.2.
    - The model's score; of one that it did not read, the least of those that it read: 0.55.

    Source: own.
    """
    parts: list[tuple[float, Mapping[str, float], float]] = []
    if run.shares is not None:
        parts.append((_WORDS, run.shares.sum_of(run.shares.weights), 0.0))
    if vector is not None and vector.ids:
        parts.append((_COSINE, vector.scores_by_id(), bound(vector)))
    model = run.model
    if model is not None and not model.selects and model.scores and model.measure in _SHARES:
        shares = {id_: _SHARES[model.measure](score) for id_, score in model.scores.items()}
        parts.append((_MODEL, shares, min(shares.values())))
    if not parts:
        return {}
    whole = math.fsum(weight for weight, _, _ in parts)
    totals = [0.0] * len(candidates)
    for weight, of, least in parts:
        for index, each in enumerate(candidates):
            share = of.get(each.id, least)
            # A comparison costs a third of calls of min and max, and this runs for each candidate of each query.
            totals[index] += weight * (share if 0.0 < share < 1.0 else min(1.0, max(0.0, share)))
    return {each.id: round(total / whole, _DECIMALS) for each, total in zip(candidates, totals, strict=True)}
