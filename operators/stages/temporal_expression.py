"""Anchor: the time that a query names is read, for recipes that target it.

Rules read it in place; a chat model is asked where the recipe wants that, and the rules stand in when it fails.
"""

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Final

from bytewax.dataflow import Stream, operator
from opentelemetry.trace import SpanKind

from operators.clients.chat.temporal_expressions import TemporalExtractor
from operators.query.in_flight import InFlight
from operators.ranking.temporal_expressions import TemporalExpression
from operators.ranking.temporal_expressions import temporal_expression as by_rules_in
from operators.runtime.async_io import async_io
from operators.runtime.dispatcher import BatchKey, Bounds, Finished
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.stage import Batch, Stage, stage
from schemas.errors import BackendError

_BATCH_KEY: Final = "temporal_expression"


def plan(query: InFlight) -> Mapping[BatchKey, tuple[str, float]]:
    """Ask for the anchor of a query whose recipe wants the chat model's."""
    query.started = monotonic()
    asked = query.asked.canonical
    if query.asked.plan.extractor(query.asked.canonical) != "chat" or asked.text is None:
        return {}
    return {_BATCH_KEY: (asked.text, asked.now)}


def by_rules(query: InFlight) -> InFlight:
    """Read the time by the rules, if the recipe targets one."""
    if query.asked.plan.extractor(query.asked.canonical) is not None and query.asked.canonical.text is not None:
        query.retrieval.temporal_expression = by_rules_in(query.asked.canonical.text, query.asked.canonical.now)
    return query


def extracted(finished: Finished[InFlight, TemporalExpression | None], model: str) -> InFlight:
    """Take over the chat model's anchor; without an answer the rules' stands, and the loss is noted."""
    query = finished.item
    if _BATCH_KEY not in finished.outcomes:
        return by_rules(query)
    outcome = finished.outcomes[_BATCH_KEY]
    error = None
    if isinstance(outcome, BackendError):
        error = outcome.reason
        query.lose("temporal_expression", error)
        by_rules(query)
    else:
        query.retrieval.temporal_expression = outcome
    query.passed("temporal_expression")
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model}
    query.trace.child("temporal_expression", query.started, attributes, error=error, kind=SpanKind.CLIENT)
    return query


@operator
def temporal_expression(
    step_id: str, up: Stream[Batch], extractor: TemporalExtractor | None, calls: EventLoopThread, bounds: Bounds
) -> Stage[InFlight]:
    """Queries in and on, with the time that they name where their recipe targets it."""
    if extractor is None:
        return stage("temporal_expression", up, lambda query: query, by_rules)

    async def call(
        _: BatchKey, wanted: Sequence[tuple[str, float]], timeout: float
    ) -> list[TemporalExpression | BackendError | None]:
        # One a call: the stage's bounds say so.
        return [await extractor.temporal_expression(text, now, timeout=timeout) for text, now in wanted]

    done = async_io("chat", up, calls, plan, call, lambda query: query.deadline, bounds)
    return stage("temporal_expression", done, lambda done: done.item, lambda done: extracted(done, extractor.model))
