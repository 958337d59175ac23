"""Which questions the semantic cache takes for one: labelled pairs, by their cosine alone and with the check of words.

A false hit is a close question that would be given the answer to another one. A hit on a paraphrase spares computing.
Pairs come from tests/data/question_pairs.jsonl, or from a data set. Two of its questions of one namespace are close if
their cosine is at least CLOSE and no document is relevant to both, and paraphrases if the same documents are. Others
are made of its questions by rule.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench.altered_questions import altered
from bench.kafka.broker import REPOSITORY
from bench.question_pairs import Pair
from operators.caching.paraphrase import paraphrases
from operators.clients.local.minilm import MiniLM
from schemas.settings import CacheSettings, load

THRESHOLDS: Final = (0.80, 0.85, 0.90, 0.92, 0.95, 0.98)
SHIPPED: Final = CacheSettings().threshold
CLOSE: Final = 0.85
PAIRS: Final = REPOSITORY / "tests" / "data" / "question_pairs.jsonl"

Vectors = Mapping[str, NDArray[np.float32]]


def written(path: Path = PAIRS) -> list[Pair]:
    """The pairs of a file of JSON Lines."""
    return [Pair(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def judged(directory: Path) -> list[Pair]:
    """The pairs that the judgements of a data set label, and those that rules make of its questions."""
    lines = (directory / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    asked = {event["query_id"]: event for event in map(json.loads, lines)}
    relevant: dict[str, set[str]] = defaultdict(set)
    for line in (directory / "qrels.txt").read_text(encoding="utf-8").splitlines():
        query_id, _, document, grade = line.split()
        if int(grade) > 0:
            relevant[query_id].add(document)
    vectors = embedded(event["text"] for event in asked.values())
    pairs = []
    for one, other in combinations(sorted(asked.keys() & relevant.keys()), 2):
        texts = asked[one]["text"], asked[other]["text"]
        if asked[one].get("namespace") != asked[other].get("namespace"):
            continue
        if relevant[one] == relevant[other]:
            pairs.append(Pair("judged", True, *texts))
        elif not relevant[one] & relevant[other] and cosine(vectors, *texts) >= CLOSE:
            pairs.append(Pair("judged", False, *texts))
    return [*pairs, *altered([event["text"] for event in asked.values()])]


def embedded(texts: Iterable[str], model: MiniLM | None = None) -> Vectors:
    """Each text's vector, of length 1."""
    distinct = list(dict.fromkeys(texts))
    encoder = model if model is not None else MiniLM(_cache_dir())
    return {text: each.vector for text, each in zip(distinct, encoder.encode(distinct), strict=True)}


def cosine(vectors: Vectors, one: str, other: str) -> float:
    """The cosine of two texts' vectors."""
    return float(vectors[one] @ vectors[other])


def figures(pairs: Sequence[Pair], model: MiniLM | None = None) -> dict[str, Any]:
    """The number of pairs that are hits, by threshold, and at the shipped threshold by kind."""
    vectors = embedded((text for pair in pairs for text in (pair.cached, pair.asked)), model)
    cosines = {pair: cosine(vectors, pair.cached, pair.asked) for pair in pairs}
    parts = {same: [pair for pair in pairs if pair.same == same] for same in (False, True)}
    kinds = sorted({(pair.same, pair.kind) for pair in pairs})
    of_kind = {kind: [pair for pair in pairs if (pair.same, pair.kind) == kind] for kind in kinds}
    return {
        "close": len(parts[False]),
        "same": len(parts[True]),
        "shipped": SHIPPED,
        "thresholds": [
            {
                "cosine": least,
                "false_hits": _hits(parts[False], cosines, least),
                "hits": _hits(parts[True], cosines, least),
            }
            for least in THRESHOLDS
        ],
        "kinds": [
            {"kind": kind, "same": same, "pairs": len(part), "hits": _hits(part, cosines, SHIPPED)}
            for (same, kind), part in of_kind.items()
        ],
    }


def _hits(pairs: Sequence[Pair], cosines: Mapping[Pair, float], least: float) -> dict[str, int]:
    near = [pair for pair in pairs if cosines[pair] >= least]
    return {"alone": len(near), "checked": sum(paraphrases(pair.cached, pair.asked) for pair in near)}


def _cache_dir() -> Path:
    servers = {"kafka": {"bootstrap_servers": "127.0.0.1:1"}, "qdrant": {"url": "http://127.0.0.1:1"}}
    return load(None, servers).cache_dir.expanduser()
