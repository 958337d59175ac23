"""Similarity: recipes that compare candidates get the vectors of the first ones, and others cost no call."""

import asyncio
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant_edge.engine import EngineClient
from operators.clients.qdrant_edge.shards import Engine
from operators.collections.making import ensure
from operators.query.in_flight import InFlight
from operators.ranking.candidate import Candidate
from operators.ranking.pipeline import Ranked
from operators.runtime.dispatcher import Bounds
from operators.stages.fetch import Comparing
from operators.stages.rerank import rank
from schemas.errors import BackendUnavailable, Reason
from schemas.recipes import SHIPPED, Recipe
from schemas.settings import QdrantSettings
from tests.operators.ranking.pools import run
from tests.operators.samples import DIMENSION, query

NOBODY: Any = None
BATCH_KEY = "similarity", "documents"
IDS = [str(uuid.UUID(int=number)) for number in range(4)]


def comparing(client: QdrantClient = NOBODY) -> Comparing:
    """The stage."""
    return Comparing(client, "dense", Bounds(1, 1, 1))


def asked(recipe: Recipe = SHIPPED["documents"], ids: list[str] = IDS) -> InFlight:
    """A query of that recipe, with these candidates."""
    given = query()
    given.asked = replace(given.asked, plan=replace(given.asked.plan, recipe=recipe))
    candidates = [Candidate(id_, 1.0 - place / 10, {"id": id_}) for place, id_ in enumerate(ids)]
    given.outcome.rank(Ranked(candidates, run()))
    return given


@pytest.fixture
def client(tmp_path: Path) -> Iterator[QdrantClient]:
    """Qdrant's engine with all but the last of the points; the vector of the third is long."""
    with Engine(tmp_path) as engine:
        of = EngineClient(engine)
        vectors = [[number + 1.0, *[0.0] * (DIMENSION - 2), 1.0] for number in range(3)]
        vectors[2] = [1e6 * component for component in vectors[2]]
        points = [
            {"id": id_, "vector": {"dense": vector}, "payload": {}} for id_, vector in zip(IDS, vectors, strict=False)
        ]

        async def filled() -> None:
            await ensure(of, QdrantSettings(path=tmp_path, dimension=DIMENSION), 10)
            await of.upsert("documents", points, timeout=10)

        asyncio.run(filled())
        yield of


async def test_the_vectors_are_read(client: QdrantClient) -> None:
    """Each that is there, as a unit vector of 16 bits however long it is; several queries share a request."""
    stage = comparing(client)
    first, second = await stage.call(BATCH_KEY, [IDS, IDS[:1]], 10.0)
    assert list(first) == IDS[:3]
    assert list(second) == IDS[:1]
    for number, id_ in enumerate(IDS[:3], 1):
        length = (number**2 + 1) ** 0.5
        assert first[id_].dtype == np.float16
        assert first[id_].tolist() == pytest.approx([number / length, *[0] * (DIMENSION - 2), 1 / length], abs=1e-3)


def test_only_the_first_candidates_are_asked_for() -> None:
    """As many as the recipe's stages compare at most."""
    few = Recipe.parse("few", {"stages": ["score", {"feedback": {"candidates": 2}}, {"smoothing": {"candidates": 3}}]})
    assert comparing().ask(asked(few)) == (BATCH_KEY, IDS[:3])
    assert comparing().ask(asked()) == (BATCH_KEY, IDS)


@pytest.mark.parametrize("given", [asked(SHIPPED["hybrid"]), asked(ids=IDS[:1]), asked(ids=[])])
def test_nothing_is_asked_where_nothing_is_compared(given: InFlight) -> None:
    """Neither for a recipe without such a stage, nor for a candidate alone."""
    assert comparing().ask(given) is None


def test_without_the_vectors_the_order_before_stays() -> None:
    """The answer says that the similarity is lost, and the stages that need it pass the candidates on."""
    given = asked()
    comparing().on_result(given, BackendUnavailable("down"))
    rank(given)
    assert given.outcome.degraded == [("similarity", Reason.UNAVAILABLE)]
    assert [candidate.id for candidate in given.outcome.candidates] == IDS


def test_with_the_vectors_the_order_is_another() -> None:
    """A candidate like the best one comes before one that is not."""
    given = asked(ids=IDS[:3])
    vectors = {IDS[0]: [1, 0], IDS[1]: [-1, 0.1], IDS[2]: [1, 0.1]}
    arrays = {id_: np.array(vector, np.float16) for id_, vector in vectors.items()}
    comparing().on_result(given, arrays)
    rank(given)
    assert [candidate.id for candidate in given.outcome.candidates] == [IDS[0], IDS[2], IDS[1]]
