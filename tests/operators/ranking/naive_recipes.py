"""The shipped recipes once more, whole, as plainly as they can be written: lists of ids and scores, and loops.

It shares no code with what it checks, and was written from the formulas alone. Payloads are as they should be: a field
is right or missing.
"""

import math
import unicodedata
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

from operators.ranking.candidate import Leg
from tests.operators.ranking import naive, naive_similarity
from tests.operators.ranking.naive import Pairs, Payload

SIGNALS = {"keyword": 0.30, "vector": 0.55, "recency": 0.10, "priority": 0.05, "graph": 0.0}
CONTEXT_WEIGHTS = {"vector": 0.1, "keyword": 0.3, "keyword_context": 0.4, "vector_context": 0.2}
TIERS = {"procedural": 0.95, "semantic": 0.90, "episodic": 0.55, "working": 0.30}
STOP_WORDS = {"the", "of", "what", "is", "get", "give", "buy", "made", "ago", "last"}


class Asked(NamedTuple):
    """A query's input, and its changes of the recipes; ages are in days."""

    now: float
    text: str = ""
    anchor: tuple[float, float] | None = None
    half_life: float | None = 7.0
    step: float | None = None
    said: Mapping[str, float] | None = None
    top: int = 0
    weight: float = 1.0
    alpha: float = 0.6
    max_distance: float = 0.0
    neutral: float | None = None
    vectors: naive_similarity.Vectors = MappingProxyType({})
    words: Mapping[str, Sequence[str]] = MappingProxyType({})


def ranked(name: str, legs: Sequence[Leg], asked: Asked) -> Pairs:
    """The output of the recipe of that name for these legs."""
    payloads: dict[str, Payload] = {}
    for leg in naive.ordered(legs):
        for id_, payload in zip(leg.ids, leg.payloads, strict=True):
            payloads.setdefault(id_, payload)
    return RECIPES[name](legs, payloads, asked)


def judged(
    pairs: Pairs, payloads: Mapping[str, Payload], asked: Asked, weight: float = 0.5, *, copies: bool = False
) -> Pairs:
    """Exact words first, and behind the model again; copies stay, or go before it reads them."""
    covered = cover(pairs, asked, payloads, weight)
    read = rerank(covered if copies else dedupe(covered, payloads, asked), payloads, asked)
    return read if asked.said is None else cover(read, asked, payloads, weight)


def rarity(frequency: int, documents: int) -> float:
    """ln(1 + (N - n + .5) / (n + .5))."""
    return math.log(1 + (documents - frequency + 0.5) / (frequency + 0.5))


def trust(asked: Asked, counted: Container[str], documents: int) -> float:
    """Twice the greatest share of the query's words, by their rarity, that one document has; at most 1."""
    having = {word: {id_ for id_ in found if id_ in counted} for word, found in asked.words.items()}
    total = sum(rarity(len(found), documents) for found in having.values())
    shares = [
        sum(rarity(len(found), documents) for found in having.values() if id_ in found) / total
        for id_ in set().union(*having.values())
    ]
    return min(1.0, 2 * max(shares, default=1.0))


def cover(pairs: Pairs, asked: Asked, counted: Collection[str], weight: float = 0.5) -> Pairs:
    """Weight * e / (1 + e): e sums, over each one's words, information * support, as the counted documents say, and
    is weighted by the trust in these words.
    """
    having = {word: [id_ for id_ in found if id_ in counted] for word, found in asked.words.items()}
    credit = trust(asked, counted, len(counted))
    one = rarity(1, len(counted))
    says = {word: (rarity(len(found), len(counted)) / one) ** 3 for word, found in having.items() if found}

    def others(word: str, id_: str) -> float:
        return sum(value for other, value in says.items() if other != word and id_ in having[other])

    def support(word: str, id_: str) -> float:
        most = max(others(word, each) for each in measures)
        return min(1.0, others(word, id_) / most) if most > 0 else 1.0

    several = [id_ for id_ in counted if sum(id_ in having[word] for word in says) > 1]
    measures = several or list(counted)
    evidence = {
        id_: credit * sum(value * support(word, id_) for word, value in says.items() if id_ in having[word])
        for id_, _ in pairs
    }
    return best_first([(id_, score + weight * evidence[id_] / (1 + evidence[id_])) for id_, score in pairs])


