"""Answers: those that are cached, and the queries under way that others may wait for.

Rules:
- An answer is served only if it was computed at the namespace's present watermark. That watermark counts
  only if every record that the topic held after the query was read has been read: a query whose watermark is not known
  passes the caches by.
- A query that is identical to one under way, its leader, at the same watermark, waits for that one's answer (request
  coalescing, singleflight) if the leader has about as much time left: with much less the answer would lose parts that
  the query would not, with more it would come too late.
- When a watermark has gone back, a new generation begins, and all earlier answers are forgotten: the
  watermark may come to the same value again. A query of an earlier generation is neither answered from here nor cached.
- A cursor that was issued at another watermark, or under another configuration, has expired, unless the query is to
  continue: then its page leaves out the results that the cursor knows.
- A cached answer with a record that the query may not see is as good as none. The check reads the records' fields as
  they were when the answer was computed.
- A cached answer is served, and one under way is waited for, until the first of its documents expires, by the clock of
  the flow at that moment: a query may have waited since it was received.
- An answer in the semantic cache serves a paraphrase of its query. A query with a vector of its own is served by one of
  the same direction and of the same text alone: without words nothing says whether two near vectors ask the same.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

import orjson

from operators.access.firewall import find_forbidden
from operators.caching.bounded import ExactCache
from operators.caching.keys import exact_key, scope_key, state
from operators.caching.paraphrase import wording
from operators.caching.semantic_cache import Likeness, SemanticCache, digest_parts, direction
from operators.query.canonical import Query
from operators.query.cursor import MOST_GIVEN, After
from operators.query.in_flight import InFlight
from operators.query.legs import legs
from operators.query.outcome import Answer
from operators.query.search_bodies import vector_of
from operators.text.times import find_time
from operators.wire.message import Origin
from schemas.document import EXPIRES
from schemas.errors import DeadLetterClass, InputError
from schemas.query import QueryShape
from schemas.recipes.stages import Versions
from schemas.result import VECTOR, RetrievalStage, Status

_LEAST: Final = 0.5
_MOST_TIME: Final = 1.1
"""Shares of the time that a query has left, which a leader that it waits for may have left."""

COALESCED: Final = "coalesced"
"""The name under which queries that wait for another's answer are counted."""

_CACHES: Final = {RetrievalStage.EXACT_CACHE: "exact", RetrievalStage.SEMANTIC_CACHE: "semantic"}

Watermark = tuple[str, ...]


