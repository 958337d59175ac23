"""The query in flight: the one type that travels through the flow, from the message to its terminal record."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from operators.clients.bm25 import Sparse
from operators.clients.embedders import Embedding
from operators.clients.rerankers import Verdict
from operators.cloud_event import CloudEvent
from operators.ranking.anchors import TimeAnchor
from operators.ranking.candidate import Candidate, Leg
from operators.ranking.pipeline import Ranked
from operators.recipes import Plan
from operators.telemetry import QueryTrace
from schemas.errors import DeadLetterClass, Reason
from schemas.query import QueryEvent

Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """A message's place in Kafka, and the assignment of its partition under which it was read."""

    topic: str
    partition: int
    offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Message:
    """One message as it was read. `timestamp` is Kafka's, negative if there is none, `received` this process's wall
    clock, both in seconds; `clock` is this process's monotonic clock at that moment. Not `legible`: it had headers, but
    a name of them isn't UTF-8.
    """

    origin: Origin
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: float
    received: float
    clock: float
    legible: bool = True

    @property
    def sent(self) -> float:
        """Kafka's timestamp; without one, when the message was received."""
        return self.timestamp if self.timestamp >= 0 else self.received

    @property
    def age(self) -> float:
        """Seconds from sending to receiving; none for a producer whose clock is ahead, which gains nothing by it."""
        return max(0.0, self.received - self.sent)


@dataclass(frozen=True, slots=True)
class Terminal:
    """The one record that ends a message, for `topic`; of those that compact, a transaction sends the last of a key."""

    origin: Origin
    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    trace: QueryTrace | None = None
    timestamp_ms: int | None = None
    compacts: bool = False


@dataclass(frozen=True, slots=True)
class Rejected:
    """A message that could not become a query, on its way to the dead letters."""

    message: Message
    kind: DeadLetterClass
    stage: str
    reason: str


@dataclass(slots=True)
class InFlight:
    """One query on its way.

    `deadline` and `started`, when the present stage took it on, are on the monotonic clock; `now` is the query's clock
    in Unix seconds.  `answered`: nothing is left to do but to publish.
    """

    message: Message
    event: QueryEvent
    plan: Plan
    text: str | None
    namespace: str
    collection: str
    now: float
    deadline: float
    trace: QueryTrace
    envelope: CloudEvent | None = None
    embedding: Embedding | None = None
    terms: Sparse | None = None
    anchor: TimeAnchor | None = None
    legs: dict[str, Leg] = field(default_factory=dict)
    candidates: list[Candidate] = field(default_factory=list)
    ranked: Ranked | None = None
    verdict: Verdict | None = None
    payloads: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    degraded: list[tuple[str, Reason]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    answered: bool = False
    expired: bool = False
    failed: bool = False
    reranked: bool = False
    started: float = 0.0

    def lose(self, stage: str, reason: Reason) -> None:
        """Note that a part of the answer is lost, in the answer and in the trace."""
        self.degraded.append((stage, reason))
        self.trace.degraded(stage, reason)
