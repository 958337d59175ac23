"""Legs as the ranking tests need them, by hand and at random."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import strategies as st

from operators.ranking.candidate import Candidate, Leg
from operators.ranking.pipeline import Ranked, Vectors, first_phase, second_phase
from operators.ranking.run import Facts, ModelScores, Run, ScoreExplanation, ScoreExplanations
from schemas.document import CONTENT
from schemas.recipes import Recipe
from schemas.result import KEYWORD, STRUCTURED, VECTOR, LegStatus

NOW = 1_700_000_000.0
"""2023-11-14T22:13:20Z."""

DAY = 86_400.0


def leg(name: str, *hits: tuple[str, float], payloads: Mapping[str, Mapping[str, Any]] | None = None) -> Leg:
    """A leg that answered with these, best first; each payload names its leg, or is the one given for its id."""
    given = payloads or {}
    return Leg(
        name,
        LegStatus.OK,
        [id_ for id_, _ in hits],
        [value for _, value in hits],
        [given.get(id_, {"from": name}) for id_, _ in hits],
    )


def vector(*hits: tuple[str, float], payloads: Mapping[str, Mapping[str, Any]] | None = None) -> Leg:
    """The vector leg."""
    return leg(VECTOR, *hits, payloads=payloads)


def keyword(*hits: tuple[str, float], payloads: Mapping[str, Mapping[str, Any]] | None = None) -> Leg:
    """The keyword leg."""
    return leg(KEYWORD, *hits, payloads=payloads)


def structured(*ids: str, payloads: Mapping[str, Mapping[str, Any]] | None = None) -> Leg:
    """The structured leg, whose scores are all 0."""
    return leg(STRUCTURED, *((id_, 0.0) for id_ in ids), payloads=payloads)


def run(recipe: Recipe | None = None, **facts: Any) -> Run:
    """A run at NOW; with `explain=True` one that notes explanations."""
    of = Facts(**{"now": NOW, **facts})
    return Run(of, ScoreExplanations(recipe.parameters if recipe else {}) if of.explain else None)


def recipe(*stages: Any, **more: Any) -> Recipe:
    """A recipe of these stages, each a name or {name: parameters}."""
    return Recipe.parse("test", {"stages": list(stages), **more})


def rank(
    recipe: Recipe,
    legs: Sequence[Leg],
    facts: Facts,
    model: ModelScores | None = None,
    vectors: Vectors | None = None,
) -> Ranked:
    """Both phases of a recipe; the model's scores and the vectors, if there are any, are given before all ranking."""
    return second_phase(recipe, first_phase(recipe, legs, facts), model, vectors)


def candidate(id_: str, score: float, **payload: Any) -> Candidate:
    """A candidate with this payload."""
    return Candidate(id_, score, payload)


def explanation(run: Run, id_: str) -> ScoreExplanation:
    """The run's notes of a candidate."""
    assert run.explanations is not None
    return run.explanations.by_id[id_]


def scores(candidates: Sequence[Candidate]) -> list[tuple[str, float]]:
    """The output of a ranking: ids and scores in order."""
    return [(candidate.id, candidate.score) for candidate in candidates]


def near(**expected: float) -> list[tuple[str, object]]:
    """The output of `scores`, in this order, with a tolerance."""
    return [(id_, pytest.approx(score)) for id_, score in expected.items()]


def ids(candidates: Sequence[Candidate]) -> list[str]:
    """The order alone."""
    return [candidate.id for candidate in candidates]


finite = st.floats(-1e6, 1e6, width=32)
any_finite = st.floats(allow_nan=False, allow_infinity=False, width=32)
"""The scores of a leg: numbers that fit in 32 bits."""


def hits(values: st.SearchStrategy[float] = finite) -> st.SearchStrategy[list[tuple[str, float]]]:
    """A leg's hits, best first; ids may repeat, scores may be equal."""
    documents = st.sampled_from("abcdefghij")
    found = st.lists(st.tuples(documents, values), max_size=12)
    return found.map(lambda pairs: sorted(pairs, key=lambda pair: -pair[1]))


def legs(values: st.SearchStrategy[float] = finite) -> st.SearchStrategy[list[Leg]]:
    """Two legs in either order; one may be missing or empty."""
    both = st.tuples(hits(values), hits(values)).map(lambda pair: [vector(*pair[0]), keyword(*pair[1])])
    return st.tuples(both, st.sampled_from([(0, 1), (1, 0), (0,), (1,), ()])).map(
        lambda drawn: [drawn[0][index] for index in drawn[1]]
    )


def with_content(id_: str, content: int | None) -> Candidate:
    """A candidate with a fingerprint of its content, or without."""
    return Candidate(id_, 0.0, {} if content is None else {CONTENT: content})
