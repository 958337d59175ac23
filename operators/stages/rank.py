"""Rank: the model's scores and the vectors enter the order, by the stages that need them and those behind."""

from time import monotonic

from bytewax.dataflow import Stream, operator

from operators.query.canonical import Shape
from operators.query.in_flight import InFlight
from operators.stages.backend_stage import Queries, pure


def ranked(query: InFlight) -> InFlight:
    """Rank the candidates to the end, by the stages that need more than the legs gave. The order of a lookup stays as
    it was asked for.
    """
    asked, plan, outcome = query.asked.canonical, query.asked.plan, query.outcome
    if asked.shape is not Shape.SEARCH or not plan.recipe.later or outcome.ranked is None:
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
