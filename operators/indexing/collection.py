"""The collection that documents are indexed into: its vectors, its payload indexes, and how its terms are made."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qdrant_client.http import models

from operators.clients.qdrant.analysers import OURS, metadata
from operators.clients.qdrant.answers import CollectionInfo
from operators.clients.qdrant.client import QdrantClient
from operators.indexing.inspection import Inspection, inspect
from schemas.document import (
    COLUMNS,
    CREATED,
    INDEXED,
    NAMESPACE,
    TERMS,
    TIMES,
    TOKEN_IDS,
    VERSION,
    WHOLE_TITLE,
    WORDS,
)
from schemas.errors import BackendBadResponse, BackendError, ConfigError
from schemas.settings import QdrantSettings

if TYPE_CHECKING:
    from operators.clients.qdrant.client import IndexSchema

_CONFLICT: Final = 409
_NOT_FOUND: Final = 404

REMEDY: Final = (
    "Delete the index and run `rankstream collections --add-indexes`, or use a new collection and index all documents"
)
"""What to do about an index that is there and differs: nothing changes one in place."""

_CONFIGURED: Final[Mapping[str, "IndexSchema"]] = {
    "keyword": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, prefix=True),
    "integer": models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER),
    "float": models.FloatIndexParams(type=models.FloatIndexType.FLOAT),
    "bool": models.BoolIndexParams(type=models.BoolIndexType.BOOL),
    "datetime": models.DatetimeIndexParams(type=models.DatetimeIndexType.DATETIME),
}
"""What the configuration calls an index."""

_QUANTIZATION: Final[Mapping[str, models.QuantizationConfig]] = {
    # Kept in memory, for that is what it is for, wherever the vectors are.
    "scalar": models.ScalarQuantization(
        scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
    ),
    "turbo": models.TurboQuantization(
        turbo=models.TurboQuantQuantizationConfig(bits=models.TurboQuantBitSize.BITS4, always_ram=True)
    ),
    "binary": models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True)),
}
"""What the configuration calls a quantization."""


def configuration(settings: QdrantSettings) -> models.CreateCollection:
    """A cosine vector, BM25 with IDF, and token vectors that are only ever compared with chosen candidates."""
    names, create = settings.vectors, settings.create
    graph = create.hnsw.model_dump(exclude_none=True)
    vectors = {
        names.dense: models.VectorParams(
            size=settings.dimension,
            distance=models.Distance.COSINE,
            hnsw_config=models.HnswConfigDiff(**graph) if graph else None,
            quantization_config=None if create.quantization is None else _QUANTIZATION[create.quantization],
            on_disk=create.on_disk_vectors,
        )
    }
    if names.tokens is not None:
        vectors[names.tokens] = models.VectorParams(
            size=settings.dimension,
            distance=models.Distance.DOT,
            multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
            hnsw_config=models.HnswConfigDiff(m=0),
            datatype=models.Datatype(names.tokens_datatype),
            on_disk=create.on_disk_vectors,
        )
    sparse = {names.sparse: models.SparseVectorParams(modifier=models.Modifier.IDF)}
    return models.CreateCollection(
        vectors=vectors,
        sparse_vectors=sparse,
        shard_number=create.shards,
        replication_factor=create.replication_factor,
        write_consistency_factor=create.write_consistency_factor,
        on_disk_payload=create.on_disk_payload,
    )


def indexes() -> dict[str, "IndexSchema"]:
    """The payload indexes that filters, ordered lookups and counts need."""
    return {
        NAMESPACE: models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
        VERSION: models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER),
        CREATED: models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER),
        TOKEN_IDS: models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=True, range=False),
        # Empty, and so without cost, where the collection has one shard.
        TERMS: models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=True, range=False),
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


def wanted(settings: QdrantSettings) -> dict[str, "IndexSchema"]:
    """Every payload index that the configuration wants, by field."""
    return {field: _CONFIGURED[kind] for field, kind in settings.indexes.items()} | indexes()


def compared(settings: QdrantSettings, info: CollectionInfo) -> Inspection:
    """What a collection lacks of the configuration, its token vectors apart: without them late interaction is off."""
    names = settings.vectors
    schemas = {field: schema.model_dump(mode="json", exclude_none=True) for field, schema in wanted(settings).items()}
    dense = {names.dense: {"size": settings.dimension, "distance": models.Distance.COSINE.value}}
    return inspect(info, schemas, dense, names.sparse)


def ours(settings: QdrantSettings, collection: str, info: CollectionInfo) -> bool:
    """Whether rankstream may write to a collection: it created it, or the configuration says so."""
    return OURS in info.metadata or collection in settings.owned


@dataclass(frozen=True, slots=True)
class Held:
    """The configured collections: those that were created now, those that are not ours, and the indexes added."""

    created: list[str]
    foreign: list[str]
    added: dict[str, list[str]]


async def ensure(qdrant: QdrantClient, settings: QdrantSettings, timeout: float) -> Held:
    """Create the collections that don't exist, with their indexes, and the indexes that those of ours lack.

    A collection keeps the parameters of its analyser as metadata, by which its terms are made later, and which say that
    it is rankstream's. Nothing is created in a collection that is not. Raises BackendError, and ConfigError, before
    anything is created, for what differs in a collection of ours from what it must be.
    """
    described = {collection: await described_by(qdrant, collection, timeout) for collection in settings.held}
    own = {name: info for name, info in described.items() if info is not None and ours(settings, name, info)}
    lacking = {name: compared(settings, info) for name, info in own.items()}
    if wrong := [f"{name}: {each}" for name, found in lacking.items() for each in found.differences if each.grave]:
        raise ConfigError("Qdrant collections that do not fit: " + "; ".join(wrong) + f". {REMEDY}")
    for name, found in lacking.items():
        await add(qdrant, settings, name, found.missing, timeout)
    missing = [name for name, info in described.items() if info is None]
    created = [name for name in missing if await create(qdrant, settings, name, timeout)]
    foreign = [name for name, info in described.items() if info is not None and name not in own]
    return Held(created, foreign, {name: [*found.missing] for name, found in lacking.items() if found.missing})


async def described_by(qdrant: QdrantClient, collection: str, timeout: float) -> CollectionInfo | None:
    """What Qdrant says of a collection, None if it isn't there. Raises BackendError."""
    try:
        return await qdrant.collection_info(collection, timeout=timeout)
    except BackendError as error:
        if error.status != _NOT_FOUND:
            raise
        return None


async def create(qdrant: QdrantClient, settings: QdrantSettings, collection: str, timeout: float) -> bool:
    """Create a collection with all its indexes; whether it was not there. Raises BackendError."""
    created = True
    try:
        noted = configuration(settings).model_copy(update={"metadata": metadata(settings.analyser(collection))})
        await qdrant.create_collection(collection, noted, timeout=timeout)
    except BackendBadResponse as error:
        # Another replica was faster.
        if error.status != _CONFLICT:
            raise
        created = False
    await add(qdrant, settings, collection, wanted(settings), timeout)
    return created


async def add(
    qdrant: QdrantClient, settings: QdrantSettings, collection: str, fields: Iterable[str], timeout: float
) -> None:
    """Create the indexes of these fields. Raises BackendError."""
    schemas = wanted(settings)
    for field in fields:
        await qdrant.create_index(collection, field, schemas[field], timeout=timeout)
