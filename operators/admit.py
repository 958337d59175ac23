"""Admit: what may and can be asked for a query, decided before anybody is called."""

import time
from collections.abc import Callable

from bytewax.dataflow import Stream, operator

from operators.clients.bm25 import Bm25
from operators.inflight import InFlight
from operators.stage import Batch, Stage, stage
from schemas.errors import Reason


def admitted(query: InFlight, clock: float, bm25: Bm25) -> InFlight:
    """Answer a query whose deadline has passed; give the others their keyword terms."""
    if query.deadline <= clock:
        query.expired = query.answered = True
        query.lose("queue", Reason.DEADLINE)
        if query.deadline <= query.message.clock:
            # A backlog, or a producer's clock that is behind.
            age = query.message.age
            query.warnings.append(f"the deadline had passed when the query was read, {age:.0f} s after it was sent")
        return query
    if query.text is not None:
        query.terms = bm25.query(query.text)
        if query.terms is None:
            query.warnings.append("the text has no terms for the keyword leg")
    if query.event.vector is not None and not any(query.event.vector):
        query.warnings.append("the vector is zero: the vector leg is not asked")
    return query


@operator
def admit(step_id: str, up: Stream[Batch], bm25: Bm25, clock: Callable[[], float] = time.monotonic) -> Stage[InFlight]:
    """Queries in; those past their deadline are answered, without any call."""
    return stage("admit", up, lambda query: query.message, lambda query: admitted(query, clock(), bm25))
