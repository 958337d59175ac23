"""Debug: what a query passed on its way, for results that are to say so."""

import time
from typing import Any, Final

from operators.query.canonical import Shape
from operators.query.in_flight import InFlight
from operators.query.search_bodies import depth
from operators.ranking.decay import resolve
from schemas.recipes.fusion import Decay
from schemas.result import RetrievalStage

_CACHES: Final = {RetrievalStage.EXACT_CACHE: "exact", RetrievalStage.SEMANTIC_CACHE: "semantic"}


def debug(query: InFlight) -> dict[str, Any]:
    """The steps of the query's way in their order, what each found and how long it took, up to now."""
    cache = _CACHES[query.cache.cached.stage] if query.cache.cached is not None else None
    return {
        "stages_hit": list(dict.fromkeys(step.name for step in query.steps)),
        "candidates_per_stage": {step.name: step.candidates for step in query.steps if step.candidates is not None},
        "per_stage_latency_ms": {step.name: step.latency_ms for step in query.steps},
        "cache_hit": cache is not None,
        "cache_type": cache,
        "decay": _decay(query),
        "total_latency_ms": (time.monotonic() - query.message.clock) * 1000,
    }


def _decay(query: InFlight) -> dict[str, Any]:
    asked = query.asked.canonical
    plan = query.asked.plan
    stage = plan.recipe.fusion
    force = None
    if isinstance(stage, Decay) and asked.shape is Shape.SEARCH:
        force = resolve((stage, *plan.decay), plan.profile.half_life_days)
    return {
        "mode": force.mode if force is not None else "none",
        "half_life_days": force.half_life if force is not None else None,
        "over_sample_factor": depth(query) / asked.limit,
    }
