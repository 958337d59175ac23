"""The query in flight: the one type that travels through the flow, from the message to its terminal record."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from operators.cascade.canonical import Canonical
from operators.cascade.cursor import After
from operators.cascade.expression import Parsed
from operators.cascade.firewall import Guard
from operators.cascade.keys import Scope
from operators.cascade.paging import OrderValue
from operators.cascade.semantic_cache import Direction
from operators.clients.bm25 import Sparse
from operators.clients.embedders import Embedding
from operators.clients.qdrant.answers import Hits
from operators.clients.rerankers import Verdict
from operators.cloud_event import CloudEvent
from operators.ranking.anchors import TimeAnchor
from operators.ranking.candidate import Candidate, Leg
from operators.ranking.pipeline import Ranked
from operators.recipes import Plan
from operators.telemetry import QueryTrace
from schemas.denial import Denial
from schemas.errors import DeadLetterClass, Reason
from schemas.query import QueryEvent
from schemas.result import RetrievalStage

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
    """A message that can't be answered, on its way to the dead letters; `trace` is its query's, if it was one."""

    message: Message
    kind: DeadLetterClass
    stage: str
    reason: str
    trace: QueryTrace | None = None


class Found(NamedTuple):
    """What a leg found, best first, and by what a lookup ordered it."""

    hits: Hits
    values: Sequence[OrderValue] = ()


class Kept(NamedTuple):
    """An answer from a cache: which one had it, and the result event that was computed for another query."""

    stage: RetrievalStage
    answer: Mapping[str, Any]

    @property
    def served(self) -> dict[str, Any]:
        """The event as it is served now."""
        return {**self.answer, "retrieval_stage": self.stage}


class Step(NamedTuple):
    """A step of a query's way: how long it took, in milliseconds, and how many candidates there were after it."""

    name: str
    latency_ms: float
    candidates: int | None


@dataclass(slots=True)
class InFlight:
    """One query on its way.

    `deadline`, and `started`, when the present stage took it on, are on the monotonic clock. `collection` is Qdrant's.
    `watermark` is how far its namespace was indexed before it was retrieved, None if that isn't known, and `era` how
    often watermarks had gone back then. `leads`: it doesn't wait for another's answer. With a `direction` the answer to
    a query of almost the same one does. `analyser` is what made its `terms`; `uncovered`: what matches the keywords may
    hold none of these. Of a lookup, `ends` is where a page that ends with a record goes on, `end` where the next one
    begins, and `more` says that there is one. `answered`: nothing is left to do but to publish.
    """

    message: Message
    event: QueryEvent
    canonical: Canonical
    plan: Plan
    collection: str
    scope: Scope
    deadline: float
    trace: QueryTrace
    envelope: CloudEvent | None = None
    denial: Denial | None = None
    guard: Guard | None = None
    watermark: tuple[str, ...] | None = None
    era: int = 0
    key: bytes | None = None
    leads: bool = True
    followers: list["InFlight"] = field(default_factory=list)
    direction: Direction | None = None
    kept: Kept | None = None
    parsed: Parsed | None = None
    uncovered: bool = False
    embedding: Embedding | None = None
    terms: Sparse | None = None
    analyser: str | None = None
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
    removed: set[str] = field(default_factory=set)
    ends: Mapping[str, After] = field(default_factory=dict)
    end: After | None = None
    more: bool = False
    steps: list[Step] = field(default_factory=list)
    started: float = 0.0

    def passed(self, step: str, candidates: int | None = None) -> None:
        """Note a step that the query has passed since `started`, if it is to be debugged."""
        if self.event.debug:
            self.steps.append(Step(step, (time.monotonic() - self.started) * 1000, candidates))

    def lose(self, stage: str, reason: Reason) -> None:
        """Note that a part of the answer is lost, in the answer and in the trace."""
        self.degraded.append((stage, reason))
        self.trace.degraded(stage, reason)