def _hybrid(legs: Sequence[Leg], payloads: Mapping[str, Payload], asked: Asked, credit: float = 1.0) -> Pairs:
    return judged(near(naive.score(legs, credit=credit), asked), payloads, asked)


def _rrf(legs: Sequence[Leg], payloads: Mapping[str, Payload], asked: Asked) -> Pairs:
    return judged(near(naive.rrf(legs), asked), payloads, asked)


def _documents(legs: Sequence[Leg], payloads: Mapping[str, Payload], asked: Asked) -> Pairs:
    read = _hybrid(legs, payloads, asked, trust(asked, payloads, len(payloads)))
    moved = naive_similarity.feedback(read, payloads, asked.vectors, 0.4, 3)
    return naive_similarity.smoothing(moved, payloads, asked.vectors, 0.4, 10, 0.05)


def _conversation(legs: Sequence[Leg], payloads: Mapping[str, Payload], asked: Asked) -> Pairs:
    fused = naive.score(legs, weights=CONTEXT_WEIGHTS, credit=trust(asked, payloads, len(payloads)))
    return temporal(judged(near(fused, asked), payloads, asked, 0.25), payloads, asked)


def _composite(legs: Sequence[Leg], payloads: Mapping[str, Payload], asked: Asked) -> Pairs:
    read = judged(near(naive.score(legs, credit=1.0), asked), payloads, asked, copies=True)
    return dedupe(temporal(composite(read, payloads, asked), payloads, asked), payloads, asked)


def _signals(legs: Sequence[Leg], payloads: Mapping[str, Payload], asked: Asked) -> Pairs:
    return near(naive.blend(legs, SIGNALS, asked.now)[0], asked)


def _distance(legs: Sequence[Leg], payloads: Mapping[str, Payload], asked: Asked) -> Pairs:
    words = keywords(asked.text)
    found = []
    for id_, similarity in linear(legs, asked.alpha):
        distance = max(0.0, 1 - similarity)
        if 0 < asked.max_distance < distance:
            continue
        age = days(payloads[id_], asked.now, "created_at")
        survival = 1.0 if age is None else math.exp(-((age / 90) ** 1.5))
        distance /= 0.3 + 0.7 * survival
        in_text = words_of(payloads[id_].get("text", ""))
        distance *= 1 - 0.30 * (len(words & in_text) / len(words) if words else 0.0)
        distance *= 1 - 0.15 * importance(payloads[id_], 5)
        if not 0 < asked.max_distance < distance:
            found.append((id_, 1 - distance))
    return best_first(found)


def _decay(legs: Sequence[Leg], payloads: Mapping[str, Payload], asked: Asked) -> Pairs:
    cosines, words = at_first_rank(legs, "vector"), at_first_rank(legs, "keyword")
    least = 0.5 if cosines is None else bound(cosines)
    if asked.neutral is not None:
        least = asked.neutral
    found = []
    for id_, payload in payloads.items():
        cosine = min(1.0, max(0.0, (cosines or {}).get(id_, least)))
        age = days(payload, asked.now, "created_at")
        if asked.half_life is None:
            found.append((id_, cosine))
        elif asked.step is not None:
            found.append((id_, 0.7 * cosine + 0.3 * (1.0 if age is not None and age <= asked.step else 0.1)))
        else:
            found.append((id_, 0.7 * cosine + 0.3 * (0.0 if age is None else 2 ** (-age / asked.half_life))))
    by_id = sorted(found, key=lambda pair: naive.own_id(pair[0], payloads[pair[0]]))
    by_words = sorted(by_id, key=lambda pair: -(words or {}).get(pair[0], 0.0))
    aged = near(best_first(by_words), asked)
    return cover(aged, asked, payloads)


