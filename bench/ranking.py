"""The cost of ranking one query: every recipe on pools of several sizes, in interleaved rounds, as CPU and ratios."""

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from bench import arrays, unexplained
from operators.ranking.candidate import Leg
from operators.ranking.pipeline import Vectors, first_phase, second_phase
from operators.ranking.run import Facts, ModelScores
from operators.text.dates import TemporalExpression
from schemas.recipes import SHIPPED, Recipe
from schemas.recipes.fusion import Weighted
from schemas.result import KEYWORD, VECTOR, LegStatus

SIZES: Final = (20, 100, 400, 1000)
"""Hits of both legs together; more than half of the documents are in both."""

NOW: Final = 1_700_000_000.0
FACTS: Final = Facts(now=NOW, text="harbor lantern in winter", temporal_expression=TemporalExpression(30, 7))

DIMENSION: Final = 384

READ: Final = 50
"""Candidates that a model reads."""

BLEND: Final = Recipe.parse("weighted", {"stages": ["weighted"]})
RECIPES: Final[Mapping[str, Recipe]] = {
    **SHIPPED,
    "weighted": BLEND,
    "signals, graph": SHIPPED["signals"].overridden({"weighted": {"graph_weight": 0.1}}),
}

_WORDS: Final = ("blue", "lantern", "harbor", "copper", "ledger", "winter", "bridge", "night", "letter", "river")
_ROUND_SECONDS: Final = 0.02


def model(recipe: Recipe, found: Sequence[Leg]) -> ModelScores | None:
    """A model's scores for the first `READ` candidates of a recipe that asks one, each another score."""
    if recipe.reranking is None:
        return None
    first = first_phase(recipe, found, FACTS).candidates[:READ]
    return ModelScores({candidate.id: number * 7 % READ / READ for number, candidate in enumerate(first)}, READ)


def vectors(recipe: Recipe, found: Sequence[Leg]) -> Vectors:
    """Dense vectors of the candidates that a recipe compares, of the length of MiniLM's."""
    if not recipe.compared:
        return {}
    chance = np.random.default_rng(1)
    first = first_phase(recipe, found, FACTS).candidates[: recipe.compared]
    return {candidate.id: chance.normal(size=DIMENSION).astype(np.float16) for candidate in first}


def legs(hits: int, seed: int = 1) -> list[Leg]:
    """Two legs with `hits` hits together, payloads with all that any recipe reads."""
    chance = random.Random(seed)
    payloads = {f"{number:08x}": _payload(number, chance) for number in range(hits * 2 // 3)}

    def leg(name: str, low: float, high: float) -> Leg:
        ids = chance.sample(list(payloads), hits // 2)
        scores = sorted((chance.uniform(low, high) for _ in ids), reverse=True)
        return Leg(name, LegStatus.OK, ids, scores, [payloads[id_] for id_ in ids])

    return [leg(VECTOR, 0.1, 0.8), leg(KEYWORD, 1.0, 25.0)]


def figures(rounds: int) -> dict[str, Any]:
    """CPU in microseconds a query (median of the rounds), and ratios of medians of paired rounds. What a model says of
    the candidates is known before: only what its scores do is measured.

    `explained` is the price of explanations where they are asked for; `unasked` that of being able to explain, where
    they aren't: 1.0 is nothing; `arrays` compares the blend over numpy arrays with ours.
    """
    pools = {size: legs(size) for size in SIZES}
    rows = [
        _row(name, recipe, size, found, rounds) for size, found in pools.items() for name, recipe in RECIPES.items()
    ]
    return {"rounds": rounds, "rows": rows}


def _row(name: str, recipe: Recipe, size: int, found: Sequence[Leg], rounds: int) -> dict[str, Any]:
    bare, said, read = unexplained.pipeline(), model(recipe, found), vectors(recipe, found)
    asked = replace(FACTS, explain=True)
    subjects: dict[str, Callable[[], Any]] = {
        "ours": lambda: second_phase(recipe, first_phase(recipe, found, FACTS), said, read),
        "bare": lambda: bare.second_phase(recipe, bare.first_phase(recipe, found, FACTS), said, read),
        "explained": lambda: second_phase(recipe, first_phase(recipe, found, asked), said, read),
    }
    stage = recipe.fusion
    if recipe is BLEND:
        assert isinstance(stage, Weighted)
        subjects["arrays"] = lambda: arrays.weighted(found, stage, FACTS)
    taken = _interleaved(subjects, rounds)
    row = {
        "recipe": name,
        "candidates": size,
        "cpu_us": round(statistics.median(taken["ours"]), 1),
        "explained": _ratio(taken["explained"], taken["ours"]),
        "unasked": _ratio(taken["ours"], taken["bare"]),
    }
    return row | ({"arrays": _ratio(taken["arrays"], taken["ours"])} if "arrays" in taken else {})


def _interleaved(subjects: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    calls = {name: _calls(subject) for name, subject in subjects.items()}
    taken: dict[str, list[float]] = {name: [] for name in subjects}
    for number in range(rounds):
        # Turn about, so that none always comes first.
        order = list(subjects)
        for name in order if number % 2 else reversed(order):
            taken[name].append(_microseconds(subjects[name], calls[name]))
    return taken


def _calls(subject: Callable[[], Any]) -> int:
    subject()
    return max(1, round(_ROUND_SECONDS * 1e6 / max(_microseconds(subject, 3), 1.0)))


def _microseconds(subject: Callable[[], Any], calls: int) -> float:
    started = time.process_time()
    for _ in range(calls):
        subject()
    return (time.process_time() - started) / calls * 1e6


def _ratio(one: Sequence[float], other: Sequence[float]) -> float:
    return round(statistics.median(a / b for a, b in zip(one, other, strict=True)), 3)


def _payload(number: int, chance: random.Random) -> dict[str, Any]:
    day = f"2023-{1 + number % 10:02d}-{1 + number % 28:02d}"
    return {
        "id": f"doc-{number}",
        "_content": number,
        "text": " ".join(chance.choices(_WORDS, k=40)),
        "created_at": f"{day}T10:00:00Z",
        "updated_at": f"{day}T12:00:00.250Z",
        "priority": chance.choice(["P1", "P2", "P3", None]),
        "type": chance.choice(["note", "note", "reflection"]),
        "importance": number % 6,
        "memory_tier": chance.choice(["semantic", "episodic", "working"]),
        "confidence": 0.7,
        "access_count": number % 5,
        "edges": [{"to": f"doc-{chance.randrange(number + 1)}", "weight": chance.random()} for _ in range(3)],
    }
