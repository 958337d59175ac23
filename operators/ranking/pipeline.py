"""The ranking pipeline: a recipe's stages, run over the legs' hits. Equal input gives equal output, to the bit."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from operators.ranking import reflections
from operators.ranking.blend import weighted
from operators.ranking.candidate import Candidate, Leg, union
from operators.ranking.composite import composite
from operators.ranking.decay import decayed
from operators.ranking.dedupe import dedupe
from operators.ranking.distance import pipeline
from operators.ranking.fusion import dbsf, one_leg, rrf, score
from operators.ranking.run import Facts, Run, ScoreExplanations
from operators.ranking.temporal import temporal
from schemas.recipes import Recipe
from schemas.recipes.fusion import Dbsf, Decay, KeywordLeg, Rrf, Score, VectorLeg, Weighted
from schemas.recipes.parameters import DistanceStage, FusionStage, RecipeStage
from schemas.recipes.stages import Composite, Dedupe, Reflections, Temporal

_FUSION: Final[Mapping[type[FusionStage], Callable[[Sequence[Leg], Any, Run], list[Candidate]]]] = {
    Rrf: rrf,
    Score: score,
    Dbsf: dbsf,
    Weighted: weighted,
    Decay: decayed,
    VectorLeg: one_leg,
    KeywordLeg: one_leg,
}

_LATER: Final[Mapping[type[RecipeStage], Callable[[list[Candidate], Any, Run], list[Candidate]]]] = {
    Dedupe: dedupe,
    Reflections: reflections.boost,
    Composite: composite,
    Temporal: temporal,
}


class Ranked(NamedTuple):
    """Candidates, best first, and what the result reports about their ranking.

    `backends` are those beside the legs; `reranked`: a stage ran that `rerank: false` would have skipped.
    """

    candidates: list[Candidate]
    explanations: ScoreExplanations | None
    backends: Sequence[str]
    reranked: bool
    warnings: Sequence[str]


def in_order(legs: Sequence[Leg], *, explain: bool) -> Ranked:
    """The hits of an ordered lookup, in their order, with score 0. Source: own."""
    explanations = ScoreExplanations({}) if explain else None
    if explanations is not None:
        for leg in legs:
            explanations.leg(leg, {})
    candidates = [Candidate(id_, 0.0, payload) for id_, payload in union(legs).items()]
    return Ranked(candidates, explanations, (), reranked=False, warnings=())


def rank(recipe: Recipe, legs: Sequence[Leg], facts: Facts) -> Ranked:
    """Rank the hits of the legs that answered. Raises InputError if a stage needs `now` and the facts have none.

    Source: own; each stage names that of its formula.
    """
    run = Run(facts, ScoreExplanations(recipe.parameters) if facts.explain else None)
    if facts.reflections_only:
        kept = reflections.without(legs, reflections=False)
        stage = recipe.stage(Reflections)
        candidates = reflections.only(kept, stage if isinstance(stage, Reflections) else Reflections(), run)
    else:
        if not facts.include_reflections:
            legs = reflections.without(legs, reflections=True)
        candidates = _FUSION[type(recipe.fusion)](legs, recipe.fusion, run)
        for stage in recipe.stages[1:]:
            if not isinstance(stage, DistanceStage):
                candidates = _LATER[type(stage)](candidates, stage, run)
            elif facts.distance and recipe.distance and stage is recipe.distance[0]:
                candidates = pipeline(candidates, recipe.distance, recipe.max_distance, run)
    return Ranked(candidates, run.explanations, run.backends, run.reranked, run.warnings())
