"""The ranking pipeline: a recipe's stages, run over the legs' hits. Equal input gives equal output, to the bit."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from operators.ranking.blend import boost_reflections, rank_by_blend, rank_reflections, without
from operators.ranking.candidate import Candidate, Leg, in_tie_order, list_candidates, union
from operators.ranking.composite import composite, rank_by_distance_from, temporal
from operators.ranking.content import dedupe
from operators.ranking.coverage import coverage, find_query_words
from operators.ranking.distance import rank_by_distance
from operators.ranking.fusion import dbsf, linear, one_leg, rank_by_decay, rrf, score
from operators.ranking.head import feedback, rank_by_model, smoothing
from operators.ranking.run import Facts, ModelScores, Run, ScoreExplanations
from operators.ranking.turns import rank_answers, rank_speakers
from operators.ranking.versions import versions
from operators.ranking.wishes import grant
from schemas.recipes import Recipe, stages
from schemas.recipes import fusion as fusions

_FUSION: Final[Mapping[type[stages.FusionStage], Callable[[Sequence[Leg], Any, Run], list[Candidate]]]] = {
    fusions.Rrf: rrf,
    fusions.Score: score,
    fusions.Linear: linear,
    fusions.Dbsf: dbsf,
    fusions.Weighted: rank_by_blend,
    fusions.Decay: rank_by_decay,
    fusions.VectorLeg: one_leg,
    fusions.KeywordLeg: one_leg,
}

_LATER: Final[Mapping[type[stages.RecipeStage], Callable[[list[Candidate], Any, Run], list[Candidate]]]] = {
    stages.Coverage: coverage,
    stages.Dedupe: dedupe,
    stages.Rerank: rank_by_model,
    stages.Feedback: feedback,
    stages.Smoothing: smoothing,
    stages.AnswersFirst: rank_answers,
    stages.SpeakersFirst: rank_speakers,
    stages.Reflections: boost_reflections,
    stages.Composite: composite,
    stages.Temporal: temporal,
    stages.Proximity: rank_by_distance_from,
    stages.Wishes: grant,
    stages.Versions: versions,
}


Vectors = Mapping[str, NDArray[np.float16]]
"""Point id -> dense vector."""


class Ranked(NamedTuple):
    """Candidates, best first, and the run that ranked them."""

    candidates: list[Candidate]
    run: Run


def keep_order(legs: Sequence[Leg], *, explain: bool) -> Ranked:
    """The hits of an ordered lookup, in their order, with score 0. Source: own."""
    run = Run(Facts(), ScoreExplanations({}) if explain else None)
    if run.explanations is not None:
        run.explanations.note_legs(legs)
    return Ranked(list_candidates(legs), run)


def first_phase(recipe: Recipe, legs: Sequence[Leg], facts: Facts) -> Ranked:
    """Rank the hits of the legs that answered by the stages that need no more than that.

    Raises InputError if a stage needs `now` and the facts have none.
    Source: own; each stage names that of its formula.
    """
    run = Run(facts, ScoreExplanations(recipe.parameters) if facts.explain else None)
    legs = in_tie_order(legs)
    if facts.reflections_only:
        return Ranked(rank_reflections(without(legs, reflections=False), recipe, run), run)
    if not facts.include_reflections:
        legs = without(legs, reflections=True)
    run.words = find_query_words(legs, facts.matches)
    candidates = _FUSION[type(recipe.fusion)](legs, recipe.fusion, run)
    if recipe.measuring is recipe.fusion:
        candidates = rank_by_distance(candidates, (), recipe.max_distance, run)
    if run.explanations is not None:
        run.explanations.note_dropped(recipe.fusion, list(union(legs)), candidates)
    return _run_stages(recipe.ahead, recipe, Ranked(candidates, run))


def second_phase(recipe: Recipe, ranked: Ranked, model: ModelScores | None, vectors: Vectors | None = None) -> Ranked:
    """Rank on by the other stages: without a model's scores `rerank` passes its input on, and without the dense vectors
    of the first candidates `feedback` and `smoothing` do.

    Raises InputError if a stage needs `now` and the facts have none. Source: own.
    """
    if ranked.run.facts.reflections_only:
        return ranked
    ranked.run.model = model
    ranked.run.vectors = vectors or {}
    return _run_stages(recipe.later, recipe, ranked)


def _run_stages(further: Sequence[stages.RecipeStage], recipe: Recipe, ranked: Ranked) -> Ranked:
    candidates, run = ranked
    for stage in further:
        before = candidates
        if not isinstance(stage, stages.DistanceStage):
            candidates = _LATER[type(stage)](candidates, stage, run)
        elif stage is recipe.measuring:
            candidates = rank_by_distance(candidates, recipe.distance, recipe.max_distance, run)
        if run.explanations is not None:
            run.explanations.note_dropped(stage, [each.id for each in before], candidates)
    return Ranked(candidates, run)
