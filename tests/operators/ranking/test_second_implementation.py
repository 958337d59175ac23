"""The code against a second implementation: random pools, odd ones among them, agree in order and score."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from operators.ranking.blend import rank_by_blend
from operators.ranking.candidate import Candidate, Leg, in_tie_order
from operators.ranking.fusion import rrf, score
from operators.ranking.run import Facts, Matches, ModelScores
from operators.text.dates import TemporalExpression
from schemas.recipes import SHIPPED, Recipe
from schemas.recipes.fusion import Rrf, Score, Weighted
from tests.operators.ranking import naive, naive_recipes
from tests.operators.ranking.pools import DAY, NOW, ids, leg, rank, run, scores
from tests.operators.ranking.random_pools import (
    IDS,
    SIGNALS,
    some_blend,
    some_document,
    some_hits,
    some_leg,
    some_legs,
    some_payloads,
    some_score,
    some_text,
    some_weights,
)
from tests.tiers import sized

pytestmark = pytest.mark.slow

POOLS = sized(3_000, nightly=10_000)


def agree(ours: Sequence[Candidate], theirs: naive.Pairs, limit: int, least: float = 1e-300) -> None:
    """The same ids and scores to 1e-12 of them, or to `least`, in the same order but where only rounding tells two
    apart.
    """
    assert len(ours) == (min(limit, len(theirs)) if limit > 0 else len(theirs))
    expected, own = dict(theirs), dict(scores(ours))
    assert len(own) == len(ours)
    for (id_, value), (place_id, place_value) in zip(own.items(), theirs, strict=False):
        # Below the smallest normal float there are no twelve digits.
        assert math.isclose(value, expected[id_], rel_tol=1e-12, abs_tol=least), id_
        assert math.isclose(value, place_value, rel_tol=1e-12, abs_tol=least), id_
        tied = own.get(place_id) == value and expected[id_] == place_value
        assert id_ == place_id or not tied


def test_rrf_agrees() -> None:
    """Reciprocal rank fusion of random legs, k and weights is what the formula gives, repeated ids included."""
    chance = random.Random(1)
    names = ("vector", "keyword", "structured", "apple", "zebra")
    for _ in range(POOLS):
        legs = some_legs(chance, names, {})
        k = chance.choice([5.0, 60.0, 0.0, -1.0, 1.0, 0.001])
        weights = some_weights(chance, names)
        limit = chance.choice([0, 0, -1, 1, 3])
        stage = Rrf(k=k, weights=weights, limit=limit)
        agree(rrf(in_tie_order(legs), stage, run()), naive.rrf(legs, k, weights), limit)


def test_score_fusion_agrees() -> None:
    """Score fusion of random legs is what the formula gives, by alpha and by weights."""
    chance = random.Random(2)
    names = ("vector", "keyword", "structured", "apple", "zebra")
    for _ in range(POOLS):
        limit = chance.choice([0, 0, -1, 1, 3])
        if chance.random() < 0.5:
            legs = some_legs(chance, names, {})
            alpha = chance.choice([None, 0.0, 0.25, 0.5, 1.0, chance.random()])
            ours = score(in_tie_order(legs), Score(alpha=alpha, limit=limit), run())
            agree(ours, naive.score(legs, alpha), limit)
        else:
            legs = some_legs(chance, names, {})
            weights = some_weights(chance, names)
            ours = score(in_tie_order(legs), Score(weights=weights, limit=limit), run())
            agree(ours, naive.score(legs, weights=weights), limit)


def some_question(chance: random.Random) -> naive_recipes.Asked:
    """A query's wishes and changes of a recipe; a model's word on some of the candidates, or on none."""
    said = {id_: chance.choice([0.5, chance.uniform(-9, 9)]) for id_ in IDS if chance.random() < 0.97}
    return naive_recipes.Asked(
        NOW,
        some_text(chance),
        chance.choice([None, (21.0, 5.0), (7.0, 3.0), (365.0, 30.0)]),
        chance.choice([7.0, 30.0, None]),
        chance.choice([None, 30.0]),
        chance.choice([None, said, said, {}]),
        chance.choice([1, 3, 10]),
        chance.choice([1.0, 0.0, 0.5, chance.random()]),
        chance.choice([0.6, 0.0, 1.0, chance.random()]),
        chance.choice([0.0, 0.0, 0.3, 0.8]),
        chance.choice([None, None, 0.5]),
        some_vectors(chance),
        some_words(chance),
    )


def some_words(chance: random.Random) -> dict[str, list[str]]:
    """Words of the query, two of them like identifiers, and the documents that have them; or none, where unknown."""
    words = chance.sample(["wrench", "red", "SX-12", "8701250", "5x6"], chance.choice([0, 0, 1, 3, 5]))
    return {word: chance.sample(IDS, chance.choice([0, 1, 1, 3])) for word in words}


def some_vectors(chance: random.Random) -> dict[str, list[float]]:
    """A vector for some of the documents, or for none; now and then one has no direction."""
    some = [id_ for id_ in IDS if chance.random() < chance.choice([0.9, 0.0])]
    return {id_: [chance.choice([chance.gauss(0, 1), 0.0]) for _ in range(4)] for id_ in some}


def shipped(name: str, asked: naive_recipes.Asked) -> Recipe:
    """The shipped recipe with what the query changes of it."""
    changes: dict[str, dict[str, Any]] = {
        "rerank": {"weight": asked.weight},
        "linear": {"alpha": asked.alpha},
        "decay": {
            "mode": "step" if asked.step is not None else None,
            "step_threshold_days": asked.step or 0.0,
            "neutral": "bound" if asked.neutral is None else asked.neutral,
        },
    }
    of = SHIPPED[name]
    return of.overridden(
        {stage: change for stage, change in changes.items() if stage in of.parameters}
        | {"max_distance": asked.max_distance}
    )


@pytest.mark.parametrize("name", SHIPPED)
def test_the_recipes_agree(name: str) -> None:
    """Each shipped recipe from end to end, with the model's word and without, is what the formulas give: fusion, age,
    words, importance, quality, time, copies and similarity.
    """
    chance = random.Random(8)
    for _ in range(POOLS // 5):
        payloads = {id_: some_document(chance) for id_ in IDS}
        legs, asked = some_hits(chance, payloads), some_question(chance)
        facts = Facts(
            now=NOW,
            text=asked.text,
            temporal_expression=TemporalExpression(*map(int, asked.anchor)) if asked.anchor is not None else None,
            decay_half_life=asked.half_life,
            matches=Matches.of_words({word: dict.fromkeys(found, ("text",)) for word, found in asked.words.items()}),
        )
        model = ModelScores(asked.said, asked.top) if asked.said is not None else None
        vectors = {id_: np.array(vector) for id_, vector in asked.vectors.items()}
        ours = rank(shipped(name, asked), legs, facts, model, vectors).candidates
        # What is left of the difference of two cosines has fewer digits.
        agree(ours, naive_recipes.ranked(name, legs, asked), 0, 1e-12 if name == "documents" else 1e-300)


class Blends(NamedTuple):
    """Our blend of a pool and the other's; what ours says took part, and whether the other's graph changed a score."""

    ours: list[Candidate]
    theirs: naive.Pairs
    limit: int
    backends: list[str]
    changed: bool


def both_blends(chance: random.Random) -> Blends:
    """A random pool blended twice."""
    legs = some_legs(chance, ("vector", "keyword", "structured"), some_payloads(chance))
    parameters = some_blend(chance)
    now, cycle = chance.choice([NOW, NOW, None]), chance.choice([None, None, 100, 0])
    of = run(now=now, cycle=cycle)
    ours = rank_by_blend(legs, Weighted(**parameters), of)
    theirs, changed = naive.blend(
        legs,
        {name: parameters[f"{name}_weight"] for name in SIGNALS},
        now,
        cycle,
        parameters["half_life_days"],
        parameters["half_life_cycles"],
        parameters["graph_edge_decay"],
        parameters["max_neighbors_per_candidate"],
    )
    return Blends(ours, theirs, parameters["limit"], of.backends, changed)


def test_the_blend_agrees() -> None:
    """The five-signal blend of random pools, payloads and parameters is what the formulas give, the graph included."""
    chance = random.Random(3)
    for _ in range(POOLS):
        both = both_blends(chance)
        agree(both.ours, both.theirs, both.limit)


def test_the_graph_is_named_exactly_where_it_changed_a_score() -> None:
    """`graph` is among the backends if and only if some candidate's score is another one with it."""
    chance = random.Random(4)
    for _ in range(POOLS):
        both = both_blends(chance)
        assert both.backends == (["graph"] if both.changed else [])


