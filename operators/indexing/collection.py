"""The collection that documents are indexed into: its vectors, its payload indexes, and how its terms are made."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from qdrant_client.http import models

from operators.clients.qdrant.analysers import metadata
from operators.clients.qdrant.client import QdrantClient
from schemas.document import (
    COLUMNS,
    CREATED,
    INDEXED,
    NAMESPACE,
    TIMES,
    TOKEN_IDS,
    VERSION,
    WHOLE_TITLE,
    WORDS,
)
from schemas.errors import BackendBadResponse, ConfigError
from schemas.settings import QdrantSettings

if TYPE_CHECKING:
    from operators.clients.qdrant.client import IndexSchema

_CONFLICT: Final = 409

_CONFIGURED: Final[Mapping[str, "IndexSchema"]] = {
    "keyword": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, prefix=True),
    "integer": models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER),
    "float": models.FloatIndexParams(type=models.FloatIndexType.FLOAT),
    "bool": models.BoolIndexParams(type=models.BoolIndexType.BOOL),
    "datetime": models.DatetimeIndexParams(type=models.DatetimeIndexType.DATETIME),
}
"""What the configuration calls an index."""


def configuration(settings: QdrantSettings) -> models.CreateCollection:
    """A cosine vector, BM25 with IDF, and token vectors that are only ever compared with chosen candidates."""
    names = settings.vectors
    vectors = {names.dense: models.VectorParams(size=settings.dimension, distance=models.Distance.COSINE)}
    if names.tokens is not None:
        vectors[names.tokens] = models.VectorParams(
            size=settings.dimension,
            distance=models.Distance.DOT,
            multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
            hnsw_config=models.HnswConfigDiff(m=0),
            datatype=models.Datatype(names.tokens_datatype),
        )
    sparse = {names.sparse: models.SparseVectorParams(modifier=models.Modifier.IDF)}
    return models.CreateCollection(vectors=vectors, sparse_vectors=sparse)


def indexes() -> dict[str, "IndexSchema"]:
    """The payload indexes that filters, ordered lookups and counts need."""
    return {
        NAMESPACE: models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
        VERSION: models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER),
        CREATED: models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER),
        TOKEN_IDS: models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=True, range=False),
        **{field: _datetime() for field in TIMES},
        # Queries may filter by how a value begins.
        **{field: _keyword(prefix=True) for field in sorted(INDEXED - {NAMESPACE, *TIMES, *COLUMNS})},
        WHOLE_TITLE: _keyword(prefix=True),
        **{column: _text() for column in COLUMNS},
        **{field: _keyword(prefix=True) for field in WORDS.values()},
    }


def _keyword(*, prefix: bool | None = None) -> models.KeywordIndexParams:
    return models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, prefix=prefix)


def _datetime() -> models.DatetimeIndexParams:
    return models.DatetimeIndexParams(type=models.DatetimeIndexType.DATETIME)


def _text() -> models.TextIndexParams:
    """Words as they are, in lower case, whatever the language: an expression means what it says."""
    return models.TextIndexParams(
        type=models.TextIndexType.TEXT,
        tokenizer=models.TokenizerType.WORD,
        lowercase=True,
        phrase_matching=True,
    )


async def ensure(qdrant: QdrantClient, settings: QdrantSettings, timeout: float) -> list[str]:
    """Create the collections that don't exist, with their indexes; the names of those.

    A collection keeps the parameters of its analyser as metadata, by which its terms are made later. One that exists
    gets the indexes that it lacks: its creation may have been stopped before the last one. Raises BackendError, and
    ConfigError if there is an index of another type.
    """
    created = []
    wanted = {field: _CONFIGURED[kind] for field, kind in settings.indexes.items()} | indexes()
    for collection in settings.held:
        if await qdrant.exists(collection, timeout=timeout):
            await _add(qdrant, collection, wanted, timeout)
            continue
        try:
            noted = configuration(settings).model_copy(update={"metadata": metadata(settings.analyser(collection))})
            await qdrant.create_collection(collection, noted, timeout=timeout)
        except BackendBadResponse as error:
            # Another replica was faster.
            if error.status != _CONFLICT:
                raise
        created.append(collection)
        for field, schema in wanted.items():
            await qdrant.create_index(collection, field, schema, timeout=timeout)
    return created


async def _add(qdrant: QdrantClient, collection: str, wanted: Mapping[str, "IndexSchema"], timeout: float) -> None:
    there = (await qdrant.collection_info(collection, timeout=timeout)).indexes
    for field, schema in wanted.items():
        if field not in there:
            await qdrant.create_index(collection, field, schema, timeout=timeout)
        elif (kind := there[field].get("data_type")) != schema.type.value:
            wrong = f"the index of {field} is of type {kind}, and should be {schema.type.value}"
            raise ConfigError(f"Qdrant collection {collection}: {wrong}")
