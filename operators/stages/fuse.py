"""Fuse: the legs' lists become one, ranked by the query's recipe."""

from time import monotonic

from bytewax.dataflow import Stream, operator

from operators.query.canonical import Shape
from operators.query.in_flight import InFlight
from operators.query.trace import Attributes
from operators.ranking.pipeline import in_order, rank
from operators.runtime.stage import Batch, Stage, stage
from schemas.result import LegStatus, RetrievalStage


def fused(query: InFlight) -> InFlight:
    """Rank what the legs found."""
    query.started = monotonic()
    legs = [leg for leg in query.legs.values() if leg.status is LegStatus.OK]
    plan = query.plan
    asked = query.canonical
    if asked.shape is Shape.SEARCH:
        query.ranked = rank(
            plan.recipe, legs, plan.facts(query.event, asked.text, asked.now, query.temporal_expression)
        )
    else:
        query.ranked = in_order(legs, explain=query.event.explain)
    query.candidates = query.ranked.candidates
    query.reranked = query.ranked.reranked
    query.warnings += query.ranked.warnings
    attributes: Attributes = {"rankstream.recipe": plan.recipe.name, "rankstream.candidates": len(query.candidates)}
    query.trace.child("rank", query.started, attributes)
    if asked.shape is Shape.SEARCH:
        query.passed(RetrievalStage.HYBRID_MERGE.value, len(query.candidates))
    return query


@operator
def fuse(step_id: str, up: Stream[Batch]) -> Stage[InFlight]:
    """Queries in and on, with their candidates, best first."""
    return stage("fuse", up, lambda query: query, fused)
