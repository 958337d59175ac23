"""Temporal expression: the time that a query names is read, for recipes that target it.

Rules read it in place. A chat model is asked where the recipe wants that; when it fails, the rules stand in.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bytewax.dataflow import operator
from typing_extensions import override

from operators.clients.chat.completions import ChatModel
from operators.clients.chat.temporal_expressions import extract_time
from operators.query.in_flight import InFlight
from operators.runtime.dispatcher import BatchKey, Bounds
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.stage import Batches, async_stage, sync_stage
from operators.stages.backend_stage import BackendStage, model_attributes
from operators.text.dates import TemporalExpression
from operators.text.times import find_time
from operators.wire.message import Attributes
from schemas.errors import BackendError

Asked = tuple[str, float]
"""A query's text and its clock, in Unix seconds."""


def by_rules(query: InFlight) -> InFlight:
    """Read the time by the rules, if the recipe targets one."""
    asked = query.asked
    if asked.text is not None and asked.extractor is not None:
        found = find_time(asked.text, asked.now)
        query.retrieval.temporal_expression = found.expression if found is not None else None
    return query


@dataclass(frozen=True)
class ByChatModel(BackendStage[Asked, TemporalExpression | None]):
    """Has a chat model read the time, one query a call; `provider` serves it."""

    name: ClassVar = "temporal_expression"

    chat: ChatModel
    bounds: Bounds
    provider: str

    def ask(self, query: InFlight) -> tuple[BatchKey, Asked] | None:
        asked = query.asked
        if asked.text is None or asked.extractor != "chat":
            return None
        return self.name, (asked.text, asked.now)

    @override
    async def call(
        self, batch_key: BatchKey, requests: Sequence[Asked], timeout: float
    ) -> list[TemporalExpression | BackendError | None]:
        """One completion a query: the stage's bounds let one query into a call."""
        return [await extract_time(self.chat, text, now, timeout=timeout) for text, now in requests]

    def on_answer(self, query: InFlight, answer: TemporalExpression | None) -> None:
        query.retrieval.temporal_expression = answer

    @override
    def on_unasked(self, item: InFlight) -> InFlight:
        return by_rules(item)

    @override
    def on_result(self, query: InFlight, outcome: TemporalExpression | BackendError | None) -> InFlight:
        if isinstance(outcome, BackendError):
            by_rules(query)
        return super().on_result(query, outcome)

    @override
    def span(self, query: InFlight) -> tuple[str, Attributes]:
        return self.name, model_attributes("chat", self.chat.model, self.provider)


@operator
def temporal_expression(step_id: str, up: Batches, stage: ByChatModel | None, calls: EventLoopThread) -> Batches:
    """Read the time that queries name where their recipe targets it: by rules alone without a chat model."""
    return sync_stage("rules", up, by_rules) if stage is None else async_stage("chat", up, stage, calls)
