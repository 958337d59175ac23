"""Results: the event that answers a query, made from its outcome. The same for the flow and for ranking offline."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from operator import attrgetter
from typing import Any, Final

from operators.access.filters import fields_of, on_fields
from operators.access.firewall import GUARDED, AccessFilter
from operators.query.canonical import Query
from operators.query.in_flight import InFlight
from operators.query.outcome import Outcome, is_given, own_time
from operators.query.plan import RankingPlan
from operators.query.returned import View, hide, is_hidden, share_of, wants_words
from operators.query.ruling import STAGE
from operators.query.search_bodies import depth
from operators.ranking.candidate import Candidate, Leg, union
from operators.ranking.content import identify_content
from operators.ranking.fusion import resolve_decay
from operators.text.passages import Matcher
from schemas.document import CONTENT, FIELDS, MARKS, NEIGHBOURS
from schemas.errors import Reason
from schemas.filters import InCircle, names_of
from schemas.pool import encode_vector
from schemas.query import GeoDistance, QueryEvent, QueryShape
from schemas.recipes.fusion import Decay
from schemas.result import FACETS, KEYWORD, PINNED, STRUCTURED, VECTOR, LegStatus, RetrievalStage, Status, TotalRelation

_WHY: Final = {
    Reason.TIMEOUT: "the answer did not come in time",
    Reason.UNAVAILABLE: "the server cannot be reached, or is overloaded",
    Reason.BAD_RESPONSE: "the server's answer breaks the protocol",
    Reason.UNAUTHORIZED: "the server refuses the credentials",
    Reason.NO_COLLECTION: "the collection does not exist",
    Reason.REFUSED: "the server refuses the request",
    Reason.DEADLINE: "the query's deadline passed",
    Reason.NO_EMBEDDER: "no embedder is configured, and the query has no vector",
}

_MATCHING: Final = frozenset({KEYWORD, STRUCTURED})
"""The legs whose candidates match a query; the others give what is nearest to it."""

_id: Final = attrgetter("id")
_more: Final = attrgetter("more")

_SEARCHED: Final = frozenset({"text", "vector"})
_LOOKED_UP: Final = {QueryShape.FAST_PATH: RetrievalStage.FAST_PATH, QueryShape.LOOKUP: RetrievalStage.STRUCTURED}
_ALONE: Final = {STRUCTURED: RetrievalStage.STRUCTURED, VECTOR: RetrievalStage.SEMANTIC}


def status_of(asked: Query, outcome: Outcome) -> Status:
    """The status of a query that wasn't refused: the first that applies of those below `invalid`, in their order."""
    if asked.denial is not None:
        return Status.DENIED
    if outcome.expired:
        return Status.EXPIRED
    if outcome.failed:
        return Status.FAILED
    if not outcome.degraded:
        return Status.OK
    unread = outcome.rerank_scores is None and all(stage == "rerank" for stage, _ in outcome.degraded)
    return Status.UNRANKED if unread else Status.PARTIAL


def retrieval_stage(asked: Query, outcome: Outcome) -> RetrievalStage | None:
    """The origin of the answer; None if the query ended before any could give one."""
    if asked.denial is not None:
        return RetrievalStage.POLICY
    if not outcome.legs:
        return None
    if asked.shape is not QueryShape.SEARCH:
        return _LOOKED_UP[asked.shape]
    with_hits = [name for name, leg in outcome.legs.items() if leg.ids]
    return _ALONE.get(with_hits[0], RetrievalStage.HYBRID_MERGE) if len(with_hits) == 1 else RetrievalStage.HYBRID_MERGE


