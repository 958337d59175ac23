"""More like this: a Qdrant server and the engine in the process find what naive arithmetic finds."""

import asyncio
import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from operators.clients.http.transport import Endpoint, http_transport
from operators.clients.qdrant.server import ServerClient
from operators.clients.qdrant_edge.engine import EngineClient
from operators.clients.qdrant_edge.shards import Engine
from operators.query.examples import MOST_WORDS
from operators.ranking.coverage import rarity
from schemas.result import KEYWORD, VECTOR
from tests import qdrant_server
from tests.operators.samples import DIMENSION
from tests.stand_in.test_differential import NAMESPACES, Event, Place
from tests.tiers import sized

pytestmark = pytest.mark.slow

DOCUMENTS: Final = 300
QUERIES: Final = sized(60, nightly=400)
VOCABULARY: Final = [f"word{number}" for number in range(600)]
KINDS: Final = ("lamp", "chair")
SAME: Final = 1e-4

Scores = dict[str, float]


def written(draw: random.Random, number: int) -> Event:
    """A document of many words, few of them rare; some have no vector."""
    words = [VOCABULARY[min(599, int(draw.expovariate(0.01)))] for _ in range(draw.choice((10, 120, 200)))]
    event: Event = {
        "id": f"d{number}",
        "namespace": NAMESPACES[number % 2],
        "text": " ".join(words),
        "kind": draw.choice(KINDS),
        "updated_at": 1.0,
    }
    return event if draw.random() < 0.1 else {**event, "vector": [draw.uniform(-1, 1) for _ in range(DIMENSION)]}


def question(draw: random.Random) -> Event:
    """A query for what is like some documents, and unlike others: of any namespace, and not all of them there."""
    namespace = draw.choice(NAMESPACES)
    ids = [f"d{number}" for number in range(DOCUMENTS + 50)]
    like: Event = {"ids": draw.sample(ids, draw.choice((1, 1, 2, 5)))}
    if draw.random() < 0.5:
        like["unlike"] = draw.sample(ids, draw.choice((1, 3)))
    like["strategy"] = draw.choice(("average_vector", "best_score"))
    event: Event = {"namespace": namespace, "text": None, "like": like, "limit": 10}
    if draw.random() < 0.3:
        event["filters"] = [{"field": "kind", "op": "eq", "value": draw.choice(KINDS)}]
    if draw.random() < 0.3:
        event["vector"] = [draw.uniform(-1, 1) for _ in range(DIMENSION)]
    if draw.random() < 0.3:
        event["text"] = " ".join(draw.choices(VOCABULARY[100:], k=2))
    return event


