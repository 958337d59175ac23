"""Random queries over documents with every field that a stage reads: as it should be, odd, or missing."""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from random import Random
from typing import Any, Final

import numpy as np
import orjson

from operators.ranking.candidate import Candidate, Leg
from operators.ranking.content import content, fingerprint
from operators.ranking.pipeline import Ranked, first_phase, second_phase
from operators.ranking.run import Facts, Matches, ModelScores
from operators.text.dates import TemporalExpression
from schemas.document import CONTENT
from schemas.query import Exclusion, Limit, Order, Wish
from schemas.recipes import SHIPPED, Recipe
from schemas.recipes.fusion import DecayTier
from schemas.result import KEYWORD, STRUCTURED, VECTOR
from tests.operators.ranking.pools import DAY, NOW, leg, recipe

Score = Callable[[Random], float]
Draw = Callable[[Random], Any]

ON: Final = {"enabled": True}
SIGNALS: Final = {f"{signal}_weight": 0.2 for signal in ("keyword", "vector", "recency", "priority", "graph")}
TERMS: Final = {"relevance": 0.4, "recency": 0.3, "importance": 0.2, "quality": 0.5}
BOOSTS: Final = ({"weibull_decay": ON}, {"keyword_boost": ON}, {"importance_boost": ON})

NEAR: Final = {"lat": 0.5, "lon": 179.9, "half_distance_m": 2e5}

RECIPES: Final[Mapping[str, Recipe]] = {
    **SHIPPED,
    "dbsf": recipe({"dbsf": {"weights": {"keyword": 0.5, "structured": 0.25}}}),
    "z_score": recipe({"score": {"normaliser": "z_score", "alpha": 0.3}}, "composite"),
    "l2": recipe({"score": {"normaliser": "l2", "weights": {"vector": 2, "image": 0.5}}}, "temporal"),
    "arithmetic": recipe({"score": {"combination": "arithmetic", "weights": {"structured": 0.3}}}),
    "geometric": recipe({"score": {"combination": "geometric", "alpha": 0.7}}),
    "harmonic": recipe({"score": {"combination": "harmonic", "normaliser": "l2"}}),
    "linear": recipe({"linear": {"alpha": 0.3, "limit": 7}}, {"rerank": {"weight": 0.6, "words": 7}}, "dedupe"),
    "aged model": recipe("linear", "rerank", {"composite": TERMS}, *BOOSTS, max_distance=1.5),
    "steep rrf": recipe({"rrf": {"k": 0.001, "weights": {"keyword": 3}}}, {"weibull_decay": ON}),
    "graph": recipe({"weighted": SIGNALS}, {"reflections": {"reflection_boost": 2.5, "recency_weight": 0.3}}),
    "all terms": recipe({"score": {"limit": 9}}, {"composite": {**TERMS, "confidence_decay": "weibull"}}, "temporal"),
    "far": recipe("vector", {"importance_boost": {**ON, "importance_scale": 1}}, {"keyword_boost": ON}, max_distance=2),
    "steps": recipe({"decay": {**ON, "mode": "step", "half_life_days": 30}}, {"dedupe": {"limit": 5}}, "reflections"),
    "neutral": recipe({"decay": {**ON, "neutral": 0.25}}, {"rerank": {"weight": 0.5}}),
    "near": recipe("score", {"near": NEAR}, "dedupe"),
    "step": recipe("rrf", {"near": {**NEAR, "mode": "step", "weight": 0.6}}),
    "covered": recipe("rrf", "rerank", {"coverage": {"weight": 0.3}}, "temporal"),
    "everything": recipe(
        "weighted",
        {"coverage": {"weight": 2}},
        "dedupe",
        "reflections",
        {"composite": TERMS},
        "temporal",
        *BOOSTS,
        "rerank",
    ),
}
"""The shipped ones, and what they leave out."""