def _one(name: str) -> "Rule":
    def one(legs: Sequence[Leg], payloads: Mapping[str, Payload], asked: Asked) -> Pairs:
        return dedupe(near(best_first(list((at_first_rank(legs, name) or {}).items())), asked), payloads, asked)

    return one


def at_first_rank(legs: Sequence[Leg], name: str) -> dict[str, float] | None:
    """Each id's score in that leg; None where the leg did not answer."""
    for leg in legs:
        if leg.name == name:
            return {id_: score for _, id_, score in naive.hits(leg)}
    return None


def best_first(pairs: Pairs) -> Pairs:
    """By score; equal ones as they stood."""
    return sorted(pairs, key=lambda pair: -pair[1])


def bound(cosines: Mapping[str, float]) -> float:
    """The greatest score of a document that the vector leg left out."""
    return max(0.0, min(cosines.values())) if cosines else 0.0


def linear(legs: Sequence[Leg], alpha: float) -> Pairs:
    """Absolute similarity, in the order of legs and ranks."""
    cosines, words = at_first_rank(legs, "vector"), at_first_rank(legs, "keyword")
    largest = max((words or {}).values(), default=0.0)
    found: dict[str, float] = {}
    for leg in naive.ordered(legs):
        for _, id_, _ in naive.hits(leg):
            cosine = 0.0 if cosines is None else max(0.0, cosines.get(id_, bound(cosines)))
            matching = max(0.0, (words or {}).get(id_, 0.0)) / largest if largest > 0 else 0.0
            if cosines is None:
                found[id_] = matching
            elif words is None:
                found[id_] = cosine
            else:
                found[id_] = alpha * cosine + (1 - alpha) * matching
    return best_first([(id_, min(1.0, value)) for id_, value in found.items()])


def near(pairs: Pairs, asked: Asked) -> Pairs:
    """Those within the distance that the query bounds."""
    return [pair for pair in pairs if not 0 < asked.max_distance < max(0.0, 1 - pair[1])]


def spread(values: Sequence[float]) -> list[float]:
    """From the worst, 0, to the best, 1; all 1 where they are equal."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return [1.0 if low == high else (value - low) / (high - low) for value in values]


def rerank(pairs: Pairs, payloads: Mapping[str, Payload], asked: Asked) -> Pairs:
    """The model's word on the first of them; without one they stay as they are."""
    if asked.said is None:
        return pairs
    first, rest = pairs[: asked.top], pairs[asked.top :]
    kept = [(id_, score) for id_, score in first if id_ in asked.said]
    if len(kept) < len(first):
        rest = []
    new, old = spread([asked.said[id_] for id_, _ in kept]), spread([score for _, score in kept])
    mixed = [
        (id_, asked.weight * of_model + (1 - asked.weight) * before)
        for (id_, _), of_model, before in zip(kept, new, old, strict=True)
    ]
    mixed.sort(key=lambda pair: (-pair[1], naive.own_id(pair[0], payloads[pair[0]])))
    behind = spread([score for _, score in rest])
    return mixed + [(id_, value - 1) for (id_, _), value in zip(rest, behind, strict=True)]


def composite(pairs: Pairs, payloads: Mapping[str, Payload], asked: Asked) -> Pairs:
    """.8 of the relevance and .2 of the quality, each of its maximum."""
    highest = max((score for _, score in pairs), default=0.0)
    worth = {id_: quality(payloads[id_], asked.now) for id_, _ in pairs}
    best = max(worth.values(), default=0.0)
    return best_first(
        [
            (id_, 0.8 * (score / highest if highest > 0 else 0.0) + 0.2 * (worth[id_] / best if best > 0 else 0.0))
            for id_, score in pairs
        ]
    )


