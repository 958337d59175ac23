"""Semantic lookup: a query may be given the answer to one that asks the same in almost the same words."""

from bytewax.dataflow import Stream, operator

from operators.stages.answers import Answers
from operators.stages.backend_stage import Queries, pure


@operator
def semantic_lookup(step_id: str, up: Stream[Queries], answers: Answers) -> Stream[Queries]:
    """Queries in; on unless the answer to a paraphrase serves them."""
    return pure("answers", up, "semantic_lookup", answers.semantic_lookup)