def total_of(asked: Query, outcome: Outcome) -> tuple[int, TotalRelation]:
    """The number of documents, or of groups, that match the query, and its relation to that of all that match.

    What matches is a reflection where they alone are ranked, or passes the query's least relevance where it has one, or
    else holds a word of it, or passes the filters of a query without words. All documents are near a query by their
    vectors, more or less: what the other legs alone found is no match, and counts where nothing else can be counted.
    """
    candidates, grouping, legs = outcome.candidates, outcome.results.grouping, outcome.legs.values()
    # Words of examples are none that anybody asked for.
    like = asked.event.like is not None and not (asked.text or asked.event.like.text)
    counts = outcome.counted.counts if outcome.counted is not None else None
    if (asked.plan.min_relevance > 0 and asked.shape is QueryShape.SEARCH) or asked.event.reflections_only:
        matching, found = [*legs], len(candidates)
    elif counts is not None and grouping is None:
        return counts.matched, TotalRelation.EQ if counts.exact else TotalRelation.GTE
    elif asked.shape is not QueryShape.SEARCH:
        # Earlier and later pages have others.
        more = outcome.more or asked.cursor is not None
        return len(candidates), TotalRelation.GTE if more else TotalRelation.EQ
    elif like or not (matching := [leg for leg in legs if leg.name in _MATCHING and leg.status is LegStatus.OK]):
        return len(candidates), TotalRelation.NEAREST
    else:
        held = set().union(*[leg.ids for leg in matching])
        found = len(held.intersection(map(_id, candidates)))
        if grouping is not None:
            groups = outcome.results.groups.values()
            found = sum(not held.isdisjoint(map(_id, each.candidates)) for each in groups)
    return found, TotalRelation.GTE if any(map(_more, matching)) else TotalRelation.EQ


def page(asked: Query, outcome: Outcome) -> Sequence[Candidate]:
    """The candidates that are the answer's results: a slice of the pool, or all that a lookup turned to."""
    skip = asked.skip
    candidates = outcome.candidates[: skip + asked.limit]
    if "fetch" in dict(outcome.degraded):
        return candidates[skip:]
    for place, candidate in enumerate(candidates):
        if candidate.id not in outcome.payloads:
            # It has no text: it and those behind it are on a further page.
            return candidates[skip:place]
    return candidates[skip:]


def result(
    asked: Query,
    outcome: Outcome,
    result_id: str,
    results: Sequence[Candidate],
    provenance: Mapping[str, Any],
    matcher: Callable[[], Matcher] | None = None,
) -> dict[str, Any]:
    """The result event, without its cursor, a recorded pool and its debug, which only the flow knows.

    `provenance` has the caller's fields of it; `matcher` finds the query's words where passages are asked for.
    """
    canonical, plan, documents = asked, asked.plan, documents_of(results, outcome)
    view, legs = view_of(plan, len(documents), matcher), outcome.legs.values()
    total, relation = total_of(asked, outcome)
    answer = {
        "schema_version": 1,
        "query_id": canonical.event.query_id,
        "result_id": result_id,
        "status": status_of(asked, outcome),
        "profile": plan.name,
        "retrieval_stage": retrieval_stage(asked, outcome),
        "results": _hits(asked, outcome, results, documents, view),
        "total": total,
        "total_relation": relation,
        "has_more": outcome.more or len(outcome.candidates) > canonical.skip + len(results),
        "next_cursor": None,
        "backends_used": [leg.name for leg in legs if leg.ids] + outcome.run.backends,
        **_semantic(dict(outcome.degraded)),
        "legs": [
            {"name": leg.name, "status": leg.status, "reason": leg.reason, "candidates": len(leg.ids)} for leg in legs
        ],
        "degraded": [{"stage": stage, "reason": reason} for stage, reason in outcome.degraded],
        "warnings": [*outcome.warnings, *outcome.run.warnings()],
        "removed_by_firewall": len(outcome.removed),
        "provenance": {**provenance, "recipe": plan.recipe.name, "recipe_hash": plan.recipe.hash},
        "metadata": canonical.event.metadata,
    }
    if asked.denial is not None:
        answer["denied"] = asked.denial._asdict()
    if understood := outcome.run.understood or canonical.understood:
        answer["understood"] = [each.model_dump(mode="json") for each in understood]
    if (counted := outcome.counted) is not None:
        status, reason, counts = counted
        found = counts.matched if counts is not None else 0
        answer["legs"].append({"name": FACETS, "status": status, "reason": reason, "candidates": found})
        if counts is not None:
            answer["facets"] = counts.facets
    if asked.ruling is not None and asked.ruling.ids:
        answer["rules"] = [*asked.ruling.ids]
    if outcome.run.reranked:
        answer["reranked"] = True
    if outcome.rerank_scores is not None:
        unscored = len(outcome.rerank_scores.unscored)
        answer["reranked_candidates"] = outcome.rerank_scores.top - unscored
        if unscored:
            answer["unscored_candidates"] = unscored
    return answer