def quality(payload: Payload, now: float) -> float:
    """salience * confidence * (1 + ln(1 + accesses)) * recency."""
    tier = payload.get("memory_tier", "")
    salience = payload.get("salience", TIERS.get(tier, 0.5) * (0.5 + 0.5 * importance(payload, 1)))
    accesses = 1 + math.log(1 + payload.get("access_count", 0))
    if tier not in {"semantic", "procedural"}:
        age = days(payload, now, "accessed_at", "updated_at", "created_at")
        return float(salience * accesses * (0.0 if age is None else math.exp(-age / 7)))
    if "confidence" not in payload:
        return float(salience * accesses)
    since = [days(payload, now, "confirmed_at", "updated_at", "created_at"), days(payload, now, "accessed_at")]
    weeks = min((age for age in since if age is not None), default=0.0) / 7
    return float(salience * max(0.05, payload["confidence"] - 0.05 * max(0.0, weeks - 1)) * accesses)


def importance(payload: Payload, most: float) -> float:
    """Of `most`, within 0 and 1; missing 0."""
    return min(1.0, max(0.0, float(payload.get("importance", payload.get("emotional_weight", 0))) / most))


def days(payload: Payload, now: float, *names: str) -> float | None:
    """The age by the first of these stamps that is there, at least 0."""
    at = naive.moment(payload, *names)
    return None if at is None else max(0.0, now - at) / 86_400


def temporal(pairs: Pairs, payloads: Mapping[str, Payload], asked: Asked) -> Pairs:
    """.4 of the proximity to the time that the query names."""
    if asked.anchor is None:
        return pairs
    at, tolerance = asked.anchor
    found = []
    for id_, score in pairs:
        dated = naive.moment(payloads[id_], "created_at")
        away = math.inf if dated is None else abs((asked.now - dated) / 86_400 - at)
        near_by = 1.0 if away <= tolerance else max(0.0, 1 - (away - tolerance) / (2 * tolerance))
        found.append((id_, score + 0.4 * near_by))
    return best_first(found)


def dedupe(pairs: Pairs, payloads: Mapping[str, Payload], asked: Asked) -> Pairs:
    """The newest of each text, an undated one last, and of these the one of most fields; no text is no duplicate.

    The first of each, if the query names a time.
    """

    def text(id_: str) -> str:
        return " ".join(unicodedata.normalize("NFKC", payloads[id_].get("text", "")).casefold().split())

    def freshness(id_: str) -> tuple[float, int]:
        dates = [naive.moment(payloads[id_], name) for name in ("updated_at", "created_at")]
        return next((date for date in dates if date is not None), -math.inf), payloads[id_].get("_fields", 0)

    kept: dict[str, str] = {}
    for id_, _ in pairs:
        if text(id_) not in kept or (asked.anchor is None and freshness(id_) > freshness(kept[text(id_)])):
            kept[text(id_)] = id_
    return [(id_, score) for id_, score in pairs if not text(id_) or kept[text(id_)] == id_]


def keywords(text: str) -> set[str]:
    """The words of a query that count."""
    return words_of(text) - STOP_WORDS


def words_of(text: str) -> set[str]:
    """Words of two characters or more; of Han and kana pairs of neighbours, and Han alone."""
    found: set[str] = set()
    word = ""
    for character in unicodedata.normalize("NFKC", text).casefold() + " ":
        if character.isalnum() and (not word or unspaced(word[-1]) == unspaced(character)):
            word += character
            continue
        if word and unspaced(word[0]):
            found |= {one + other for one, other in pairwise(word)} if len(word) > 1 else {word} & set(HAN)
        elif len(word) > 1:
            found.add(word)
        word = character if character.isalnum() else ""
    return found


HAN = "東京都猫犬"


def unspaced(character: str) -> bool:
    """True if its script puts no space between words."""
    return unicodedata.name(character, "").startswith(("CJK", "HIRAGANA", "KATAKANA"))


Rule = Callable[[Sequence[Leg], Mapping[str, Payload], Asked], Pairs]

RECIPES: Mapping[str, Rule] = {
    "hybrid": _hybrid,
    "composite": _composite,
    "documents": _documents,
    "conversation": _conversation,
    "signals": _signals,
    "distance": _distance,
    "decay": _decay,
    "rrf": _rrf,
    "keyword": _one("keyword"),
    "vector": _one("vector"),
}
