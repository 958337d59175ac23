"""The trace of a query in flight: what the stages tell it. OpenTelemetry's own types stay behind it."""

from collections.abc import Mapping
from typing import Any, Protocol

Headers = tuple[tuple[str, bytes], ...]
"""Headers of a Kafka record."""

Attributes = Mapping[str, str | int | float | bool]


class Trace(Protocol):
    """One query's spans. Every method is cheap and harmless when the trace is not recorded."""

    @property
    def recording(self) -> bool:
        """Whether spans are recorded."""
        ...

    @property
    def trace_id(self) -> str | None:
        """The trace's id in hexadecimal, if there is one."""
        ...

    def child(
        self,
        name: str,
        started: float,
        attributes: Attributes,
        *,
        link: Any = ...,
        error: str | None = ...,
        kind: Any = ...,
    ) -> None:
        """Record what ran from `started`, on the monotonic clock, until now; `link` and `kind` are OpenTelemetry's."""
        ...

    def degraded(self, stage: str, reason: str) -> None:
        """Note that a part of the answer was lost."""
        ...

    def rejected(self, kind: str) -> None:
        """Note that the message became a dead letter of this class."""
        ...

    def send(self, topic: str, status: str) -> Headers:
        """Begin to send the output record; the headers that hand the trace on."""
        ...

    def abandoned(self) -> None:
        """End the trace's part in this process: the partition's new owner answers the query."""
        ...

    def sent(self) -> None:
        """End the trace's part in this process: the output record is durable."""
        ...
