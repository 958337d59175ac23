"""The keyword leg on a shop's catalogue, by kind of query: its terms, ranked as Qdrant ranks them."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from operators.collections.analysers import CURRENT, PLAIN, Bm25
from operators.evaluation.metrics import any_at, mean, parse_qrels, relevant
from operators.ranking.coverage import rarity

STORE = Path(__file__).parents[3] / "data" / "store"


def lines(name: str) -> Iterator[dict[str, Any]]:
    """The objects of a file."""
    return map(orjson.loads, (STORE / name).read_bytes().splitlines())


def measure(analysis: int) -> dict[str, float]:
    """The share of queries of each kind whose first result is right, with this version of the analysis."""
    bm25 = Bm25(analysis=analysis)
    holding: dict[tuple[str, int], list[tuple[str, float]]] = defaultdict(list)
    sizes: Counter[str] = Counter()
    for each in lines("documents.jsonl"):
        sizes[each["namespace"]] += 1
        terms = bm25.document("\n".join(each[name] for name in ("title", "text") if each.get(name)))
        for term, weight in zip(terms.indices, terms.values, strict=True):
            holding[each["namespace"], term].append((each["id"], weight))
    judged = relevant(parse_qrels((STORE / "qrels.txt").read_text().splitlines()))
    found = defaultdict(list)
    for query in lines("queries.jsonl"):
        scores: dict[str, list[float]] = defaultdict(list)
        asked = bm25.query(query["text"])
        for term in asked.indices if asked is not None else ():
            hits = holding[query["namespace"], term]
            for id_, weight in hits:
                scores[id_].append(weight * rarity(sizes[query["namespace"]], len(hits)))
        ranking = sorted(scores, key=lambda id_: (-math.fsum(scores[id_]), id_))
        if query["query_id"] in judged:
            found[query["kind"]].append(any_at(ranking, judged[query["query_id"]], 1))
    return {kind: mean(values) for kind, values in found.items()}


@pytest.fixture(scope="module")
def figures() -> tuple[dict[str, float], dict[str, float]]:
    """The figures with the analysis of earlier versions, and with this one's."""
    return measure(PLAIN), measure(CURRENT)


def test_no_kind_of_query_is_worse(figures: tuple[dict[str, float], dict[str, float]]) -> None:
    """Identifiers and pairs of characters cost nowhere."""
    before, after = figures
    assert all(after[kind] >= before[kind] for kind in before)


@pytest.mark.parametrize(("kind", "least"), [("phrase", 0.95), ("chinese-japanese", 0.9), ("identifier", 0.3)])
def test_what_the_keyword_leg_promises(
    kind: str, least: float, figures: tuple[dict[str, float], dict[str, float]]
) -> None:
    """Phrases and rare words, scripts without spaces, and identifiers, most of which are in no searched field."""
    assert figures[1][kind] >= least
