"""The trace of a query in flight: the stages report to it, and it writes spans and counts metrics. OpenTelemetry's and
Prometheus's own types stay behind it.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

Headers = tuple[tuple[str, bytes], ...]
"""Headers of a Kafka record."""

Attributes = Mapping[str, str | int | float | bool]


class Trace(Protocol):
    """One query's spans and counts. Every method is cheap, and makes no span when the trace is not recorded."""

    @property
    def recording(self) -> bool:
        """True if spans are recorded."""
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

    def calling(self, name: str, attributes: Attributes, traces: "Sequence[Trace]") -> AbstractContextManager[Any]:
        """The span of one call for the queries of these recorded traces, of which this is one, as the current span."""
        ...

    def passed(self, step: str, seconds: float) -> None:
        """Count a step of the query, which took so long."""
        ...

    def looked_up(self, cache: str, hits: int, misses: int) -> None:
        """Count the hits and misses of a lookup in a cache."""
        ...

    def degraded(self, stage: str, reason: str) -> None:
        """Note that a part of the answer was lost."""
        ...

    def answered(self, legs: Iterable[tuple[str, str]], *, removed: int, aged: bool) -> None:
        """Count the parts of an answer: each leg with its status, the documents that the post-filter check removed, and
        whether age was a part of the ranking.
        """
        ...

    def rejected(self, kind: str) -> None:
        """Note that the message is a dead letter of this class."""
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
