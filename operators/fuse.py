"""Fuse: the legs' lists become one, without what repeats."""

from time import monotonic
from typing import Final

from bytewax.dataflow import Stream, operator

from operators.inflight import InFlight
from operators.ranking.dedupe import dedupe
from operators.ranking.fusion import score
from operators.stage import Batch, Stage, stage
from operators.telemetry import Attributes
from schemas.result import LegStatus

RECIPE: Final = "hybrid"
"""Score fusion, then dedupe."""


def fused(query: InFlight) -> InFlight:
    """Rank what the legs found."""
    started = monotonic()
    legs = [leg for leg in query.legs.values() if leg.status is LegStatus.OK]
    query.candidates = dedupe(score(legs))
    attributes: Attributes = {"rankstream.recipe": RECIPE, "rankstream.candidates": len(query.candidates)}
    query.trace.child("rank", started, attributes)
    return query


@operator
def fuse(step_id: str, up: Stream[Batch]) -> Stage[InFlight]:
    """Queries in and on, with their candidates, best first."""
    return stage("fuse", up, lambda query: query.message, fused)