def better(chance: random.Random, signal: str, id_: str, payloads: dict[str, dict[str, Any]], legs: list[Leg]) -> None:
    """Raise one signal of one document, in place."""
    payload = payloads[id_]
    if signal == "recency":
        payload["updated_at"] = NOW - chance.choice([0, 1, 3]) * DAY
    elif signal == "priority":
        payload["priority"] = "P1"
    elif signal == "graph":
        payload["edges"] = [*payload["edges"], {"to": chance.choice(IDS), "weight": chance.random()}]
    else:
        for place, one in enumerate(legs):
            if one.name == signal and id_ in one.ids:
                by = chance.choice([1e-3, 0.25, 3.0])
                raised = [
                    (other, value + by if other == id_ else value)
                    for other, value in zip(one.ids, one.scores, strict=True)
                ]
                legs[place] = leg(signal, *sorted(raised, key=lambda hit: -hit[1]), payloads=payloads)


@pytest.mark.parametrize("signal", SIGNALS)
def test_a_better_signal_never_hurts(signal: str) -> None:
    """Raising one signal of a document never lowers its score, and puts nobody ahead of it who wasn't, but for a
    neighbour that the same edge lifts.
    """
    chance = random.Random(5)
    weights: dict[str, Any] = {"graph_weight": 0.2 if signal == "graph" else 0.0, "max_neighbors_per_candidate": 1000}
    for _ in range(POOLS // 10):
        payloads: dict[str, dict[str, Any]] = {
            id_: {
                "updated_at": NOW - chance.randrange(4, 40) * DAY,
                "priority": chance.choice(["P2", "P4"]),
                "edges": [],
            }
            for id_ in IDS
        }
        legs = [
            leg(name, *((id_, some_score(chance)) for id_ in chance.sample(IDS, 6)), payloads=payloads)
            for name in ("vector", "keyword")
        ]
        id_ = chance.choice([*legs[0].ids, *legs[1].ids])
        before = dict(scores(rank_by_blend(legs, Weighted(**weights), run())))
        better(chance, signal, id_, payloads, legs)
        after = dict(scores(rank_by_blend(legs, Weighted(**weights), run())))
        # As far as floats can tell scores apart.
        assert after[id_] >= before[id_] * (1 - 1e-12)
        lifted = {edge["to"] for edge in payloads[id_]["edges"]}
        for other in before.keys() - lifted:
            if before[other] <= before[id_]:
                assert after[other] <= after[id_] * (1 + 1e-12), (other, id_)


@pytest.mark.parametrize("alike", [2, 5, 10])
def test_ties_of_the_blend_stand_by_id_in_every_order_of_arrival(alike: int) -> None:
    """However a leg shuffles documents with equal scores, and in whatever order the legs come, the list is one."""
    chance = random.Random(6)
    for _ in range(POOLS // 100):
        payloads = some_payloads(chance)
        values = {id_: chance.randrange(10 // alike + 1) / 8 for id_ in IDS}
        seen = set()
        for _ in range(6):
            hits = sorted(chance.sample(sorted(values.items()), len(IDS)), key=lambda hit: -hit[1])
            legs = [leg(name, *hits, payloads=payloads) for name in chance.sample(["vector", "keyword"], 2)]
            seen.add(tuple(scores(rank_by_blend(legs, Weighted(graph_weight=0.2), run()))))
        assert len(seen) == 1


@pytest.mark.parametrize(
    "fuse",
    [
        lambda legs: rrf(in_tie_order(legs), Rrf(), run()),
        lambda legs: score(in_tie_order(legs), Score(), run()),
    ],
)
def test_ties_of_a_fusion_stand_by_leg_and_rank(fuse: Callable[[list[Leg]], list[Candidate]]) -> None:
    """Whatever the order in which legs arrive, equal scores stand by the first leg and the rank there."""
    chance = random.Random(7)
    names = ("vector", "keyword", "structured", "apple", "zebra")
    for _ in range(POOLS // 10):
        legs = [some_leg(chance, name, {}) for name in names]
        places: dict[str, tuple[int, int]] = {}
        for number, one in enumerate(legs):
            for id_, (place, _) in one.ranks().items():
                places.setdefault(id_, (number, place))
        fused = fuse(chance.sample(legs, len(legs)))
        assert scores(fused) == scores(fuse(legs))
        assert ids(fused) == [one.id for one in sorted(fused, key=lambda one: (-one.score, places[one.id]))]