def pool(asked: Query, outcome: Outcome) -> dict[str, Any]:
    """The candidate pool that the query was ranked from, by the documents' own ids where these tell them apart."""
    hidden = asked.plan.hidden
    legs = [leg for leg in outcome.legs.values() if leg.status is LegStatus.OK and leg.name != PINNED]
    own = _own_ids(legs)
    hits, before, scores = union(legs), asked.given, outcome.rerank_scores
    contents = _number_contents(hits)
    # Their order alone: the number would tell of fields that are hidden.
    sizes: list[Any] = sorted({size for each in hits.values() if type(size := each.get(FIELDS)) is int})
    # Each candidate's digests are made for this: without results from before there is nothing to compare them with.
    given = [id_ for id_, each in hits.items() if is_given(Candidate(id_, 0.0, each), before)] if before else []
    times = [(id_, own_time(each, asked.event.order_by)) for id_, each in hits.items()]

    def show(id_: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        number: dict[str, Any] = {CONTENT: contents[id_]} if id_ in contents else {}
        number |= {FIELDS: sizes.index(size)} if (size := payload.get(FIELDS)) in sizes else {}
        if isinstance(window := payload.get(NEIGHBOURS), list):
            number[NEIGHBOURS] = [own.get(each, "") for each in window]
        visible = hide(payload, hidden).items()
        return {**{name: value for name, value in visible if name != "id" and not name.startswith("_")}, **number}

    parts: dict[str, Any] = {
        "query": asked.recorded,
        # In Unix seconds: ages come out again to the bit.
        "now": asked.now,
        "legs": [
            {
                "name": leg.name,
                "hits": [
                    {"id": own[id_], "score": score, "payload": show(id_, payload)}
                    for id_, score, payload in zip(leg.ids, leg.scores, leg.payloads, strict=True)
                ],
                **({"more": True} if leg.more else {}),
            }
            for leg in legs
        ],
        "skip": asked.skip or None,
        "given": [own[id_] for id_ in given] or None,
        "times": {own[id_]: time for id_, time in times if time is not None} or None,
    }
    if scores is not None:
        parts["rerank"] = {own[id_]: score for id_, score in scores.scores.items()}
        parts |= {"reranked_candidates": scores.top, "measure": scores.measure}
        parts["unscored"] = sorted(own[id_] for id_ in scores.unscored) or None
    if outcome.matches is not None:
        parts["words"] = {
            word: {
                own[id_]: [name for name in fields if not is_hidden(name, hidden)]
                for id_, fields in found.items()
                if id_ in own
            }
            for word, found in outcome.matches.fields.items()
        }
        parts["atoms"] = outcome.matches.atoms
    alike = outcome.run.alike.items()
    parts["alike"] = {own[one]: {own[id_]: share for id_, share in of.items()} for one, of in alike} or None
    parts["vectors"] = {own[id_]: encode_vector(vector) for id_, vector in outcome.vectors.items()} or None
    return {name: part for name, part in parts.items() if part is not None}


def reuse_pool(pool: Mapping[str, Any], recorded: Mapping[str, Any]) -> dict[str, Any]:
    """A pool as the answer to another query has it, `recorded` as it came: only text and vector stay the pool's."""
    searched = {name: value for name, value in pool["query"].items() if name in _SEARCHED}
    own = {name: value for name, value in recorded.items() if name not in _SEARCHED}
    return {**pool, "query": {**own, **searched}}


def _own_ids(legs: Sequence[Leg]) -> dict[str, str]:
    own = {id_: Candidate(id_, 0.0, payload).document for id_, payload in union(legs).items()}
    while True:
        claims = Counter(own.values())
        shared = [id_ for id_, name in own.items() if claims[name] > 1 and name != id_]
        if not shared:
            return own
        # A point's id can be the name of another's document: what takes it back may be shared in turn.
        own |= {id_: id_ for id_ in shared}


def _number_contents(hits: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """A pool's own number for each content of a hit: the fingerprint would tell of fields that are hidden."""
    numbers: dict[int, int] = {}
    found = ((id_, identify_content(payload)) for id_, payload in hits.items())
    return {id_: numbers.setdefault(content, len(numbers)) for id_, content in found if content is not None}


def _semantic(lost: Mapping[str, Reason]) -> dict[str, Any]:
    """The fields about the search by meaning: if it is missing, and a sentence that says why."""
    if "embed" not in lost and "vector" not in lost:
        return {"semantic_unavailable": False}
    what = "The text was not embedded" if "embed" in lost else "The vector leg gave no candidates"
    why = _WHY.get(reason := lost.get("embed", lost.get("vector", Reason.UNAVAILABLE)), reason)
    return {"semantic_unavailable": True, "semantic_unavailable_reason": f"{what}: {why}."}


def documents_of(results: Iterable[Candidate], outcome: Outcome) -> list[Candidate]:
    """Every document of a page: each result, and behind it those that are returned within its group."""
    if outcome.results.grouping is None:
        return [*results]
    return [each for candidate in results for each in (candidate, *_further(candidate, outcome))]


def _further(candidate: Candidate, outcome: Outcome) -> list[Candidate]:
    # Without a text where others have one, it was not fetched: it is not known to be there still.
    unfetched = "fetch" in dict(outcome.degraded)
    return [each for each in outcome.results.further(candidate) if unfetched or each.id in outcome.payloads]


def members(event: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every document that a result event returns, those within groups included."""
    for hit in event["results"]:
        yield hit
        if "group" in hit:
            yield from hit["group"]["results"]


def records_of(results: Sequence[Candidate], outcome: Outcome, guard: AccessFilter | None) -> list[dict[str, Any]]:
    """The fields by which the guard judges each document of a page, those of groups and neighbours among them."""
    names = GUARDED.union(names_of(path)[0] for path in fields_of(guard.filters if guard is not None else ()))
    payloads = [outcome.payloads.get(candidate.id, {}) for candidate in documents_of(results, outcome)]
    payloads += [payload for around in outcome.neighbours.values() for side in around for payload in side]
    return [{name: payload[name] for name in names if name in payload} for payload in payloads]


def view_of(plan: RankingPlan, documents: int, matcher: Callable[[], Matcher] | None, *, words: bool = False) -> View:
    """The parts that a page of so many documents has of each; `words`: passages are needed in any case."""
    found = matcher() if matcher is not None and (words or wants_words(plan.returned)) else None
    return View(plan.returned, plan.hidden, found, share_of(documents))


def _unseen(plan: RankingPlan) -> Set[str]:
    """The names of the stages whose values are made of hidden fields; marks are made of all searched fields."""
    if not plan.hidden:
        return frozenset()
    hidden = *plan.hidden, MARKS
    return {each.name for each in plan.recipe.stages if any(is_hidden(name, hidden) for name in each.reads)}


def _hits(
    asked: Query, outcome: Outcome, results: Sequence[Candidate], documents: Sequence[Candidate], view: View
) -> list[dict[str, Any]]:
    """The results of a page, each with the further documents of its group; `documents` are those of both."""
    legs: dict[str, dict[str, Any]] = {each.id: {} for each in documents}
    for leg in outcome.legs.values():
        for id_, (rank, score) in leg.ranks(legs.keys()).items():
            legs[id_][leg.name] = {"rank": rank, "score": score}
    unseen = _unseen(asked.plan)
    if asked.ruling is not None and any(is_hidden(name, asked.plan.hidden) for name in asked.ruling.reads):
        unseen |= {STAGE}
    # Nothing else of a query names a point.
    origin = _origin(asked.event) if asked.event.filters or asked.event.order_by is not None else None
    shown = {each.id: _show(each, legs[each.id], outcome, view, unseen, origin) for each in documents}
    hits = [{"rank": rank, **shown[each.id]} for rank, each in enumerate(results, asked.skip + 1)]
    if outcome.results.grouping is not None:
        for hit, best in zip(hits, results, strict=True):
            of = outcome.results.groups[best.id]
            further = [shown[each.id] for each in _further(best, outcome)]
            hit["group"] = {"key": of.key, "count": len(of.candidates), "results": further}
    return hits


def _origin(event: QueryEvent) -> GeoDistance | None:
    """The point that a query orders by, or else the centre of its first circle, with the field that is compared."""
    if event.order_by is not None and event.order_by.geo_distance is not None:
        return event.order_by.geo_distance
    circles = (each for _, each in on_fields(event.filters, "") if isinstance(each, InCircle))
    return next((GeoDistance(field=each.field, lat=each.value.lat, lon=each.value.lon) for each in circles), None)


def _show(
    candidate: Candidate,
    legs: Mapping[str, Any],
    outcome: Outcome,
    view: View,
    unseen: Set[str],
    origin: GeoDistance | None,
) -> dict[str, Any]:
    id_ = candidate.id
    fields = outcome.payloads.get(id_, {})
    payload = {name: value for name, value in fields.items() if not name.startswith("_")}
    # Other tools' collections may hold anything under these names: it stays in the payload.
    own_id = payload.pop("id") if isinstance(fields.get("id"), str) else id_
    text = payload.pop("text") if isinstance(fields.get("text"), str) else None
    hit: dict[str, Any] = {
        "id": own_id,
        "score": candidate.score,
        **view.document(text, payload, outcome.hints.get(id_, ())),
        "legs": legs,
    }
    if origin is not None and (distances := origin.of(fields)):
        hit["distance_m"] = min(distances)
    if view.returned is not None and view.returned.neighbours:
        hit["neighbours"] = view.neighbours(outcome.neighbours.get(id_, ((), ())))
    if outcome.relevance is not None and (fit := outcome.relevance.of(id_)) is not None:
        hit["relevance"] = fit
    if outcome.run.explanations is not None:
        explained = outcome.run.explanations.by_id[id_]
        steps = outcome.results.explain(id_, explained.stages)
        stages = [{**step, "values": {}} if step["stage"] in unseen else step for step in steps]
        hit["explanation"] = {"legs": explained.legs, "stages": stages}
    return hit


def debug(query: InFlight) -> dict[str, Any]:
    """The steps of the query's way in their order, what each found and how long it took, up to now."""
    asked, plan, cached = query.asked, query.asked.plan, query.cache.cached
    stage, force = plan.recipe.fusion, None
    if isinstance(stage, Decay) and asked.shape is QueryShape.SEARCH:
        force = resolve_decay((stage, *plan.decay), plan.profile.half_life_days)
    return {
        "stages_hit": list(dict.fromkeys(step.name for step in query.steps)),
        "candidates_per_stage": {step.name: step.candidates for step in query.steps if step.candidates is not None},
        "per_stage_latency_ms": {step.name: step.latency_ms for step in query.steps},
        "cache_hit": cached is not None,
        "cache_type": cached.event["retrieval_stage"].removesuffix("_cache") if cached is not None else None,
        "decay": {
            "mode": force.mode if force is not None else "none",
            "half_life_days": force.half_life if force is not None else None,
            "over_sample_factor": math.ceil(depth(query) / asked.limit),
        },
        "total_latency_ms": (time.monotonic() - query.message.clock) * 1000,
    }
