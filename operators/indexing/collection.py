"""The collection that documents are indexed into: its vectors and its payload indexes."""

from typing import TYPE_CHECKING, Final

from qdrant_client.http import models

from operators.clients.qdrant.client import QdrantClient
from schemas.document import CREATED, NAMESPACE, PIECES, TYPE, VERSION
from schemas.errors import BackendBadResponse
from schemas.settings import QdrantSettings

if TYPE_CHECKING:
    from operators.clients.qdrant.client import IndexSchema

_CONFLICT: Final = 409


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
            datatype=models.Datatype.FLOAT16,
        )
    sparse = {names.sparse: models.SparseVectorParams(modifier=models.Modifier.IDF)}
    return models.CreateCollection(vectors=vectors, sparse_vectors=sparse)


def indexes() -> dict[str, "IndexSchema"]:
    """The payload indexes that filters, ordered lookups and counts need."""
    return {
        NAMESPACE: models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
        VERSION: models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER),
        TYPE: models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD),
        CREATED: models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER),
        PIECES: models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=True, range=False),
    }


async def ensure(qdrant: QdrantClient, settings: QdrantSettings, timeout: float) -> list[str]:
    """Create the collections that don't exist, with their indexes; the names of those. Raises BackendError."""
    created = []
    for collection in dict.fromkeys(settings.destinations.values()):
        if await qdrant.exists(collection, timeout=timeout):
            continue
        try:
            await qdrant.create_collection(collection, configuration(settings), timeout=timeout)
        except BackendBadResponse as error:
            # Another replica was faster.
            if error.status != _CONFLICT:
                raise
        created.append(collection)
        for field, schema in indexes().items():
            await qdrant.create_index(collection, field, schema, timeout=timeout)
    return created
