"""Recall of the vector leg: what an approximate search finds of the exact nearest points, by `hnsw_ef`, and its time.

Passages of the standard library's documentation are embedded and written to Qdrant's engine in this process, which then
builds the HNSW index that a server builds by itself. Queries are filtered as the flow's are.
"""

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from flows.cli.demo import docstrings
from operators.clients.local.minilm import MiniLM
from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant_edge.engine import EngineClient
from operators.clients.qdrant_edge.shards import Engine
from operators.collections.making import ensure
from operators.query.backend_answers import Hits, parse_point_id
from schemas.document import NAMESPACE, TYPE
from schemas.settings import QdrantSettings
from schemas.settings.qdrant import Vectors

POINTS: Final = 22_000
DEPTH: Final = 50
"""Nearest points that are looked for."""

VALUES: Final = (None, 64, 128, 256, 384, 512)
"""None: what Qdrant takes by itself, `ef_construct` of the index."""

_COLLECTION: Final = "documents"
_OWN: Final = "python"
_LENGTH: Final = 16
_STEP: Final = 8
_QUERY: Final = 6
"""Words of a passage, between the beginnings of two, and of a query."""

_BATCH: Final = 256
_TIMEOUT: Final = 600.0
_FILTER: Final = {
    "must": [{"key": NAMESPACE, "match": {"value": f"{_OWN}0"}}],
    "must_not": [{"key": TYPE, "match": {"value": "reflection"}}],
}


@dataclass(frozen=True)
class Plan:
    """`points` in so many `namespaces`, of which the `queries` search one, `rounds` times for each value."""

    points: int = POINTS
    namespaces: int = 1
    queries: int = 300
    rounds: int = 5


def figures(plan: Plan, cache: Path, index: Path | None) -> dict[str, Any]:
    """Recall at DEPTH and time by `hnsw_ef`, the time also as a ratio to that of no `hnsw_ef` in the same rounds.

    `cache` is for the model, `index` keeps the index for the next time.
    """
    with ExitStack() as stack:
        directory = index if index is not None else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        engine = stack.enter_context(Engine(directory))
        return asyncio.run(_measured(engine, MiniLM(cache), plan))


def passages(points: int) -> list[str]:
    """So many passages of the corpus, overlapping, in the same order each time; fewer if it has fewer."""
    found = dict.fromkeys(
        " ".join(words[start : start + _LENGTH])
        for words in _words()
        for start in range(0, max(1, len(words) - _STEP), _STEP)
    )
    return random.Random(1).sample(list(found), min(points, len(found)))


def questions(count: int) -> list[str]:
    """A few words in a row from anywhere in the corpus, as a person would type them."""
    choice = random.Random(2)
    words = [each for each in _words() if len(each) > _QUERY]
    starts = ((text, choice.randrange(len(text) - _QUERY)) for text in choice.choices(words, k=count))
    return [" ".join(text[start : start + _QUERY]) for text, start in starts]


def recall(found: Sequence[str], exact: Sequence[str]) -> float:
    """The share of the exact hits that were found."""
    return len({*found} & {*exact}) / len(exact)


def _words() -> Iterator[list[str]]:
    return (f"{event['title']} {event['text']}".split() for event in docstrings())


async def _measured(engine: Engine, model: MiniLM, plan: Plan) -> dict[str, Any]:
    client = EngineClient(engine)
    await _filled(client, engine, model, passages(plan.points), plan.namespaces)
    vectors = [each.vector for each in await model.embed(questions(plan.queries), purpose="query", timeout=_TIMEOUT)]
    exact = [(await _search(client, vector, {"exact": True}))[0] for vector in vectors]
    shares: dict[int | None, list[float]] = {value: [] for value in VALUES}
    times: dict[int | None, list[float]] = {value: [] for value in VALUES}
    for _ in range(plan.rounds):
        for value in VALUES:
            params = {} if value is None else {"hnsw_ef": value}
            outcomes = [await _search(client, vector, params) for vector in vectors]
            shares[value] += [recall(ids, known) for (ids, _), known in zip(outcomes, exact, strict=True)]
            times[value].append(statistics.median(took for _, took in outcomes))
    info = await client.collection_info(_COLLECTION, timeout=_TIMEOUT)
    await model.aclose()
    return {
        **asdict(plan),
        "points": info.points,
        "depth": DEPTH,
        "rows": [_row(value, shares[value], times) for value in VALUES],
    }


def _row(value: int | None, shares: Sequence[float], times: Mapping[int | None, Sequence[float]]) -> dict[str, Any]:
    ratios = [took / base for took, base in zip(times[value], times[None], strict=True)]
    return {
        "hnsw_ef": value,
        "recall": statistics.fmean(shares),
        "worst_tenth": sorted(shares)[len(shares) // 10],
        "ms": 1000 * statistics.median(times[value]),
        "ratio": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios), "rounds": ratios},
    }


async def _filled(client: QdrantClient, engine: Engine, model: MiniLM, texts: Sequence[str], namespaces: int) -> None:
    """Index the texts, unless that was done; the engine builds its index when it is told to."""
    # The path is not read here: the engine is open already.
    settings = QdrantSettings(path=Path("unused"), vectors=Vectors(tokens=None))
    await ensure(client, settings, _TIMEOUT)
    if (await client.collection_info(_COLLECTION, timeout=_TIMEOUT)).points != len(texts):
        for start in range(0, len(texts), _BATCH):
            some = texts[start : start + _BATCH]
            embeddings = await model.embed(some, purpose="document", timeout=_TIMEOUT)
            written = [
                {
                    "id": parse_point_id(str(start + offset)),
                    "vector": {settings.vectors.dense: embedding.vector},
                    "payload": {NAMESPACE: f"{_OWN}{(start + offset) % namespaces}"},
                }
                for offset, embedding in enumerate(embeddings)
            ]
            await client.upsert(_COLLECTION, written, timeout=_TIMEOUT)
    engine.collection(_COLLECTION).run(lambda shard: shard.optimize())


async def _search(client: QdrantClient, vector: Any, params: Mapping[str, Any]) -> tuple[list[str], float]:
    body = {"query": vector, "using": "dense", "filter": _FILTER, "limit": DEPTH, "params": params}
    began = time.perf_counter()
    (hits,) = await client.query_batch(_COLLECTION, [body], timeout=_TIMEOUT)
    took = time.perf_counter() - began
    if not isinstance(hits, Hits):
        raise hits
    return list(hits.ids), took
