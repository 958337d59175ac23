"""Fuse: the legs' lists become one, ranked by the query's recipe."""

from time import monotonic

from bytewax.dataflow import Stream, operator

from operators.inflight import InFlight
from operators.ranking.pipeline import rank
from operators.stage import Batch, Stage, stage
from operators.telemetry import Attributes
from schemas.result import LegStatus


def fused(query: InFlight) -> InFlight:
    """Rank what the legs found."""
    started = monotonic()
    legs = [leg for leg in query.legs.values() if leg.status is LegStatus.OK]
    plan = query.plan
    query.ranked = rank(plan.recipe, legs, plan.facts(query.event, query.text, query.now, query.anchor))
    query.candidates = query.ranked.candidates
    query.reranked = query.ranked.reranked
    query.warnings += query.ranked.warnings
    attributes: Attributes = {"rankstream.recipe": plan.recipe.name, "rankstream.candidates": len(query.candidates)}
    query.trace.child("rank", started, attributes)
    return query


@operator
def fuse(step_id: str, up: Stream[Batch]) -> Stage[InFlight]:
    """Queries in and on, with their candidates, best first."""
    return stage("fuse", up, lambda query: query.message, fused)
