"""The fate of every candidate of a pool: its rank among the results, or the stage at which it was lost, and why.

A document that no leg offered is asked for by its id alone: the legs then say what they would have given it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flows.cli.evaluate.evaluation import judged_name
from flows.cli.rank import PoolRanker, ReadPool
from operators.query.outcome import Outcome
from operators.ranking.content import identify_content
from operators.ranking.grouping import key_of
from schemas.pool import CandidatePool
from schemas.recipes import Recipe
from schemas.recipes.stages import Dedupe, DistanceStage, Reflections

Payloads = Mapping[str, Mapping[str, Any]]

_ALL: Final = {"min_relevance": 0.0, "group_size": 0, "explain": True, "order_by": None}
"""Changes to a query after which nothing is dropped behind its recipe."""


@dataclass(frozen=True)
class Fate:
    """One candidate: its place in each leg, its rank among all results, from 1, or the stage that lost it, and why.

    `judged` is the name by which it is judged. `read`: the model has read it; None if no model read any.
    """

    id: str
    judged: str
    legs: Mapping[str, tuple[int, float]]
    rank: int | None = None
    lost_at: str | None = None
    why: str = ""
    relevance: float | None = None
    read: bool | None = None
    title: str | None = None


@dataclass(frozen=True)
class Fates:
    """Every candidate of a pool, results first; the page ends with rank `page_end`. `grouped_by`: the groups' field."""

    by_id: Mapping[str, Fate]
    page_end: int
    read: int
    grouped_by: str | None


def trace(ranker: PoolRanker, read: ReadPool) -> Fates:
    """The fate of each candidate of the pool. Raises InputError, as ranking it does."""
    pool, event = read.pool, read.pool.query
    asked, outcome = ranker.run(pool)
    recipe = asked.plan.recipe
    _, whole = ranker.run(read.change_query(**_ALL).pool)
    dropped = whole.run.explanations.dropped if whole.run.explanations is not None else {}
    offered: dict[str, dict[str, tuple[int, float]]] = {}
    for leg in pool.legs:
        for rank, hit in enumerate(leg.hits):
            offered.setdefault(hit.id, {}).setdefault(leg.name, (rank, hit.score))
    scores = outcome.rerank_scores
    read_by_model, scored = (scores.top, scores.scores) if scores is not None else (0, {})
    grouping = outcome.results.grouping
    grouped_by = grouping.field if grouping is not None else None
    payloads = {hit.id: hit.payload for leg in pool.legs for hit in leg.hits}
    fates: dict[str, Fate] = {}

    def add(id_: str, rank: int | None, stage: str | None, why: str) -> None:
        known = whole.relevance.of(id_) if whole.relevance is not None else None
        judged, title = judged_name(id_, payloads[id_], grouped_by), payloads[id_].get("title")
        by_model = id_ in scored if scored else None
        named = title if isinstance(title, str) else None
        fates[id_] = Fate(id_, judged, offered[id_], rank, stage, why, known, by_model, named)

    for rank, each in enumerate(outcome.candidates, pool.skip + 1):
        add(each.id, rank, None, "")
    for each in whole.candidates:
        if each.id not in fates:
            add(each.id, None, *_behind(each.id, outcome, whole, asked.plan.min_relevance))
    for id_ in offered:
        if id_ not in fates:
            stage, before = dropped.get(id_, (recipe.fusion, ()))
            add(id_, None, stage.name, _reason(stage, id_, offered[id_], before, payloads, recipe))
    return Fates(fates, pool.skip + event.page_size, read_by_model, grouped_by)


def _reason(
    stage: Any, id_: str, legs: Mapping[str, Any], before: Sequence[str], payloads: Payloads, recipe: Recipe
) -> str:
    """The reason for which a stage dropped a candidate, in a sentence."""
    limit = getattr(stage, "limit", 0)
    if isinstance(stage, Dedupe) and (twin := _twin(id_, before, payloads)) is not None:
        return f"it has the same content as {twin}, which stands before it"
    if limit > 0 and len(before) > limit:
        return f"the stage keeps {limit} candidates"
    if stage is recipe.stages[0] or stage.name == recipe.fusion.name:
        if not set(legs) & set(recipe.fusion.legs):
            return f"only {', '.join(sorted(legs))} found it, which the recipe gives no weight"
        if recipe.max_distance:
            return f"its distance is above {recipe.max_distance:g} (max_distance)"
        return "the recipe leaves reflections out, or what has no score"
    if isinstance(stage, DistanceStage) and recipe.max_distance:
        return f"its distance is above {recipe.max_distance:g} (max_distance)"
    if isinstance(stage, Reflections):
        return "it is a reflection, and these are left out"
    return f"the stage {stage.name} drops it"


