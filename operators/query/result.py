"""Results: what a query is answered with, from what became of it. The same for the flow and for ranking offline."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final, Protocol

from operators.query.canonical import Canonical, Shape
from operators.query.plan import RankingPlan
from operators.query.rerank_scores import RerankScores
from operators.ranking.candidate import Candidate, Leg, union
from operators.ranking.pipeline import Ranked
from schemas.denial import Denial
from schemas.errors import Reason
from schemas.leg import STRUCTURED, VECTOR
from schemas.query import QueryEvent
from schemas.result import LegStatus, RetrievalStage, Status
from schemas.timestamp import rfc3339

Destinations = Mapping[str, Mapping[str, tuple[int, float]]]

_SEARCHED: Final = frozenset({"text", "vector"})
_OWN_PLACE: Final = ("id", "text")
_ALONE: Final = {STRUCTURED: RetrievalStage.STRUCTURED, VECTOR: RetrievalStage.SEMANTIC}


class Answered(Protocol):
    """A query and what became of it."""

    event: QueryEvent
    canonical: Canonical
    plan: RankingPlan
    denial: Denial | None
    legs: dict[str, Leg]
    candidates: list[Candidate]
    ranked: Ranked | None
    rerank_scores: RerankScores | None
    payloads: Mapping[str, Mapping[str, Any]]
    degraded: list[tuple[str, Reason]]
    warnings: list[str]
    removed: set[str]
    more: bool
    expired: bool
    failed: bool
    reranked: bool


def status_of(query: Answered) -> Status:
    """What became of the query: of several that apply, the first of denied, expired, failed, partial, unranked, ok."""
    if query.denial is not None:
        return Status.DENIED
    if query.expired:
        return Status.EXPIRED
    if query.failed:
        return Status.FAILED
    if not query.degraded:
        return Status.OK
    return Status.UNRANKED if all(stage == "rerank" for stage, _ in query.degraded) else Status.PARTIAL


def retrieval_stage(query: Answered) -> RetrievalStage | None:
    """Where the answer came from; None if the query ended before any could give one."""
    if query.denial is not None:
        return RetrievalStage.POLICY
    if not query.legs:
        return None
    if query.canonical.shape is Shape.FAST_PATH:
        return RetrievalStage.FAST_PATH
    if query.canonical.shape is Shape.LOOKUP:
        return RetrievalStage.STRUCTURED
    with_hits = [name for name, leg in query.legs.items() if leg.ids]
    return _ALONE.get(with_hits[0], RetrievalStage.HYBRID_MERGE) if len(with_hits) == 1 else RetrievalStage.HYBRID_MERGE


def page(query: Answered) -> list[Candidate]:
    """The candidates that are the answer's results: a slice of the pool, or all that a lookup turned to."""
    first, last = query.canonical.skip, query.canonical.skip + query.canonical.limit
    if "fetch" in dict(query.degraded):
        return query.candidates[first:last]
    # A candidate behind the fetched ones has no text: it is on a further page.
    fetched = (candidate for candidate in query.candidates if candidate.id in query.payloads)
    return list(islice(fetched, first, last))


def result(
    query: Answered,
    result_id: str,
    results: Sequence[Candidate],
    provenance: Mapping[str, Any],
) -> dict[str, Any]:
    """The result event, but for what only the flow knows: its cursor, a recorded pool, and what is debugged.

    `provenance` is what the caller knows of it: config_hash, models, index_watermark, now, source.
    """
    lost = dict(query.degraded)
    event, plan = query.event, query.plan
    places = {leg.name: leg.places() for leg in query.legs.values()}
    used = [leg.name for leg in query.legs.values() if leg.status is LegStatus.OK]
    ranks = enumerate(results, query.canonical.skip + 1)
    answer = {
        "schema_version": 1,
        "query_id": event.query_id,
        "result_id": result_id,
        "status": status_of(query),
        "profile": plan.name,
        "retrieval_stage": retrieval_stage(query),
        "results": [_hit(rank, candidate, places, query) for rank, candidate in ranks],
        "total": len(query.candidates),
        "has_more": query.more or len(query.candidates) > query.canonical.skip + len(results),
        "next_cursor": None,
        "backends_used": used + list(query.ranked.backends if query.ranked is not None else ()),
        "semantic_unavailable": "embed" in lost or "vector" in lost,
        "legs": [
            {"name": leg.name, "status": leg.status, "reason": leg.reason, "candidates": len(leg.ids)}
            for leg in query.legs.values()
        ],
        "degraded": [{"stage": stage, "reason": reason} for stage, reason in query.degraded],
        "warnings": list(query.warnings),
        "removed_by_firewall": len(query.removed),
        "provenance": {**provenance, "recipe": plan.recipe.name, "recipe_hash": plan.recipe.hash},
        "metadata": event.metadata,
    }
    if query.denial is not None:
        answer["denied"] = query.denial._asdict()
    if query.reranked:
        answer["reranked"] = True
    return answer


