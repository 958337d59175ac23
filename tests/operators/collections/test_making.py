"""The collection as Qdrant takes it: what the index on pieces is for, and what payloads come back."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs

from operators.clients.qdrant.client import QdrantClient, all_but
from operators.clients.qdrant_edge.engine import EngineClient
from operators.clients.qdrant_edge.shards import Engine
from operators.collections.analysers import Bm25
from operators.collections.making import configuration, ensure
from operators.collections.notes import collection_metadata
from operators.collections.requirements import indexes
from operators.indexing.document import DocumentInFlight
from operators.indexing.point import payload, point
from operators.query.backend_answers import Embedding
from schemas.document import ACTOR_TYPE, CLASSIFICATION, LABELS, MARKS, NAMESPACE, SUBJECT, TOKEN_IDS
from schemas.errors import ConfigError
from schemas.settings import QdrantSettings
from tests.operators.indexing.documents import document
from tests.operators.samples import DIMENSION

EXTRA = {"size": "integer", "price": "float", "done": "bool", "due": "datetime", "team": "keyword"}


def written(path: Path, documents: list[DocumentInFlight], ask: Any, **changes: Any) -> Any:
    """The outcome of `ask` with a client whose collection `documents` the indexer created and wrote to."""
    names = QdrantSettings(path=path, dimension=DIMENSION, **changes)

    async def scenario() -> Any:
        with Engine(path) as engine:
            client = EngineClient(engine)
            with capture_logs() as lines:
                assert (await ensure(client, names, 30)).created == ["documents"]
            made = [line["collection"] for line in lines if line["event"] == "collection created"]
            # A name that was written wrongly is seen in the log.
            assert made == ["documents"]
            points = [point(each, names.vectors, Bm25()) for each in documents]
            await client.upsert("documents", points, timeout=30)
            return await ask(client)

    return asyncio.run(scenario())


def embedded(token_ids: tuple[int, ...], **event: Any) -> DocumentInFlight:
    """A document whose embedder found these pieces."""
    made = document(**event)
    tokens = np.eye(len(token_ids), DIMENSION, dtype=np.float32)
    made.embedding = Embedding(tokens[0], tokens, token_ids)
    return made


def test_documents_are_counted_by_their_pieces(tmp_path: Path) -> None:
    """In one namespace, each document once a piece, without the help of the documents that have none."""
    documents = [
        embedded((7, 5, 7), id="a"),
        embedded((7,), id="b"),
        embedded((7,), id="c", namespace="other"),
        document(id="d", vector=[1.0, 0.0, 0.0]),
    ]
    own = {"must": [{"key": NAMESPACE, "match": {"value": "public"}}]}
    having = {**own, "must_not": [{"is_empty": {"key": TOKEN_IDS}}]}

    async def ask(client: QdrantClient) -> Any:
        facet = await client.facet("documents", TOKEN_IDS, own, limit=100, timeout=30)
        return facet.counts, await client.count("documents", having, timeout=30)

    assert written(tmp_path, documents, ask) == ({7: 2, 5: 1}, 2)


def test_a_collection_has_the_indexes_of_the_keyword_syntax_and_of_filters(tmp_path: Path) -> None:
    """Texts as they are written, with phrases; words with prefixes; fields by their values; and the configured ones."""

    async def ask(client: QdrantClient) -> Any:
        return (await client.collection_info("documents", timeout=30)).indexes

    made = {field: index["params"] for field, index in written(tmp_path, [document()], ask, indexes=EXTRA).items()}
    text = {"type": "text", "tokenizer": "word", "lowercase": True, "phrase_matching": True, "enable_hnsw": False}
    assert made["title"] == made["text"] == text
    prefixed = {"type": "keyword", "prefix": True}
    assert all(made[field] == prefixed for field in (SUBJECT, ACTOR_TYPE, CLASSIFICATION, LABELS, "team"))
    # No search by vector filters by them, or few documents have one value: the graph of the vectors needs no links.
    fields = ("_title_words", "_text_words", "id", "_title")
    assert all(made[field] == {**prefixed, "enable_hnsw": False} for field in fields)
    assert not any(made[field]["enable_hnsw"] for field in ("_version", "_created", "_patched", "_token_ids"))
    assert made["created_at"]["type"] == made["updated_at"]["type"] == "datetime"
    assert {field: made[field]["type"] for field in EXTRA} == EXTRA


def test_a_collection_that_exists_gets_the_configured_indexes_that_it_lacks(tmp_path: Path) -> None:
    """An index that is configured later is made then, and nothing is created anew."""

    async def ask(client: QdrantClient) -> Any:
        later = QdrantSettings(path=tmp_path, dimension=DIMENSION, indexes={"price": "float", "size": "float"})
        assert (await ensure(client, later, 30)).created == []
        return (await client.collection_info("documents", timeout=30)).indexes

    made = written(tmp_path, [document()], ask, indexes={"price": "float"})
    assert made["price"]["data_type"] == made["size"]["data_type"] == "float"


def test_a_collection_that_was_only_begun_is_finished(tmp_path: Path) -> None:
    """Whoever created it may have been stopped before the first index, or the last."""
    settings = QdrantSettings(path=tmp_path, dimension=DIMENSION)

    async def scenario() -> Any:
        with Engine(tmp_path) as engine:
            client = EngineClient(engine)
            ours = {**configuration(settings), "metadata": collection_metadata(settings.bm25)}
            await client.create_collection("documents", ours, timeout=30)
            await ensure(client, settings, 30)
            return (await client.collection_info("documents", timeout=30)).indexes

    assert asyncio.run(scenario()).keys() == indexes().keys()


def test_an_index_of_another_type_is_a_configuration_error(tmp_path: Path) -> None:
    """Qdrant would refuse each query that orders by the field."""

    async def ask(client: QdrantClient) -> Any:
        later = QdrantSettings(path=tmp_path, dimension=DIMENSION, indexes={"price": "integer"})
        with pytest.raises(ConfigError, match="documents: the index of price is of type float, and should be integer"):
            await ensure(client, later, 30)

    written(tmp_path, [document()], ask, indexes={"price": "float"})


def test_pieces_need_not_come_back(tmp_path: Path) -> None:
    """Payloads can be had whole but for them."""
    made = embedded((7, 5), author={"name": "x"})

    async def ask(client: QdrantClient) -> Any:
        every = await client.retrieve("documents", [made.point_id], True, timeout=30)
        return every, await client.retrieve("documents", [made.point_id], all_but([TOKEN_IDS]), timeout=30)

    every, rest = written(tmp_path, [made], ask)
    # Terms, and marks of them, are the collection's own.
    assert every == {made.point_id: {**payload(made), MARKS: every[made.point_id][MARKS]}}
    assert rest == {made.point_id: {name: value for name, value in every[made.point_id].items() if name != TOKEN_IDS}}
    assert payload(made)[TOKEN_IDS] == [5, 7]
