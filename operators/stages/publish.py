"""Publish: every query and every refused message becomes its output record.

Waiters receive the leader's answer with their own id, metadata and cursor. The answer goes into the caches, too. The
form of each record is decided by `operators.delivery.way_out`.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import structlog

from operators.caching.keys import binding, state
from operators.delivery.output_record import OutputRecord
from operators.delivery.way_out import WayOut
from operators.mapping.own_names import OwnNames
from operators.query.cursor import MOST_GIVEN, After, Cursor, CursorCodec, PoolSlice, result_digests
from operators.query.in_flight import InFlight
from operators.query.lookup import MOST_SEEN
from operators.query.outcome import Answer
from operators.query.result import debug, page, pool, records_of, result, reuse_pool
from operators.query.search_bodies import depth
from operators.runtime.stage import defect
from operators.stages.answers import Answers
from operators.wire.message import Rejected, result_id
from schemas.fields import rfc3339
from schemas.query import QueryShape
from schemas.result import VERSION, RetrievalStage

log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Publisher:
    """Writes the answers of queries; the configuration's part in them is the same for every query.

    `names` are those that documents have at their senders; None where these are the index's.
    """

    way_out: WayOut
    embedder: str | None
    cursors: CursorCodec
    sparse_encoder: str | None = None
    names: OwnNames | None = None
    off_scale: set[str] = field(default_factory=set)
    """Recipes whose documents' importance was outside its scale."""

    def answer(self, query: InFlight) -> Answer:
        """The query's whole answer; `own` adds the fields of one query."""
        retrieval, origin, asked, outcome = query.retrieval, query.message.origin, query.asked, query.outcome
        results, mark = page(asked, outcome), query.cache.scope.watermark
        provenance = {
            "version": VERSION,
            "config_hash": self.way_out.config_hash,
            "models": {
                "embedder": self.embedder,
                **({"sparse_encoder": self.sparse_encoder} if self.sparse_encoder is not None else {}),
                "reranker": outcome.rerank_scores.model if outcome.rerank_scores is not None else None,
            },
            "index_watermark": list(mark) if mark is not None else None,
            "now": rfc3339(asked.now),
            **({"rules": asked.ruling.version} if asked.ruling is not None else {}),
            "source": {"topic": origin.topic, "partition": origin.partition, "offset": origin.offset},
        }
        event = result(asked, outcome, result_id(origin), results, provenance, retrieval.matcher)
        if asked.event.record:
            event["pool"] = pool(asked, outcome)
        recipe = asked.plan.recipe.name
        if outcome.run.off_scale and recipe not in self.off_scale:
            self.off_scale.add(recipe)
            log.warning("importance outside importance_scale is clamped", recipe=recipe)
        legs = [(leg["name"], leg["status"]) for leg in event["legs"]]
        query.trace.answered(legs, removed=event["removed_by_firewall"], aged=outcome.run.aged)
        ends = [retrieval.ends[candidate.id] for candidate in results] if retrieval.ends else ()
        records = records_of(results, outcome, asked.access_filter) if query.cache.key is not None else ()
        return Answer(event, asked.now, ends, retrieval.end, records)

    def own(self, query: InFlight, answer: Answer) -> dict[str, Any]:
        """The answer's event with this query's own fields, whichever query it was computed for."""
        asked, cache = query.asked, query.cache
        event = answer.event
        own = {
            **event,
            "query_id": asked.event.query_id,
            "result_id": result_id(query.message.origin),
            "warnings": list(dict.fromkeys([*query.outcome.warnings, *event["warnings"]])),
            "metadata": asked.event.metadata,
        }
        if asked.event.record and (cache.cached is not None or not cache.leads):
            own["pool"] = reuse_pool(event["pool"], asked.recorded)
        if asked.event.debug:
            own["debug"] = debug(query)
        if event["has_more"]:
            own["next_cursor"] = self.next_cursor(query, answer, len(event["results"]))
            if own["next_cursor"] is None:
                own["warnings"].append(f"no page leads beyond {MOST_SEEN} documents that are equal in the order")
            if cache.cached is not None and cache.cached.event["retrieval_stage"] is RetrievalStage.SEMANTIC_CACHE:
                own["warnings"].append("answered by a similar query's page: further pages may repeat results of it")
        return self.names.write(own) if self.names is not None else own

    def next_cursor(self, query: InFlight, answer: Answer, given: int) -> str | None:
        """The cursor after a number of results of a page; None if no cursor leads on from there."""
        asked, cache = query.asked, query.cache
        position: PoolSlice | After
        if asked.shape is QueryShape.SEARCH:
            position = PoolSlice(asked.skip + given, depth(query))
        else:
            # What was removed from a page is behind it: a whole page goes on where it ended before.
            end = answer.end if given == len(answer.ends) else answer.ends[given - 1]
            if end is None or end.seen > MOST_SEEN:
                return None
            position = end
        # Rules read the text as it came, on each page: a cursor is bound to that.
        text = asked.ruling.bound if asked.ruling is not None and asked.ruling.rewriting else asked.text
        bound = binding(cache.scope, text, asked.event.vector)
        known = state(cache.scope) if cache.scope.watermark is not None else None
        earlier, continued = (asked.cursor.given, asked.cursor.continued) if asked.cursor is not None else ((), False)
        results = *earlier, *result_digests(*[hit["id"] for hit in answer.event["results"][:given]])
        return self.cursors.write(Cursor(bound, known, answer.now, position, results[-MOST_GIVEN:], continued))


@dataclass(frozen=True, slots=True)
class Finaliser:
    """Ends queries and messages, with all that waited for them."""

    publisher: Publisher
    answers: Answers

    def __call__(self, item: InFlight | Rejected) -> list[OutputRecord]:
        """The records of a query or a refused message, and of its waiters: identical queries, which end alike."""
        waiters = self.answers.finish(item.message.origin)
        publisher, records = self.publisher, list[OutputRecord]()
        way_out, refuse = publisher.way_out, publisher.way_out.refuse
        if isinstance(item, Rejected):
            alike = (replace(item, message=each.message, trace=each.trace) for each in waiters)
            return [record for each in (item, *alike) for record in refuse(each)]
        cached = item.cache.cached
        try:
            answer = cached if cached is not None else publisher.answer(item)
        except Exception as error:  # noqa: BLE001  reported and accounted for
            return [record for each in (item, *waiters) for record in refuse(defect("publish", each, error))]
        try:
            self.answers.put(item, answer)
        except Exception as error:  # noqa: BLE001  the answer is there, whether it is kept or not
            defect("cache", item, error)
        for each in (item, *waiters):
            each.cache.cached = cached
            try:
                own = publisher.own(each, answer)
                records += way_out.answer(each, own, partial(publisher.next_cursor, each, answer))
            except Exception as error:  # noqa: BLE001  reported and accounted for
                records += refuse(defect("publish", each, error))
        return records
