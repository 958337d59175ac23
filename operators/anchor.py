"""Anchor: the time that a query names is read, for recipes that target it.

Rules read it in place; a chat model is asked where the recipe wants that, and the rules stand in when it fails.
"""

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Final

from bytewax.dataflow import Stream, operator
from opentelemetry.trace import SpanKind

from operators.async_io import async_io
from operators.clients.anchors import AnchorExtractor
from operators.dispatcher import Bounds, Finished, Lane
from operators.event_loop import EventLoopThread
from operators.inflight import InFlight
from operators.ranking.anchors import TimeAnchor
from operators.ranking.anchors import anchor as by_rules
from operators.stage import Batch, Stage, stage
from schemas.errors import BackendError

_LANE: Final = "anchor"


def plan(query: InFlight) -> Mapping[Lane, tuple[str, float]]:
    """Ask for the anchor of a query whose recipe wants the chat model's."""
    query.started = monotonic()
    asked = query.canonical
    if query.plan.anchors(query.event) != "chat" or asked.text is None:
        return {}
    return {_LANE: (asked.text, asked.now)}


def ruled(query: InFlight) -> InFlight:
    """Read the time by the rules, if the recipe targets one."""
    if query.plan.anchors(query.event) is not None and query.canonical.text is not None:
        query.anchor = by_rules(query.canonical.text, query.canonical.now)
    return query


def anchored(finished: Finished[InFlight, TimeAnchor | None], model: str) -> InFlight:
    """Take over the chat model's anchor; without an answer the rules' stands, and the loss is noted."""
    query = finished.item
    if _LANE not in finished.outcomes:
        return ruled(query)
    outcome = finished.outcomes[_LANE]
    error = None
    if isinstance(outcome, BackendError):
        error = outcome.reason
        query.lose("anchor", error)
        ruled(query)
    else:
        query.anchor = outcome
    query.passed("anchor")
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model}
    query.trace.child("anchor", query.started, attributes, error=error, kind=SpanKind.CLIENT)
    return query


@operator
def anchor(
    step_id: str, up: Stream[Batch], extractor: AnchorExtractor | None, calls: EventLoopThread, bounds: Bounds
) -> Stage[InFlight]:
    """Queries in and on, with the time that they name where their recipe targets it."""
    if extractor is None:
        return stage("anchor", up, lambda query: query, ruled)

    async def call(
        _: Lane, wanted: Sequence[tuple[str, float]], timeout: float
    ) -> list[TimeAnchor | BackendError | None]:
        # One a call: the stage's bounds say so.
        return [await extractor.anchor(text, now, timeout=timeout) for text, now in wanted]

    done = async_io("chat", up, calls, plan, call, lambda query: query.deadline, bounds)
    return stage("anchor", done, lambda done: done.item, lambda done: anchored(done, extractor.model))
