"""The common part of stages that ask a backend: taken, lost, unasked, recorded; and not built without a backend."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from opentelemetry.trace import SpanContext, get_current_span

from operators.query.in_flight import InFlight
from operators.runtime.dispatcher import BatchKey, Bounds
from operators.runtime.stage import async_stage
from operators.stages.backend_stage import BackendStage
from operators.wire.message import Attributes
from schemas.errors import BackendError, BackendUnavailable, Reason
from tests.operators.recorded import Recorded
from tests.operators.runtime.flowing import items
from tests.operators.runtime.test_async_stage import looping
from tests.operators.samples import query


@dataclass(frozen=True)
class Spelling(BackendStage[str, str]):
    """A backend that spells texts; it is down for some, and not asked for others."""

    name: ClassVar = "rerank"
    counts: ClassVar = True

    bounds: Bounds = field(default_factory=lambda: Bounds(10, 8, 1))
    heard: list[tuple[str, str]] = field(default_factory=list)
    within: list[SpanContext] = field(default_factory=list)

    def ask(self, query: InFlight) -> tuple[BatchKey, str] | None:
        """Its text, unless that is "unasked"."""
        text = query.asked.text or ""
        return None if text == "unasked" else (self.name, text)

    async def call(self, batch_key: BatchKey, requests: Sequence[str], timeout: float) -> list[str | BackendError]:
        """The texts in capital letters."""
        self.within.append(get_current_span().get_span_context())
        return [BackendUnavailable("down") if text == "down" else text.upper() for text in requests]

    def on_answer(self, query: InFlight, answer: str) -> None:
        """Note it."""
        self.heard.append(("taken", answer))

    def on_unasked(self, item: InFlight) -> InFlight:
        """Note it."""
        self.heard.append(("unasked", item.asked.event.query_id))
        return item

    def span(self, query: InFlight) -> tuple[str, Attributes]:
        """None in particular."""
        return "spell", {}


def through(part: Spelling | None, *asked: InFlight) -> list[InFlight]:
    """The queries that go on."""
    with looping() as calls:
        return items([asked], lambda up: async_stage("spell", up, part, calls))


def test_an_outcome_is_taken_a_loss_noted_and_the_rest_passes() -> None:
    """Each query ends in one of the three; a loss is in its result, with the reason, and all go on."""
    part = Spelling()
    asked = [query(number, text=text) for number, text in enumerate(("word", "down", "unasked"))]
    assert len(through(part, *asked)) == 3
    assert sorted(part.heard) == [("taken", "WORD"), ("unasked", "q2")]
    assert [each.outcome.degraded for each in asked] == [[], [("rerank", Reason.UNAVAILABLE)], []]


def test_a_step_is_noted_where_it_was_made() -> None:
    """With the number of candidates, for queries that say `debug`; a query that wasn't asked for made no step."""
    asked = [query(number, text=text, debug=True) for number, text in enumerate(("word", "down", "unasked"))]
    through(Spelling(), *asked)
    assert [[(step.name, step.candidates) for step in each.steps] for each in asked] == [
        [("rerank", 0)],
        [("rerank", 0)],
        [],
    ]
    assert all(step.latency_ms >= 0 for each in asked for step in each.steps)


def test_without_a_backend_nothing_is_built() -> None:
    """Queries pass by: the stage's stream is the one that it is given."""
    asked = query()
    assert through(None, asked) == [asked]


def test_the_span_of_a_call_is_current_while_the_call_is_made() -> None:
    """It has links to the queries that it carries and whose trace is recorded; without one there is none."""
    recorded, part = Recorded(), Spelling()
    asked = [*(query(number, recorded.tracer, text="word") for number in range(2)), query(2, text="word")]
    through(part, *asked)
    call = recorded.spans["call rerank"]
    assert part.within == [call.context]
    assert [f"{link.context.trace_id:032x}" for link in call.links] == [each.trace.trace_id for each in asked[:2]]
    through(part, query(3))
    assert not part.within[-1].is_valid
