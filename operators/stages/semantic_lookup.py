"""Semantic lookup: a query may be given the answer to one that asks the same in almost the same words."""

from bytewax.dataflow import Stream, operator

from operators.query.in_flight import InFlight
from operators.runtime.stage import Stage, stage
from operators.stages.answers import Answers
from operators.stages.backend_stage import Batch


@operator
def semantic_lookup(step_id: str, up: Stream[Batch], answers: Answers) -> Stage[InFlight]:
    """Queries in; on unless the answer to a paraphrase serves them."""
    return stage("semantic_lookup", up, lambda query: query, answers.semantic_lookup)
