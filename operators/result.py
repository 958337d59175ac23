"""Results: what a query is answered with, from what became of it. The same for the flow and for ranking offline."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final, Protocol

from operators.clients.rerankers import Verdict
from operators.ranking.candidate import Candidate, Leg, union
from operators.ranking.pipeline import Ranked
from operators.recipes import Plan
from schemas.errors import Reason
from schemas.query import QueryEvent
from schemas.result import LegStatus, Status
from schemas.timestamp import rfc3339

Places = Mapping[str, Mapping[str, tuple[int, float]]]

_OWN_PLACE: Final = ("id", "text")


class Answered(Protocol):
    """A query and what became of it."""

    event: QueryEvent
    plan: Plan
    legs: dict[str, Leg]
    candidates: list[Candidate]
    ranked: Ranked | None
    verdict: Verdict | None
    payloads: Mapping[str, Mapping[str, Any]]
    degraded: list[tuple[str, Reason]]
    warnings: list[str]
    expired: bool
    failed: bool
    reranked: bool


def status_of(query: Answered) -> Status:
    """What became of the query: of several that apply, the first of expired, failed, partial, unranked, ok."""
    if query.expired:
        return Status.EXPIRED
    if query.failed:
        return Status.FAILED
    if not query.degraded:
        return Status.OK
    return Status.UNRANKED if all(stage == "rerank" for stage, _ in query.degraded) else Status.PARTIAL


def page(query: Answered) -> list[Candidate]:
    """The candidates that are the answer's results."""
    if "fetch" in dict(query.degraded):
        return query.candidates[: query.event.page_size]
    # A candidate behind the fetched ones has no text: it is on a further page.
    fetched = (candidate for candidate in query.candidates if candidate.id in query.payloads)
    return list(islice(fetched, query.event.page_size))


def result(
    query: Answered,
    result_id: str,
    results: Sequence[Candidate],
    provenance: Mapping[str, Any],
    now: float | None,
    *,
    whole: bool = True,
    warnings: Sequence[str] = (),
) -> dict[str, Any]:
    """The result event, but for a recorded pool; not `whole`: without texts and payloads.

    `provenance` is what the caller knows of it: config_hash, models, source; `now` is in Unix seconds.
    """
    lost = dict(query.degraded)
    event, plan = query.event, query.plan
    places = {leg.name: leg.places() for leg in query.legs.values()}
    clock = rfc3339(now) if now is not None else None
    used = [leg.name for leg in query.legs.values() if leg.status is LegStatus.OK]
    answer = {
        "schema_version": 1,
        "query_id": event.query_id,
        "result_id": result_id,
        "status": status_of(query),
        "profile": plan.name,
        "results": [_hit(rank, candidate, places, query, whole=whole) for rank, candidate in enumerate(results, 1)],
        "total": len(query.candidates),
        "has_more": len(query.candidates) > len(results),
        "backends_used": used + list(query.ranked.backends if query.ranked is not None else ()),
        "semantic_unavailable": "embed" in lost or "vector" in lost,
        "legs": [
            {"name": leg.name, "status": leg.status, "reason": leg.reason, "candidates": len(leg.ids)}
            for leg in query.legs.values()
        ],
        "degraded": [{"stage": stage, "reason": reason} for stage, reason in query.degraded],
        "warnings": [*query.warnings, *warnings],
        "provenance": {
            **provenance,
            "recipe": plan.recipe.name,
            "recipe_hash": plan.recipe.hash,
            "now": clock,
        },
        "metadata": event.metadata,
    }
    if query.reranked:
        answer["reranked"] = True
    return answer


def pool(query: Answered, now: float | None) -> dict[str, Any]:
    """The candidate pool that the query was ranked from, by the documents' own ids where these tell them apart.

    `now` is in Unix seconds, and written as such: ages come out again to the bit.
    """
    legs = [leg for leg in query.legs.values() if leg.status is LegStatus.OK]
    own = _own_ids(legs)
    recorded = {
        "query": query.event.model_dump(mode="json", exclude_unset=True),
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
    if query.verdict is not None:
        recorded["rerank"] = {own[id_]: score for id_, score in query.verdict.scores.items()}
    return recorded


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


def _hit(rank: int, candidate: Candidate, places: Places, query: Answered, *, whole: bool) -> dict[str, Any]:
    id_ = candidate.id
    fields = query.payloads.get(id_, {})
    # Other tools' collections may hold anything under these names: it stays in the payload.
    own = {name: value for name in _OWN_PLACE if isinstance(value := fields.get(name), str)}
    hit: dict[str, Any] = {
        "id": own.get("id", id_),
        "rank": rank,
        "score": candidate.score,
        "text": own.get("text") if whole else None,
        "payload": {name: value for name, value in fields.items() if name not in own and not name.startswith("_")}
        if whole
        else {},
        "legs": {name: {"rank": of[id_][0], "score": of[id_][1]} for name, of in places.items() if id_ in of},
    }
    trail = query.ranked.trail if query.ranked is not None else None
    if trail is not None:
        told = trail.explanations[id_]
        hit["explanation"] = {"legs": told.legs, "stages": told.stages}
    return hit
