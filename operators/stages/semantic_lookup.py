"""Semantic lookup: a query may be given the answer to a query of almost the same vector."""

from bytewax.dataflow import Stream, operator

from operators.query.in_flight import InFlight
from operators.runtime.stage import Stage, stage
from operators.stages.answers import Answers
from operators.stages.backend_stage import Batch


@operator
def semantic_lookup(step_id: str, up: Stream[Batch], answers: Answers) -> Stage[InFlight]:
    """Queries in; on unless an answer to a similar one serves them."""
    return stage("semantic_lookup", up, lambda query: query, answers.semantic_lookup)
