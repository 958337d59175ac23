"""Random pools of a seeded generator: repeated ids, empty and missing legs, equal scores, odd payloads."""

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from operators.ranking.candidate import Leg
from tests.operators.ranking.pools import DAY, NOW, leg

SIGNALS = ("keyword", "vector", "recency", "priority", "graph")

IDS = "abcdefghij"
STAMPS = [
    NOW,
    NOW + 3 * DAY,
    NOW - 7 * DAY,
    NOW - 5_000 * DAY,
    int(NOW) - 1,
    "2023-11-14T22:13:20Z",
    "2023-11-01T00:00:00+05:30",
    "2023-11-01T00:00:00",
    "0001-01-01T00:00:00Z",
    "yesterday",
    "",
    1e18,
    -1e18,
    True,
    None,
    [NOW],
    {},
]
CYCLES = [0, 7, 50, 99, 100, 101, 3.5, -20, "50", True, None, [50], 10**12]
OWN_PRIORITIES = ["P1", "P2", "P3", "P4", "P5", "p1", "", 1, None, True, ["P1"], {"P1": 1}]
EDGE_WEIGHTS = [1, 0.5, 0.25, 0.5, 2.0, 0, -1, "1", None, True, math.nan, 1e308, [1]]
NO_EDGES: list[object] = [
    None,
    "b",
    7,
    {},
    [],
    ["b"],
    [["b", 1.0]],
    [None],
    [{}],
    [{"weight": 1.0}],
    [{"to": 7}],
    {"to": "b"},
]


def some_score(chance: random.Random) -> float:
    """A raw score; often one that others have, too."""
    kind = chance.random()
    if kind < 0.5:
        return chance.randrange(-4, 9) / 8
    return chance.uniform(-1, 1) if kind < 0.9 else chance.choice([3e38, -3e38, 1e-45, 0.0, -0.0, 1e9, 12.5])


def some_leg(chance: random.Random, name: str, payloads: Mapping[str, Mapping[str, Any]]) -> Leg:
    """A leg with up to twelve hits, best first; ids may repeat, all scores may be equal."""
    size = chance.choice([0, 1, 2, 3, 5, 8, 12])
    values = [some_score(chance)] * size if chance.random() < 0.2 else [some_score(chance) for _ in range(size)]
    found = [(chance.choice(IDS), value) for value in sorted(values, reverse=True)]
    return leg(name, *found, payloads=payloads)


def some_legs(chance: random.Random, names: Sequence[str], payloads: Mapping[str, Mapping[str, Any]]) -> list[Leg]:
    """Some of these legs, in any order."""
    return [some_leg(chance, name, payloads) for name in chance.sample(names, chance.randrange(len(names) + 1))]


def some_weights(chance: random.Random, names: Sequence[str]) -> dict[str, float]:
    """Weights for some of these names, 0 among them."""
    return {name: chance.choice([0.0, 0.25, 0.5, 1.0, 3.0, chance.random()]) for name in names if chance.random() < 0.6}


def some_edges(chance: random.Random) -> object:
    """A payload's edges: mostly a list of them, to candidates, to itself and to the outside."""
    if chance.random() < 0.15:
        return chance.choice(NO_EDGES)
    listed: list[object] = [
        {"to": chance.choice("abcdefghijxyz"), "weight": chance.choice(EDGE_WEIGHTS)}
        for _ in range(chance.choice([0, 1, 2, 4, 9]))
    ]
    return [*listed, {"to": chance.choice(IDS)}] if chance.random() < 0.2 else listed


def some_payload(chance: random.Random) -> dict[str, Any]:
    """A payload of whatever the blend reads, odd values among it."""
    fields: dict[str, Any] = {}
    for name, values in (("created_at", STAMPS), ("updated_at", STAMPS), ("cycle", CYCLES)):
        if chance.random() < 0.6:
            fields[name] = chance.choice(values)
    if chance.random() < 0.7:
        fields["priority"] = chance.choice(OWN_PRIORITIES)
    if chance.random() < 0.7:
        fields["edges"] = some_edges(chance)
    return fields


def some_payloads(chance: random.Random) -> dict[str, dict[str, Any]]:
    """A payload for each id; the documents' own ids, where they have any, sort the other way round."""
    payloads = {id_: some_payload(chance) for id_ in IDS}
    if chance.random() < 0.5:
        for id_, own in zip(IDS, reversed(IDS), strict=True):
            payloads[id_]["id"] = own
    return payloads


def some_blend(chance: random.Random) -> dict[str, Any]:
    """The blend's parameters: weights of which some are 0, half-lives, what bounds the graph."""
    weights = {f"{name}_weight": chance.choice([0.0, 0.25, 1.0, chance.random()]) for name in SIGNALS}
    if chance.random() < 0.1:
        weights = dict.fromkeys(weights, 0.0)
    return {
        **weights,
        "half_life_days": chance.choice([7.0, 0.5, 365.0]),
        "half_life_cycles": chance.choice([50.0, 1.0]),
        "graph_edge_decay": chance.choice([0.5, 0.0, 1.0, 0.3]),
        "max_neighbors_per_candidate": chance.choice([5, 1, 2, 0, 100]),
        "limit": chance.choice([0, 0, -1, 1, 3]),
    }


WORDS = ["The", "red", "fox", "AI", "of", "ago", "東京都", "猫", "Straße", "STRASSE", "x", "2023"]


def some_text(chance: random.Random) -> str:
    """A few words, some of which stop; often the same few."""
    return " ".join(chance.choices(WORDS, k=chance.choice([0, 1, 1, 2, 5])))


def some_document(chance: random.Random) -> dict[str, Any]:
    """A payload of whatever the recipes read, each field right or missing."""
    drawn: dict[str, Any] = {
        "text": some_text(chance),
        "priority": chance.choice(["P1", "P2", "P3", "P4"]),
        "memory_tier": chance.choice(["procedural", "semantic", "episodic", "working", "other"]),
        "salience": chance.random(),
        "importance": chance.choice([0, 1, 2.5, 5, 7]),
        "confidence": chance.choice([0.0, 0.3, 1.0, chance.random()]),
        "access_count": chance.choice([0, 1, 17]),
        "id": chance.choice("pqrstuvw") + str(chance.randrange(10**6)),
        **{
            stamp: NOW - chance.choice([-1, 0, 1, 7, 30, 400, chance.uniform(0, 90)]) * DAY
            for stamp in ("created_at", "updated_at", "accessed_at", "confirmed_at")
        },
    }
    return {name: value for name, value in drawn.items() if chance.random() < 0.7}


def some_hits(chance: random.Random, payloads: Mapping[str, Mapping[str, Any]]) -> list[Leg]:
    """Both legs in any order with cosines and BM25, some equal, some ids twice; one leg may be missing or empty."""
    found = []
    for name, low, high in (("vector", -0.3, 1.0), ("keyword", 0.0, 25.0)):
        size = chance.choice([0, 1, 3, 8, 12])
        few = [chance.uniform(low, high) for _ in range(4)]
        values = [chance.choice(few) if chance.random() < 0.3 else chance.uniform(low, high) for _ in range(size)]
        hits = [(chance.choice(IDS), value) for value in sorted(values, reverse=True)]
        found.append(leg(name, *hits, payloads=payloads))
    return chance.sample(found, chance.choice([1, 2, 2, 2]))