DOCUMENTS: Final = [f"d{number}" for number in range(12)]
WORDS: Final = ("weather", "report", "three", "STRASSE", "straße", "東京の天気", "طقس", "café", "cafe\u0301", "the")
ODD: Final[tuple[Any, ...]] = (
    *(None, True, False, "", "garbage", "5", [], {}, [[]], {"to": 1}),
    *(math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 10**400, -(10**400), "\ud800"),
)
STAMPS: Final[tuple[Draw, ...]] = (
    lambda random: NOW - random.uniform(0, 900) * DAY,
    lambda random: int(NOW - random.choice([0, 1, 7, 30, 90]) * DAY),
    lambda random: datetime.fromtimestamp(NOW - random.uniform(0, 90) * DAY, UTC).isoformat(),
    lambda random: NOW + random.uniform(0, 9) * DAY,
    lambda random: "0001-01-01T00:00:00Z",
    lambda random: "2023-11-01T00:00:00",
)


def _stamp(random: Random) -> Any:
    return random.choice(STAMPS)(random)


def _edges(random: Random) -> Any:
    ends = [*DOCUMENTS, "doc-d1", "doc-d2", "elsewhere", 7]
    weighing = [{"to": random.choice(ends), "weight": random.choice((0.1, 1, 2.5, -1, *ODD))} for _ in range(5)]
    return random.choices([*weighing, {"to": random.choice(ends)}, {"weight": 1}, "odd"], k=random.randrange(8))


def _text(random: Random) -> str:
    return " ".join(random.choices(WORDS, k=random.randrange(4)))


FIELDS: Final[Mapping[str, Draw]] = {
    **dict.fromkeys(("created_at", "updated_at", "accessed_at", "confirmed_at"), _stamp),
    **dict.fromkeys(("title", "text"), _text),
    "cycle": lambda random: random.randrange(-5, 200),
    "priority": lambda random: random.choice(["P1", "P2", "P3", "P4", "P5", "p1"]),
    "type": lambda random: random.choice(["reflection", "note"]),
    "importance": lambda random: random.choice([0, 1, 2.5, 5, 7, -1, 0.5]),
    "salience": lambda random: random.choice([0, 0.3, 1, 4.5, -2]),
    "memory_tier": lambda random: random.choice(["procedural", "semantic", "episodic", "working", "other"]),
    "confidence": lambda random: random.choice([0, 0.04, 0.5, 1, 1.5, -1]),
    "access_count": lambda random: random.choice([0, 1, 17, 2.5, -3, 10**9]),
    "edges": _edges,
    "location": lambda random: random.choice([{"lat": 1, "lon": 179}, [{"lat": 0, "lon": -179}, 1], {"lat": "1"}]),
}


def payload(random: Random, own: str) -> dict[str, Any]:
    """A document's payload: a field is missing or odd one time in six each."""
    fields: dict[str, Any] = {"id": random.choice([f"doc-{own}", f"doc-{own}", "doc-d1"])}
    for name, draw in FIELDS.items():
        luck = random.randrange(6)
        if luck:
            fields[name] = random.choice(ODD) if luck == 1 else draw(random)
    if random.random() < 0.5:
        fields[CONTENT] = fingerprint(content(fields))
    return fields


@cache
def _payloads(own: str) -> Sequence[dict[str, Any]]:
    # Drawn once: drawing them takes longer than ranking them.
    random = Random(own)
    return [payload(random, own) for _ in range(200)]


def cosine(random: Random) -> float:
    """The hits of a vector leg: mostly similar, sometimes opposed, often the same."""
    return random.choice([random.uniform(-1, 1), random.uniform(0.5, 1), 0.75, 0.0, 1.0])


def any_single(random: Random) -> float:
    """Any number that fits in 32 bits, the extremes often."""
    greatest = (2 - 2**-23) * 2.0**127
    return random.choice([greatest, -greatest, 0.0, -0.0, 2.0**-149, -(2.0**-149), 1.0, random.uniform(-1e3, 1e3)])


def pool(random: Random, score: Score = cosine) -> list[Leg]:
    """Legs in any order, some of them missing or empty; ids may come twice, scores may be equal."""
    payloads = {id_: dict(random.choice(_payloads(id_))) for id_ in DOCUMENTS}
    legs = []
    for name in (VECTOR, KEYWORD, STRUCTURED, "image"):
        if random.random() < 0.8:
            ids = random.choices(DOCUMENTS, k=random.choice([0, 1, 2, 8, 20]))
            values = sorted((0.0 if name == STRUCTURED else score(random) for _ in ids), reverse=True)
            legs.append(leg(name, *zip(ids, values, strict=True), payloads=payloads))
    random.shuffle(legs)
    return legs