def _twin(id_: str, before: Sequence[str], payloads: Payloads) -> str | None:
    own = identify_content(payloads.get(id_, {}))
    others = (one for one in before if one != id_ and own is not None)
    return next((one for one in others if identify_content(payloads.get(one, {})) == own), None)


def _behind(id_: str, outcome: Outcome, whole: Outcome, least: float) -> tuple[str, str]:
    """The reason for which a candidate that the recipe keeps is no result."""
    relevance = whole.relevance.of(id_) if whole.relevance is not None else None
    if relevance is not None and relevance < least:
        return "min_relevance", f"its relevance is {relevance:.3f}, and at least {least:g} is asked for"
    if (grouping := outcome.results.grouping) is not None:
        candidate = next(each for each in whole.candidates if each.id == id_)
        key = key_of(candidate.payload, grouping.field)
        groups = outcome.results.groups.items()
        best = next((one for one, of in groups if any(each.id == id_ for each in of.candidates)), None)
        return "group", f"{best or 'another'} stands for its group: {grouping.field} {key}"
    return "page", "it is not among the results"


def explain_fate(fate: Fate, fates: Fates) -> dict[str, Any]:
    """The answer to *why is X not here?* about a candidate: a verdict, and its legs."""
    if fate.rank is not None and fate.rank <= fates.page_end:
        verdict = f"It is here, at rank {fate.rank}."
    elif fate.rank is not None:
        verdict = f"It is a result, at rank {fate.rank}: the page ends with rank {fates.page_end}."
        if fate.read is False:
            verdict += f" The model did not read it: it reads the first {fates.read} candidates (rerank_top)."
    else:
        verdict = f"It was lost at {fate.lost_at}: {fate.why}."
    legs = [{"name": name, "rank": rank + 1, "score": score} for name, (rank, score) in fate.legs.items()]
    return {"id": fate.id, "title": fate.title, "verdict": verdict, "legs": legs, "tests": [], "known": True}


def to_view(fates: Fates) -> list[dict[str, Any]]:
    """The lost candidates for the page: those behind it by rank, then the dropped ones by stage."""
    lost = (fate for fate in fates.by_id.values() if fate.rank is None or fate.rank > fates.page_end)
    return [
        {
            "id": fate.id,
            "title": fate.title,
            "rank": fate.rank,
            "where": fate.lost_at or ("behind the page" if fate.read is not False else "not read by the model"),
            "why": fate.why
            or (f"rank {fate.rank}" if fate.read is not False else f"rank {fate.rank}, beyond rerank_top"),
            "legs": {name: rank + 1 for name, (rank, _) in fate.legs.items()},
            "relevance": fate.relevance,
        }
        for fate in sorted(lost, key=lambda fate: (fate.rank is None, fate.rank or 0))
    ]


def explain_absence(
    id_: str,
    namespace: str,
    found: Mapping[str, Any] | None,
    alone: Mapping[str, Any],
    pool: CandidatePool,
    failing: Sequence[str],
    elsewhere: Sequence[str],
) -> dict[str, Any]:
    """The answer about a document that no leg offered.

    `found` is the document, if the namespace has it; `alone` the result of the query narrowed to its id; `failing` are
    the filters that leave it out, and `elsewhere` other namespaces that have the id.
    """
    answer: dict[str, Any] = {"id": id_, "title": None, "legs": [], "tests": [], "known": found is not None}
    if found is None:
        there = f" The namespace {', '.join(elsewhere)} has it." if elsewhere else ""
        return {**answer, "verdict": f"No document in the namespace {namespace} has this id.{there}"}
    answer["title"] = found["payload"].get("title")
    if failing:
        return {**answer, "verdict": f"The document is there, and a filter leaves it out: {'; '.join(failing)}."}
    hit = next((each for each in alone["results"] if each["id"] == id_), None)
    for leg in pool.legs:
        last = min((each.score for each in leg.hits), default=None)
        own = hit["legs"].get(leg.name) if hit is not None else None
        bound = f"the last of its {len(leg.hits)} candidates has {last:.3f}" if last is not None else "it found nothing"
        if own is None:
            by_words = leg.name == "keyword"
            why = "none of the query's words stands in it" if by_words else "it does not find the document"
            said = f"{why}; {bound}"
        else:
            said = f"it would score {own['score']:.3f}; {bound}"
        answer["tests"].append({"leg": leg.name, "said": said})
    return {**answer, "verdict": "The document is there, and no leg retrieved it."}
