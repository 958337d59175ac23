"""Signals: what a flow's parts need to begin the trace of a message, and to count what becomes of it."""

from dataclasses import dataclass

from opentelemetry.trace import Tracer

from operators.query.message import Message
from operators.query.trace import Attributes, Headers
from operators.telemetry.metrics import FlowMetrics
from operators.telemetry.traces import QueryTrace


@dataclass(frozen=True, slots=True)
class Signals:
    """A flow's tracer and metrics; `group` is its consumer group."""

    tracer: Tracer
    metrics: FlowMetrics
    group: str

    def trace(self, message: Message, headers: Headers, attributes: Attributes) -> QueryTrace:
        """Continue the trace that these headers of a message name."""
        origin = message.origin
        place: dict[str, str | int] = {
            "messaging.destination.partition.id": str(origin.partition),
            "messaging.kafka.offset": origin.offset,
            "messaging.consumer.group.name": self.group,
        }
        return QueryTrace(
            self.tracer, self.metrics, headers, origin.topic, message.received, message.sent, {**place, **attributes}
        )
