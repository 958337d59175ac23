"""The five-signal blend over numpy arrays: what the plain one is compared with. No graph, no cycles, no explanation."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from operators.ranking.blend import PRIORITIES
from operators.ranking.candidate import Candidate, Leg, union
from operators.ranking.run import Facts, stamp
from operators.text.dates import DAY
from schemas.recipes.fusion import Weighted
from schemas.result import KEYWORD, VECTOR

Column = NDArray[np.float64]


def weighted(legs: Sequence[Leg], stage: Weighted, facts: Facts) -> list[Candidate]:
    """The result of `operators.ranking.blend.rank_by_blend` where both legs answered and the clock is `facts.now`."""
    payloads = union(legs)
    places = {id_: place for place, id_ in enumerate(payloads)}
    columns = {leg.name: _column(leg, places) for leg in legs}
    assert facts.now is not None
    moments = (
        stamp(payload.get("updated_at")) or stamp(payload.get("created_at")) or -math.inf
        for payload in payloads.values()
    )
    ages = np.maximum(facts.now - np.fromiter(moments, float, len(payloads)), 0.0) / DAY
    recency = np.exp(-math.log(2) / stage.half_life_days * ages)
    named = (PRIORITIES.get(payload.get("priority") or "", 0.0) for payload in payloads.values())
    priority = np.fromiter(named, float, len(payloads))
    weights = np.array([stage.keyword_weight, stage.vector_weight, stage.recency_weight, stage.priority_weight])
    keyword, vector = columns[KEYWORD], np.maximum(columns[VECTOR], 0.0)
    scores = (weights / weights.sum()) @ np.vstack([keyword, vector, recency, priority])
    candidates = [
        Candidate(id_, score, payload) for (id_, payload), score in zip(payloads.items(), scores.tolist(), strict=True)
    ]
    order = np.lexsort((np.array([candidate.document for candidate in candidates]), -scores))
    return [candidates[place] for place in order.tolist()]


def _column(leg: Leg, places: dict[str, int]) -> Column:
    column = np.zeros(len(places))
    raw = np.array(leg.scores)
    if leg.name == KEYWORD:
        spread = raw.max() - raw.min()
        raw = (raw - raw.min()) / spread if spread else np.ones_like(raw)
    column[[places[id_] for id_ in leg.ids]] = raw
    return column