def clock(now: float | None) -> str | None:
    """A query's clock as results have it; `now` in Unix seconds."""
    return rfc3339(now) if now is not None else None


def pool(query: Answered, now: float | None) -> dict[str, Any]:
    """The candidate pool that the query was ranked from, by the documents' own ids where these tell them apart.

    `now` is in Unix seconds, and written as such: ages come out again to the bit.
    """
    legs = [leg for leg in query.legs.values() if leg.status is LegStatus.OK]
    own = _own_ids(legs)
    recorded = {
        "query": _asked(query.event),
        "now": now,
        "legs": [
            {
                "name": leg.name,
                "hits": [
                    {"id": own[id_], "score": score, "payload": _without_own(payload)}
                    for id_, score, payload in zip(leg.ids, leg.scores, leg.payloads, strict=True)
                ],
            }
            for leg in legs
        ],
    }
    if query.canonical.skip:
        recorded["skip"] = query.canonical.skip
    if query.rerank_scores is not None:
        recorded["rerank"] = {own[id_]: score for id_, score in query.rerank_scores.scores.items()}
    return recorded


def pooled(recorded: Mapping[str, Any], event: QueryEvent) -> dict[str, Any]:
    """A pool as the answer to this event has it: of another query only what it was ranked by, text and vector."""
    searched = {name: value for name, value in recorded["query"].items() if name in _SEARCHED}
    own = {name: value for name, value in _asked(event).items() if name not in _SEARCHED}
    return {**recorded, "query": {**own, **searched}}


def _asked(event: QueryEvent) -> dict[str, Any]:
    # What a cursor says of the page is told apart from it: it can't be read without the secret.
    return event.model_dump(mode="json", exclude_unset=True, exclude={"cursor"})


def _own_ids(legs: Sequence[Leg]) -> dict[str, str]:
    own = {id_: Candidate(id_, 0.0, payload).document for id_, payload in union(legs).items()}
    while True:
        claims = Counter(own.values())
        shared = [id_ for id_, name in own.items() if claims[name] > 1 and name != id_]
        if not shared:
            return own
        # A point's id can be the name of another's document: what takes it back may be shared in turn.
        own |= {id_: id_ for id_ in shared}


def _without_own(payload: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in payload.items() if name != "id" and not name.startswith("_")}


def _hit(rank: int, candidate: Candidate, places: Destinations, query: Answered) -> dict[str, Any]:
    id_ = candidate.id
    fields = query.payloads.get(id_, {})
    # Other tools' collections may hold anything under these names: it stays in the payload.
    own = {name: value for name in _OWN_PLACE if isinstance(value := fields.get(name), str)}
    hit: dict[str, Any] = {
        "id": own.get("id", id_),
        "rank": rank,
        "score": candidate.score,
        "text": own.get("text"),
        "payload": {name: value for name, value in fields.items() if name not in own and not name.startswith("_")},
        "legs": {name: {"rank": of[id_][0], "score": of[id_][1]} for name, of in places.items() if id_ in of},
    }
    explanations = query.ranked.explanations if query.ranked is not None else None
    if explanations is not None:
        told = explanations.by_id[id_]
        hit["explanation"] = {"legs": told.legs, "stages": told.stages}
    return hit
