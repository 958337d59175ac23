"""Late interaction with the real model: indexed by the indexer, counted and searched by the engine."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from operators.clients.local.minilm import MiniLM
from operators.clients.qdrant_edge.shards import Engine
from operators.clients.rerankers import RerankRequest
from operators.clients.rerankers.late_interaction import LateInteraction
from operators.clients.rerankers.token_idf import TokenIdf
from operators.clients.rerankers.token_vectors import TokenVectors
from operators.collections.analysers import Bm25
from operators.indexing.point import point
from operators.query.backend_answers import Embedding, SomeScores
from schemas.errors import NoTokenVectors
from schemas.settings.qdrant import Vectors
from tests.operators.clients.rerankers.token_index import Index, idf, max_sim
from tests.operators.indexing.documents import document

pytestmark = pytest.mark.weights

TEXTS = (
    "The keeper of the lighthouse lit the lantern at dusk.",
    "The ferry was late, and the passengers waited in the rain.",
    "A lantern needs oil, a wick and somebody who trims it.",
    "She sold the boat in March and never went to sea again.",
    "The council met on Tuesday to discuss the harbour.",
    "",
)
QUERY = "who lit the lantern at the lighthouse"


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> MiniLM:
    """The model, with the graph built from the installed weights."""
    return MiniLM(tmp_path_factory.mktemp("minilm"))


async def answers(path: Path, minilm: MiniLM) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """The scores of the points that the indexer would write, and of the same texts in no index, weighted alike."""
    with Engine(path) as engine:
        index = Index(engine)
        await index.create()
        made = [document(id=str(number), text=text or None, title="Log") for number, text in enumerate(TEXTS)]
        embeddings = await minilm.embed([each.event.content for each in made], purpose="document", timeout=60)
        for each, embedding in zip(made, embeddings, strict=True):
            each.embedding = embedding
        await index.client.upsert("docs", [point(each, Vectors(), Bm25()) for each in made], timeout=60)
        (asked,) = await minilm.embed([QUERY], purpose="query", timeout=60)
        texts = {each.point_id: each.event.content for each in made}
        query = RerankRequest(QUERY, texts, "docs", "public", asked)
        weigher, vectors = TokenIdf(index.client), TokenVectors(minilm)
        (stored,) = await LateInteraction(index.client, "m", idf=weigher).score([query], timeout=60)
        reranker = LateInteraction(index.client, "m", using=None, idf=weigher, on_the_fly=vectors)
        (computed,) = await reranker.score([query], timeout=60)
        assert isinstance(stored, dict)
        assert isinstance(computed, dict)
        return stored, computed


def by_hand(query: Embedding, documents: Sequence[Embedding]) -> list[float]:
    """The definition, from the model's own vectors."""
    weights = idf((each.token_ids for each in documents), query.token_ids)
    assert query.tokens is not None
    return [max_sim(query.tokens, weights, each.tokens) for each in documents if each.tokens is not None]


async def test_stored_computed_and_defined_scores_agree(tmp_path: Path, minilm: MiniLM) -> None:
    """The index's counts and vectors, and the embedder's at query time, both give what the formula gives."""
    stored, computed = await answers(tmp_path, minilm)
    query, *documents = minilm.encode([QUERY, *("\n".join(filter(None, ("Log", text))) for text in TEXTS)])
    points = [document(id=str(number)).point_id for number in range(len(TEXTS))]
    expected = dict(zip(points, by_hand(query, documents), strict=True))
    assert stored == pytest.approx(expected, abs=1e-4)
    assert computed == pytest.approx(expected, abs=1e-3)
    order = sorted(expected, key=expected.__getitem__, reverse=True)
    assert order[:2] == [points[0], points[2]]
    assert np.ptp(list(expected.values())) > 0.1


@pytest.mark.parametrize("text", ["\u200b\u200b", "\u0301", "\ufe0f", "\x00", "\ufffd", ""])
@pytest.mark.parametrize("on_the_fly", [False, True])
async def test_a_document_without_a_token_has_no_score(
    tmp_path: Path, minilm: MiniLM, text: str, on_the_fly: bool
) -> None:
    """The others have the same as without it; one whose text has a token is missed unless it is computed."""
    with Engine(tmp_path) as engine:
        index = Index(engine)
        await index.create()
        made = [document(id=str(number), text=each) for number, each in enumerate(TEXTS[:2])]
        embeddings = await minilm.embed(TEXTS[:2], purpose="document", timeout=60)
        for each, embedding in zip(made, embeddings, strict=True):
            each.embedding = embedding
        await index.client.upsert("docs", [point(each, Vectors(), Bm25()) for each in made], timeout=60)
        (asked,) = await minilm.embed([QUERY], purpose="query", timeout=60)
        texts = {each.point_id: each.event.content for each in made}
        reranker = LateInteraction(
            index.client, "m", on_the_fly=TokenVectors(minilm) if on_the_fly else None, has_token=minilm.has_token
        )
        blank, missed = document(id="blank").point_id, document(id="missed").point_id
        queries = [
            RerankRequest(QUERY, documents, "docs", "public", asked)
            for documents in (texts, {**texts, blank: text}, {**texts, blank: text, missed: TEXTS[2]})
        ]
        without, (found,), (lacking,) = [await reranker.score([each], timeout=60) for each in queries]
        assert [found] == without
        assert isinstance(found, SomeScores)
        assert found.refused == {blank}
        assert isinstance(lacking, NoTokenVectors) or on_the_fly
