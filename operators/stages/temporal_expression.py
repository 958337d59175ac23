"""Temporal expression: the time that a query names is read, for recipes that target it.

Rules read it in place. A chat model is asked where the recipe wants that; when it fails, the rules stand in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from bytewax.dataflow import Stream, operator

from operators.clients.chat.temporal_expressions import TemporalExtractor
from operators.query.in_flight import InFlight
from operators.query.trace import Attributes
from operators.ranking import temporal as rules
from operators.ranking.run import TemporalExpression
from operators.runtime.dispatcher import BatchKey, Bounds
from operators.runtime.event_loop import EventLoopThread
from operators.stages.backend_stage import BackendStage, Queries, ask, pure
from schemas.errors import BackendError

Asked = tuple[str, float]
"""A query's text and its clock, in Unix seconds."""


def by_rules(query: InFlight) -> InFlight:
    """Read the time by the rules, if the recipe targets one."""
    asked = query.asked.canonical
    if asked.text is not None and query.asked.plan.extractor(asked) is not None:
        query.retrieval.temporal_expression = rules.temporal_expression(asked.text, asked.now)
    return query


@dataclass(frozen=True)
class ByChatModel(BackendStage[Asked, TemporalExpression | None]):
    """Has a chat model read the time, one query a call; `provider` serves it."""

    name: ClassVar = "temporal_expression"

    extractor: TemporalExtractor
    bounds: Bounds
    provider: str

    def wanted(self, query: InFlight) -> bool:
        """Whether the query's recipe wants the chat model to read the time."""
        return query.asked.plan.extractor(query.asked.canonical) == "chat"

    def requests(self, query: InFlight) -> Mapping[BatchKey, Asked]:
        """Ask for the temporal expression of a query whose recipe wants the chat model to read it."""
        asked = query.asked.canonical
        if asked.text is None or query.asked.plan.extractor(asked) != "chat":
            return {}
        return {self.name: (asked.text, asked.now)}

    async def call(
        self, _: BatchKey, requests: Sequence[Asked], timeout: float
    ) -> list[TemporalExpression | BackendError | None]:
        """One completion a query: the stage's bounds let one query into a call."""
        return [await self.extractor.temporal_expression(text, now, timeout=timeout) for text, now in requests]

    def take(self, query: InFlight, outcome: TemporalExpression | None) -> None:
        """Take over what the chat model read, perhaps nothing."""
        query.retrieval.temporal_expression = outcome

    def unasked(self, query: InFlight) -> None:
        """The rules read the time where the recipe wants them to."""
        by_rules(query)

    def lost(self, query: InFlight) -> None:
        """The rules stand in."""
        by_rules(query)

    def span(self, _: InFlight) -> tuple[str, Attributes]:
        """By the conventions for generative AI."""
        return self.name, {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self.provider,
            "gen_ai.request.model": self.extractor.model,
        }


@operator
def temporal_expression(
    step_id: str, up: Stream[Queries], by_chat_model: ByChatModel | None, calls: EventLoopThread
) -> Stream[Queries]:
    """Queries in and on, with the time that they name where their recipe targets it."""
    if by_chat_model is None:
        return pure("rules", up, "rules", by_rules)
    return ask("chat", up, by_chat_model, calls)
