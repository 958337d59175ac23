"""The stages that compare candidates by their vectors once more, as plainly as they can be written.

It shares no code with what it checks, and was written from the formulas alone.
"""

import math
from collections.abc import Mapping, Sequence

from tests.operators.ranking import naive
from tests.operators.ranking.naive import Pairs, Payload

Vectors = Mapping[str, Sequence[float]]


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Of two vectors; 0 where one has no direction."""
    lengths = math.sqrt(math.fsum(a * a for a in one)) * math.sqrt(math.fsum(b * b for b in other))
    return math.fsum(a * b for a, b in zip(one, other, strict=True)) / lengths if lengths else 0.0


def spread(values: Sequence[float]) -> list[float]:
    """From 0 to 1; all 1 where they are equal."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return [(value - low) / (high - low) if high > low else 1.0 for value in values]


def feedback(pairs: Pairs, payloads: Mapping[str, Payload], vectors: Vectors, weight: float, top: int) -> Pairs:
    """Part of the score, and part of the cosine to the mean of the first ones; a vector of zeros is none."""
    vectors = {id_: vectors[id_] for id_, _ in pairs if any(vectors.get(id_, ()))}
    old = spread([score for _, score in pairs])
    if len(vectors) < 2:
        return pairs
    first = [_unit(vector) for vector in vectors.values()][:top]
    mean = [math.fsum(each / place for place, each in enumerate(axis, 1)) for axis in zip(*first, strict=True)]
    like = spread([cosine(vectors[id_], mean) if id_ in vectors else 0.0 for id_, _ in pairs])
    mixed = [(1 - weight) * before + weight * near for before, near in zip(old, like, strict=True)]
    return _sorted(list(zip([id_ for id_, _ in pairs], mixed, strict=True)), payloads)


def smoothing(
    pairs: Pairs, payloads: Mapping[str, Payload], vectors: Vectors, weight: float, neighbours: int, temperature: float
) -> Pairs:
    """Part of the score, and part of the mean score of those that are nearest."""
    vectors = {id_: vectors[id_] for id_, _ in pairs if any(vectors.get(id_, ()))}
    known = list(vectors)
    if len(known) < 2:
        return pairs
    old = dict(zip([id_ for id_, _ in pairs], spread([score for _, score in pairs]), strict=True))
    found = []
    for id_, before in old.items():
        mean = before
        if id_ in vectors:
            others = [(cosine(vectors[id_], vectors[other]), old[other]) for other in known if other != id_]
            nearest = sorted(others, key=lambda other: -other[0])[:neighbours]
            shares = [math.exp(near / temperature) for near, _ in nearest]
            mean = math.fsum(s * of for s, (_, of) in zip(shares, nearest, strict=True)) / math.fsum(shares)
        found.append((id_, (1 - weight) * before + weight * mean))
    return _sorted(found, payloads)


def _unit(vector: Sequence[float]) -> list[float]:
    length = math.sqrt(math.fsum(each * each for each in vector))
    return [each / length for each in vector]


def _sorted(pairs: Pairs, payloads: Mapping[str, Payload]) -> Pairs:
    return sorted(pairs, key=lambda pair: (-pair[1], naive.own_id(pair[0], payloads[pair[0]])))
