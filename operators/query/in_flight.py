"""The query in flight: the one type that travels through the flow, from the message to its output record."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from operators.access.firewall import find_forbidden
from operators.caching.keys import Scope
from operators.caching.semantic_cache import Likeness
from operators.query.backend_answers import Embedding
from operators.query.canonical import Query
from operators.query.collection import Capabilities
from operators.query.cursor import After, PoolSlice
from operators.query.outcome import Answer, Outcome
from operators.query.search import Found, Search
from operators.text.dates import TemporalExpression
from operators.text.expression import Parsed
from operators.text.passages import Matcher
from operators.text.terms import QueryWord, SparseVector
from operators.wire.cloud_event import CloudEvent
from operators.wire.message import Message, Rejected, Trace
from schemas.document import COLUMNS
from schemas.errors import BackendError, DeadLetterClass, Reason

_UNKNOWN: Final = Capabilities("")


class Step(NamedTuple):
    """A step of a query's way: how long it took, in milliseconds, and how many candidates there were after it."""

    name: str
    latency_ms: float
    candidates: int | None


@dataclass(slots=True)
class CacheLookup:
    """The part of a query that the caches read, and the answer that they gave.

    `generation` is that of the watermarks when the scope's was read. `leads`: no other query's answer is waited for;
    `waiters` wait for this one's. `likeness`: an answer to a query that is like this one serves it.
    """

    scope: Scope
    generation: int = 0
    key: bytes | None = None
    leads: bool = True
    waiters: list["InFlight"] = field(default_factory=list)
    likeness: Likeness | None = None
    cached: Answer | None = None


@dataclass(slots=True)
class Retrieval:
    """The legs' input, their requests, their outcomes, and where the pages of an ordered lookup end.

    - `columns` are the searched fields of the collection, `filtered` those that a keyword expression may look in.
    - `analyser` made the `terms`, `words` has those of each word and form; `uncovered`: some documents that match the
      keywords hold none of the terms. `matcher` finds the query's words in texts, `unknown` are those that no leg
      found and others may be near to, `embedding` is the text's dense vector, `encoding` the sparse encoder's.
    - `searches` has the search of each leg that is asked, None until they are written, and the legs' names alone once
      all have ended; `legs_left` counts those whose request has not, and `found` has each one's outcome until all are
      there.
    - `ends` maps a record to the position of a page that ends with it, `end` is that of the whole page's end.
    """

    capabilities: Capabilities = _UNKNOWN
    parsed: Parsed | None = None
    columns: Sequence[str] = COLUMNS
    filtered: Sequence[str] = COLUMNS
    matcher: Callable[[], Matcher] | None = None
    uncovered: bool = False
    terms: SparseVector | None = None
    words: Sequence[QueryWord] = ()
    analyser: str | None = None
    embedding: Embedding | None = None
    encoding: SparseVector | None = None
    unknown: Sequence[QueryWord] = ()
    temporal_expression: TemporalExpression | None = None
    searches: Mapping[str, Search | None] | None = None
    legs_left: int = 0
    found: dict[str, Found | BackendError] = field(default_factory=dict)
    ends: Mapping[str, After] = field(default_factory=dict)
    end: After | None = None


@dataclass(slots=True)
class InFlight:
    """One query on its way; `answered`: only publishing is left.

    `deadline`, and `started`, when the present stage took the query on, are on the monotonic clock.
    """

    message: Message
    asked: Query
    cache: CacheLookup
    deadline: float
    trace: Trace
    envelope: CloudEvent | None = None
    retrieval: Retrieval = field(default_factory=Retrieval)
    outcome: Outcome = field(default_factory=Outcome)
    answered: bool = False
    steps: list[Step] = field(default_factory=list)
    started: float = 0.0

    @property
    def collection(self) -> str:
        """The name by which Qdrant is asked: one collection answers the whole query, whatever becomes of an alias."""
        able = self.retrieval.capabilities
        return able.alias or able.name or self.asked.collection

    @property
    def may_lack_given(self) -> bool:
        """True if a result of an earlier page may have expired since: no watermark tells that."""
        return self.asked.cursor is not None and self.retrieval.capabilities.expires

    def passed(self, step: str, candidates: int | None = None) -> None:
        """Count a step that the query has passed since `started`, and note it if the query is to be debugged."""
        seconds = time.monotonic() - self.started
        self.trace.passed(step, seconds)
        if self.asked.event.debug:
            self.steps.append(Step(step, seconds * 1000, candidates))

    def reject(self, stage: str, kind: DeadLetterClass, reason: str, field: str | None = None) -> Rejected:
        """The refusal of the query's message."""
        return Rejected(self.message, kind, stage, reason, self.trace, field)

    def lose(self, stage: str, reason: Reason) -> None:
        """Note that a part of the answer is lost, in the answer and in the trace."""
        self.outcome.degraded.append((stage, reason))
        self.trace.degraded(stage, reason)

    def continue_page(self, *, first: int | None = None) -> None:
        """Have the page leave out what was given by another state of the index; `first` of the candidates were."""
        cursor = self.asked.cursor
        assert cursor is not None
        position = cursor.position
        if first is not None and isinstance(position, PoolSlice):
            # Of what was given, a cursor knows the last results: the others are counted.
            position = replace(position, skip=first + max(0, position.skip - len(cursor.given)))
        self.asked = replace(self.asked, cursor=replace(cursor, position=position, continued=True))

    def check_found(self) -> None:
        """Remove the documents that the query may not see from its legs' hits, as if they were not there."""
        forbidden: set[str] = set()
        for leg in self.outcome.legs.values():
            forbidden |= find_forbidden(self.asked.access_filter, leg.ids, leg.payloads)
        self._remove(forbidden)

    def check_fetched(self, payloads: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
        """The payloads that the query may see: a document may have changed since the legs saw it."""
        forbidden = find_forbidden(self.asked.access_filter, payloads, payloads.values())
        self._remove(forbidden)
        return {id_: payload for id_, payload in payloads.items() if id_ not in forbidden} if forbidden else payloads

    def _remove(self, forbidden: set[str]) -> None:
        if not forbidden:
            return
        self.outcome.removed |= forbidden
        self.outcome.vectors = {id_: each for id_, each in self.outcome.vectors.items() if id_ not in forbidden}
        for name, leg in self.outcome.legs.items():
            self.outcome.legs[name] = leg.at([rank for rank, id_ in enumerate(leg.ids) if id_ not in forbidden])