class Naive:
    """All documents, by namespace and id, and what Qdrant is told to find among them."""

    def __init__(self, documents: Sequence[Event], place: Place) -> None:
        self.documents = {(each["namespace"], each["id"]): each for each in documents}
        self.analyser = place.catalogue.analyser("documents")
        terms = {name: self.analyser.payload(each)[0] for name, each in self.documents.items()}
        self.cut = 0
        self.terms = {name: dict(zip(each.indices, each.values, strict=True)) for name, each in terms.items()}

    def there(self, event: Event, ids: Sequence[str]) -> list[tuple[str, str]]:
        """The names of the documents with these ids that the query may see."""
        return [name for id_ in ids if (name := (event["namespace"], id_)) in self.documents]

    def results(self, event: Event) -> list[tuple[str, str]]:
        """The names of all documents that may be a result."""
        out = {*event["like"]["ids"], *event["like"].get("unlike", ())}
        kinds = {each["value"] for each in event.get("filters", ())} or {*KINDS}
        return [
            name
            for name, each in self.documents.items()
            if name[0] == event["namespace"] and each["id"] not in out and each["kind"] in kinds
        ]

    def by_vectors(self, event: Event) -> Scores:
        """Qdrant's average vector, and its best score, as its documentation has them."""
        like = event["like"]
        wanted, unwanted = (self._vectors(self.there(event, like.get(key, ()))) for key in ("ids", "unlike"))
        if "vector" in event:
            wanted.append(np.array(event["vector"]))
        if not wanted:
            return {}

        def average(vector: NDArray[Any]) -> float:
            mean = np.mean(wanted, 0)
            aim = 2 * mean - np.mean(unwanted, 0) if unwanted else mean
            return float(_unit(aim) @ vector)

        def best(vector: NDArray[Any]) -> float:
            near = max(_sigmoid(float(_unit(each) @ vector)) for each in wanted)
            far = max((_sigmoid(float(_unit(each) @ vector)) for each in unwanted), default=-math.inf)
            return near if near > far else -far

        score = average if like["strategy"] == "average_vector" else best
        names = [name for name in self.results(event) if "vector" in self.documents[name]]
        return {name[1]: score(_unit(np.array(self.documents[name]["vector"]))) for name in names}

    def by_words(self, event: Event) -> Scores | None:
        """BM25 of the words with the highest tf·idf, and of those of the text; None if two are as good as the last."""
        like, namespace = event["like"], event["namespace"]
        inside = {name: each for name, each in self.terms.items() if name[0] == namespace}
        frequency = Counter(term for each in inside.values() for term in each)
        idf = {term: rarity(len(inside), count) for term, count in frequency.items()}
        weights: dict[int, float] = {}
        for name in self.there(event, like["ids"]):
            for term, weight in self.terms[name].items():
                weights[term] = max(weight, weights.get(term, 0.0))
        unwanted = {term for name in self.there(event, like.get("unlike", ())) for term in self.terms[name]}
        order = sorted(weights.keys() - unwanted, key=lambda term: -weights[term] * idf[term])
        words = order[:MOST_WORDS]
        cut = [weights[term] * idf[term] for term in order[MOST_WORDS - 1 : MOST_WORDS + 1]]
        if len(cut) == 2 and cut[0] - cut[1] < SAME:
            return None
        self.cut += len(cut) == 2
        own = self.analyser.query(event["text"]) if event["text"] else None
        asked = dict(zip(own.indices, own.values, strict=True)) if own is not None else {}
        share = (sum(asked.values()) or len(words)) / max(1, len(words))
        asked |= {term: max(share, asked.get(term, 0.0)) for term in words}
        scores = {
            name[1]: sum(
                weight * idf[term] * self.terms[name].get(term, 0.0) for term, weight in asked.items() if term in idf
            )
            for name in self.results(event)
        }
        return {id_: score for id_, score in scores.items() if score}

    def _vectors(self, names: Sequence[tuple[str, str]]) -> list[NDArray[Any]]:
        return [_unit(np.array(each["vector"])) for name in names if "vector" in (each := self.documents[name])]


def _unit(vector: NDArray[Any]) -> NDArray[Any]:
    unit: NDArray[Any] = vector / np.linalg.norm(vector)
    return unit


def _sigmoid(score: float) -> float:
    return 0.5 * (score / (1 + abs(score)) + 1)


def agree(found: Mapping[str, float], expected: Scores, limit: int) -> bool:
    """True if the best scores are the expected ones, each document with its own."""
    best = sorted(expected.values(), reverse=True)[:limit]
    scores = sorted(found.values(), reverse=True)
    return (
        len(scores) == len(best)
        and all(abs(a - b) < SAME for a, b in zip(scores, best, strict=True))
        and all(abs(expected.get(id_, math.inf) - score) < SAME for id_, score in found.items())
    )


def test_a_server_and_the_engine_find_what_is_like_documents(tmp_path: Path) -> None:
    """Random examples, some foreign and some missing, with filters, texts and vectors."""
    draw = random.Random(68)
    documents = [written(draw, number) for number in range(DOCUMENTS)]

    async def scenario(url: str, engine: Engine) -> None:
        async with AsyncExitStack() as stack:
            endpoint = Endpoint("qdrant", url, http_transport())
            stack.push_async_callback(endpoint.aclose)
            places = [Place(ServerClient(endpoint)), Place(EngineClient(engine))]
            for place in places:
                await place.open()
                assert all(each is None for each in await place.write(documents))
            naive = Naive(documents, places[0])
            seen: Counter[str] = Counter()
            for _ in range(QUERIES):
                event = question(draw)
                for place in places:
                    found = await place.ask(event)
                    for name, expected in ((VECTOR, naive.by_vectors(event)), (KEYWORD, naive.by_words(event))):
                        if expected is None:
                            continue
                        payloads, scores = found[name].hits.payloads, found[name].hits.scores
                        hits = dict(zip([each["id"] for each in payloads], scores, strict=True))
                        assert agree(hits, expected, 100), (name, event, hits, expected)
                        seen[name] += len(hits)
            assert all(seen[name] > 5 * QUERIES for name in (VECTOR, KEYWORD)), seen
            assert naive.cut > QUERIES // 12

    with qdrant_server.running(tmp_path / "server") as url, Engine(tmp_path / "engine") as engine:
        asyncio.run(scenario(url, engine))