def matches(random: Random) -> Matches:
    """Which documents have which words and forms of a query: the rare ones few, and some that are no candidates. Stop
    words are atoms without a word, and forms lie over any atoms.
    """
    words = random.sample(["weather", "café", "SX-12", "8701250", "5x6", "lost"], random.randrange(5))
    atoms = {word: (place, 1) for word, place in zip(words, random.sample(range(7), len(words)), strict=True)}
    forms = [(random.randrange(6), random.choice([1, 2, 3])) for _ in range(random.randrange(3))]
    atoms |= {f"form {number}": span for number, span in enumerate(forms)}
    held = {word: random.sample([*DOCUMENTS, "elsewhere"], random.choice([0, 1, 1, 5, 12])) for word in atoms}
    fields = {word: {id_: random.choice([("title",), ("text", "sku")]) for id_ in ids} for word, ids in held.items()}
    return Matches(fields, atoms)


def facts(random: Random, **fixed: Any) -> Facts:
    """The input of a query: text, anchor, a clock of cycles, tiers of decay."""
    tier = DecayTier(mode=random.choice([None, "step"]), half_life_days=random.choice([0.0, 3.0]))
    drawn = {
        "now": NOW,
        "cycle": random.choice([None, 100]),
        "text": random.choice([None, "", "The weather report", "Straße café", "東京の天気", "طقس؟"]),
        "temporal_expression": random.choice(
            [None, TemporalExpression(21, 5), TemporalExpression(-3, 2), TemporalExpression(365, 30)]
        ),
        "matches": random.choice([None, matches(random)]),
        "decay": random.choice([(), (tier,)]),
        "decay_half_life": random.choice([7.0, 30.0, None]),
    }
    return Facts(**{**drawn, **fixed})


UNDERSTOOD: Final[Sequence[tuple[Wish, ...]]] = (
    (),
    (Limit(lt=3, about=["importance"]), Exclusion(without="weather")),
    (Order(about=["date"], direction="desc"), Limit(gt=2020, unit="year", about=["date"])),
)
"""The wishes of queries."""


def explained(ranked: Ranked, id_: str) -> dict[str, Any]:
    """A candidate's explanation as the result has it, there and back."""
    assert ranked.run.explanations is not None
    of = ranked.run.explanations.by_id[id_]
    read: dict[str, Any] = orjson.loads(orjson.dumps({"legs": of.legs, "stages": of.stages}))
    return read


def said(ranked: Ranked) -> bytes:
    """All that a ranking says, as bytes; scores to the bit, keys in their order."""
    candidates = [(candidate.id, candidate.score.hex()) for candidate in ranked.candidates]
    by_id = ranked.run.explanations and {id_: explained(ranked, id_) for id_, _ in candidates}
    return orjson.dumps([candidates, by_id, ranked.run.backends, ranked.run.reranked, ranked.run.warnings()])


def judged(random: Random, candidates: Sequence[Candidate]) -> ModelScores | None:
    """A model's word on the first candidates: it may leave some out, select one, or not be heard at all."""
    if random.random() < 0.1:
        return None
    top = random.choice([1, 2, 5, 50])
    keeps, selects = random.choice([1.0, 1.0, 0.8, 0.0]), random.random() < 0.2
    read = [candidate.id for candidate in candidates[:top] if random.random() < keeps]
    scores = {id_: random.choice([1.0, random.uniform(-9, 9)]) for id_ in read}
    return ModelScores(scores, top, selects, measure=random.choice(("share", "similarity")))


def by_model(random: Random, recipe: Recipe, legs: Sequence[Leg], facts: Facts) -> Ranked:
    """The recipe's ranking, with what a model says of it, and by vectors that most candidates have."""
    first = first_phase(recipe, legs, facts)
    ids = [candidate.id for candidate in first.candidates if random.random() < 0.9]
    vectors = {id_: np.array([random.gauss(0, 1) for _ in range(4)], np.float16) for id_ in ids}
    return second_phase(recipe, first, judged(random, first.candidates), vectors)