@dataclass(eq=False)
class Answers:
    """The answers that are kept and those under way. The engine's worker alone uses them.

    `clock_bucket` in seconds: queries of one span share answers that depend on the time.
    """

    exact: ExactCache
    semantic: SemanticCache
    clock_bucket: float
    clock: Callable[[], float] = time.monotonic
    _leaders: dict[bytes, InFlight] = field(default_factory=dict, init=False)
    leading: dict[Origin, InFlight] = field(default_factory=dict, init=False)
    """Queries under way that others may wait for."""
    _generation: int = field(default=0, init=False)

    def look_up(self, query: InFlight, watermark: Watermark | None, generation: int = 0) -> InFlight:
        """Answer the query by a kept answer, let it follow one under way, or let it lead.

        `generation` is how often watermarks had gone back when this one was read. Raises InputError `cursor_expired`.
        """
        asked, cache = query.asked, query.cache
        if generation > self._generation:
            # Nothing holds any more that was answered, or is under way.
            self._generation, self._leaders = generation, {}
            self.exact.clear()
            self.semantic.clear()
        cache.generation = generation
        physical, analyser = query.retrieval.capabilities.name, query.retrieval.analyser
        cache.scope = replace(cache.scope, physical=physical, watermark=watermark, analyser=analyser)
        self._check(query)
        # Without a watermark nothing says when the namespace changes.
        if not watermark or generation < self._generation or asked.shape is QueryShape.FAST_PATH:
            return query
        if _depends_on_time(query):
            cache.scope = replace(cache.scope, clock=int(asked.now // self.clock_bucket))
        cache.key = exact_key(cache.scope, asked.text, asked.event.vector)
        if "exact" in query.asked.plan.profile.caches:
            cached = self.exact.get(cache.key, self.clock())
            query.passed(RetrievalStage.EXACT_CACHE.value)
            if self._try_serve(query, RetrievalStage.EXACT_CACHE, cached):
                return query
        leader = self._leaders.get(cache.key)
        if leader is not None and self._patient(leader, query):
            cache.leads = False
            leader.cache.waiters.append(query)
            query.trace.looked_up(COALESCED, 1, 0)
        else:
            self._leaders[cache.key] = query
            self.leading[query.message.origin] = query
        return query

    def semantic_lookup(self, query: InFlight) -> InFlight:
        """Answer the query with the cached answer to a paraphrase of it, if there is one."""
        cache = query.cache
        query.started = time.monotonic()
        cache.likeness = _likeness(query) if cache.key is not None else None
        if cache.likeness is None:
            return query
        cached = self.semantic.nearest(_kind(query), cache.likeness, self.clock())
        self._try_serve(query, RetrievalStage.SEMANTIC_CACHE, cached)
        query.passed(RetrievalStage.SEMANTIC_CACHE.value)
        return query

    def put(self, query: InFlight, answer: Answer) -> None:
        """Cache the query's answer, if it was computed, and nothing of it was lost, removed or gone.

        A page that lacks a document that has expired since the search is short: there may be a next one for its place.
        """
        cache = query.cache
        computed = cache.key is not None and cache.cached is None and cache.generation == self._generation
        if not computed or answer.event["status"] != Status.OK or query.outcome.removed or query.outcome.results.gone:
            return
        key = cache.key if "exact" in query.asked.plan.profile.caches else None
        if key is None and cache.likeness is None:
            return
        written, now = _write(answer, query.asked.text, _first_expiry(query)), self.clock()
        if key is not None:
            self.exact.put(key, written, now)
        if cache.likeness is not None:
            self.semantic.put(_kind(query), cache.likeness, written, now)

    def finish(self, origin: Origin) -> list[InFlight]:
        """End the lead of the query that was read there, and return its waiters."""
        query = self.leading.pop(origin, None)
        if query is None:
            return []
        assert query.cache.key is not None
        if self._leaders.get(query.cache.key) is query:
            del self._leaders[query.cache.key]
        return query.cache.waiters

    def _patient(self, leader: InFlight, query: InFlight) -> bool:
        """True if the leader has 0.5 to 1.1 times the query's remaining time: its losses are both's.

        A leader whose documents have expired since it fetched them would answer with these.
        """
        now = self.clock()
        left = query.deadline - now
        timely = _LEAST * left <= leader.deadline - now <= _MOST_TIME * left
        return timely and not _is_past(_first_expiry(leader))

    def _try_serve(self, query: InFlight, stage: RetrievalStage, cached: bytes | None) -> bool:
        hit = False
        if cached is not None:
            answer, until = _read(cached, stage)
            records = answer.records
            # A cached answer with a record that the query may not see is as good as none.
            seen = query.asked.access_filter
            hit = not _is_past(until) and not find_forbidden(seen, map(str, range(len(records))), records)
            if hit:
                query.cache.cached, query.answered = answer, True
        query.trace.looked_up(_CACHES[stage], hit, not hit)
        return hit

    def _check(self, query: InFlight) -> None:
        cache = query.cache
        cursor = query.asked.cursor
        if cursor is None:
            return
        known = cache.scope.watermark is not None and cursor.state is not None
        strict = query.asked.event.cursor_policy == "strict"
        changed = known and cursor.state != state(cache.scope)
        if changed and strict:
            raise InputError(DeadLetterClass.CURSOR_EXPIRED, _EXPIRED)
        if not strict:
            # The index changes a moment before its watermark does: a page that looks like the last one's may not be.
            query.continue_page()
            # A strict page of the same cursor counts what was given, and is another one.
            cache.scope = replace(cache.scope, page=f"{cache.scope.page} continued")
        warnings = query.outcome.warnings
        if changed:
            warnings.append(_CONTINUED)
        if not known or not cache.scope.watermark:
            warnings.append("the index may have changed since the cursor's page: its watermark isn't known")


_EXPIRED: Final = "cursor: index or configuration has changed since; ask without it, or with cursor_policy: continue"
_CONTINUED: Final = (
    "index or configuration has changed since the cursor's page: results may be missing, and those before the last"
    f" {MOST_GIVEN} may come again"
)

_OWN: Final = frozenset({"query_id", "result_id", "metadata", "debug"})
"""The fields of a result that every query has of its own."""


def _depends_on_time(query: InFlight) -> bool:
    asked, recipe = query.asked, query.asked.plan.recipe
    return asked.shape is QueryShape.SEARCH and (
        recipe.timed or asked.event.reflections_only or (recipe.stage(Versions) is not None and _names_time(asked))
    )


def _names_time(asked: Query) -> bool:
    return asked.text is not None and find_time(asked.text, asked.now) is not None


def _kind(query: InFlight) -> bytes:
    """The part of the semantic cache with answers for the query: those to queries whose vector is of the same kind."""
    asked = query.asked
    own, text = asked.event.vector is not None, asked.text is not None
    return scope_key(query.cache.scope, "own" if own and not text else "both" if own else "embedded")


def _likeness(query: InFlight) -> Likeness | None:
    """Key for the semantic cache; None if the query must not use it.

    That is so without a vector, with a keyword expression or a time in the text, and with a warning or a loss.
    """
    retrieval, outcome, asked = query.retrieval, query.outcome, query.asked
    vector, caches = vector_of(query), query.asked.plan.profile.caches
    if vector is None or "semantic" not in caches or VECTOR not in legs(query) or outcome.warnings or outcome.degraded:
        return None
    expert = retrieval.parsed is not None and retrieval.parsed.expression is not None
    dated = retrieval.temporal_expression is not None or _names_time(asked)
    if expert or dated or (where := direction(vector)) is None:
        return None
    own, text = asked.event.vector is not None, asked.text or ""
    words = [text] if own else wording(text)
    return Likeness(where, digest_parts(*(word.encode("utf-8", "surrogatepass") for word in words)), same=own)


def _first_expiry(query: InFlight) -> int | None:
    """The time in ms at which the first of the documents expires that a query has fetched, neighbours among them, or
    counts in the groups of these; None if none does. With facets it is past: the documents that they count are unknown.
    """
    if query.asked.event.facets is not None and query.retrieval.capabilities.expires:
        return 0
    outcome, groups = query.outcome, query.outcome.results.groups
    around = (payload for sides in outcome.neighbours.values() for side in sides for payload in side)
    shown = (groups[id_].candidates for id_ in outcome.payloads if id_ in groups)
    grouped = (each.payload for each in chain.from_iterable(shown))
    times = (payload.get(EXPIRES) for payload in chain(outcome.payloads.values(), around, grouped))
    return min((each for each in times if each is not None), default=None)


def _is_past(until: int | None) -> bool:
    return until is not None and until <= time.time() * 1000


def _write(answer: Answer, asked: str | None, until: int | None) -> bytes:
    event = {name: value for name, value in answer.event.items() if name not in _OWN}
    # A copy: orjson's own bytes have been a larger buffer, whose rest nothing else fits into.
    return bytes(memoryview(orjson.dumps((event, answer.now, answer.ends, answer.end, answer.records, asked, until))))


def _read(cached: bytes, stage: RetrievalStage) -> tuple[Answer, int | None]:
    """The answer as the cache of this stage serves it, and the time in ms until which it may be served."""
    event, now, ends, end, records, asked, until = orjson.loads(cached)
    event["retrieval_stage"] = stage
    if stage is RetrievalStage.SEMANTIC_CACHE:
        event["provenance"]["asked"] = asked
    last = After(**end) if end is not None else None
    return Answer(event, now, [After(**each) for each in ends], last, records), until
