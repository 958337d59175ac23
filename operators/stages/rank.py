"""Rank: the model's scores enter the order, and the recipe's stages behind `rerank` take them on."""

from time import monotonic

from bytewax.dataflow import Stream, operator

from operators.query.canonical import Shape
from operators.query.in_flight import InFlight
from operators.stages.backend_stage import Queries, pure


def ranked(query: InFlight) -> InFlight:
    """Rank the candidates to the end; without the stage `rerank` that was done when the legs were fused. The order of a
    lookup stays as it was asked for.
    """
    asked, plan, outcome = query.asked.canonical, query.asked.plan, query.outcome
    if asked.shape is not Shape.SEARCH or plan.recipe.reranking is None or outcome.ranked is None:
        return query
    query.started = monotonic()
    outcome.rerank(plan.recipe)
    candidates = len(outcome.candidates)
    query.trace.child("rank", query.started, {"rankstream.candidates": candidates})
    query.passed("rank", candidates)
    return query


@operator
def rank(step_id: str, up: Stream[Queries]) -> Stream[Queries]:
    """Queries in and on, with their candidates in the recipe's order."""
    return pure("order", up, "rank", ranked)
