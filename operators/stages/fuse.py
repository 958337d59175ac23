"""Fuse: the legs' lists become one, ranked by the recipe's stages before `rerank`."""

from time import monotonic

from bytewax.dataflow import Stream, operator

from operators.query.canonical import Shape
from operators.query.in_flight import InFlight
from operators.ranking.pipeline import first_phase, keep_order
from operators.stages.backend_stage import Queries, pure
from schemas.result import LegStatus, RetrievalStage


def fused(query: InFlight) -> InFlight:
    """Rank what the legs found."""
    query.started = monotonic()
    asked, plan, outcome = query.asked.canonical, query.asked.plan, query.outcome
    legs = [leg for leg in outcome.legs.values() if leg.status is LegStatus.OK]
    if asked.shape is Shape.SEARCH:
        facts = plan.facts(asked, asked.now, query.retrieval.temporal_expression)
        outcome.rank(first_phase(plan.recipe, legs, facts))
    else:
        outcome.rank(keep_order(legs, explain=asked.explain))
    candidates = len(outcome.candidates)
    query.trace.child(
        "fuse", query.started, {"rankstream.recipe": plan.recipe.name, "rankstream.candidates": candidates}
    )
    if asked.shape is Shape.SEARCH:
        query.passed(RetrievalStage.HYBRID_MERGE.value, candidates)
    return query


@operator
def fuse(step_id: str, up: Stream[Queries]) -> Stream[Queries]:
    """Queries in and on, with their candidates, best first."""
    return pure("order", up, "fuse", fused)
