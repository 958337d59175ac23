"""The collection that documents are indexed into: its vectors, its payload indexes, and how its terms are made."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import structlog
from qdrant_client.http import models

from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant.collections.analysers import OURS, Purposes, metadata
from operators.clients.qdrant.collections.generations import Choice, generation_of, settings_of
from operators.indexing.inspection import Difference, Step, Wanted, additions, creation
from operators.indexing.suitability import BY_KEY, UNKEYED, vectors
from operators.indexing.survey import Surveyed, survey
from schemas.document import (
    COLUMNS,
    CREATED,
    EXPIRES,
    GROUP,
    INDEXED,
    LEFT,
    NAMESPACE,
    NEIGHBOURS,
    ORDER,
    PATCHED,
    TIMES,
    TOKEN_IDS,
    VERSION,
    WHOLE_TITLE,
    text_key,
    words_key,
)
from schemas.errors import BackendBadResponse, ConfigError
from schemas.settings import QdrantSettings
from schemas.settings.qdrant import CreateSettings

if TYPE_CHECKING:
    from operators.clients.qdrant.client import IndexSchema

log = structlog.stdlib.get_logger(__name__)

OTHERS: Final = (
    "qdrant.fields, ids, namespaces and vectors describe collections that another tool filled: no document is written"
    " to them. Leave these keys out of the indexing flow's configuration"
)

WAYS_OUT: Final = (
    "If no other program writes to it, add it to qdrant.owned; otherwise let qdrant.destinations and"
    " qdrant.collections name a collection that does not exist, which is then created."
)
"""The remedy of an operator for a collection that isn't rankstream's own."""

OTHER_SETTINGS: Final = (
    "rankstream reindex made it with other settings, and no document is written to it with these. Run rankstream"
    " reindex with this configuration, or use the configuration that it was made with."
)

_SEVERAL: Final = (
    "The configured Qdrant collections were made by several runs of rankstream reindex, and their documents are read"
    " from different offsets. Run rankstream reindex with this configuration."
)

_ANY: Final = Choice()

Noted = Callable[[str], Mapping[str, Any]]
"""Further entries of a new collection's metadata."""

_CONFLICT: Final = 409

_CONFIGURED: Final[Mapping[str, "IndexSchema"]] = {
    "keyword": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, prefix=True),
    "integer": models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER),
    "float": models.FloatIndexParams(type=models.FloatIndexType.FLOAT),
    "bool": models.BoolIndexParams(type=models.BoolIndexType.BOOL),
    "datetime": models.DatetimeIndexParams(type=models.DatetimeIndexType.DATETIME),
}
"""The configuration's names of indexes."""

# The copy is what searches read first: it stays in memory where the vectors are read from disk.
_QUANTIZATIONS: Final[Mapping[str, models.QuantizationConfig]] = {
    "scalar": models.ScalarQuantization(
        scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
    ),
    "binary": models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True)),
    "turbo": models.TurboQuantization(turbo=models.TurboQuantQuantizationConfig(always_ram=True)),
}


def configuration(settings: QdrantSettings) -> models.CreateCollection:
    """Cosine vectors, BM25 with IDF, and token vectors that are only ever compared with chosen candidates."""
    names, create, needed = settings.vectors, settings.create, vectors(settings)
    made = {
        name: models.VectorParams(
            **needed.vectors[name],
            on_disk=create.on_disk,
            hnsw_config=_hnsw(create),
            quantization_config=_QUANTIZATIONS.get(create.quantization),
        )
        for name in (names.dense, *needed.vectors.keys() & {names.dense_context})
    }
    if names.tokens is not None:
        made[names.tokens] = models.VectorParams(
            **needed.vectors[names.tokens],
            hnsw_config=models.HnswConfigDiff(m=0),
            datatype=models.Datatype(names.tokens_datatype),
            on_disk=create.on_disk,
        )
    sparse = {name: models.SparseVectorParams(**params) for name, params in needed.sparse_vectors.items()}
    return models.CreateCollection(
        vectors=made,
        sparse_vectors=sparse,
        shard_number=create.shards,
        replication_factor=create.replication_factor,
        write_consistency_factor=create.write_consistency_factor,
        on_disk_payload=create.on_disk_payload,
    )


def _hnsw(create: CreateSettings) -> models.HnswConfigDiff | None:
    if create.m is None and create.ef_construct is None:
        return None
    return models.HnswConfigDiff(m=create.m, ef_construct=create.ef_construct)


def indexes(columns: Iterable[str] = COLUMNS) -> dict[str, "IndexSchema"]:
    """The payload indexes that filters, ordered lookups, counts, and keyword expressions over these columns need."""
    columns = tuple(columns)
    return {
        NAMESPACE: _tenant(),
        VERSION: models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER),
        CREATED: models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER),
        EXPIRES: models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=False, range=True),
        PATCHED: models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=True, range=False),
        TOKEN_IDS: models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=True, range=False),
        **{field: _datetime() for field in TIMES},
        # Queries may filter by how a value begins.
        **{field: _keyword(prefix=True) for field in sorted(INDEXED - {NAMESPACE, *TIMES, *COLUMNS})},
        WHOLE_TITLE: _keyword(prefix=True),
        **{text_key(column): _text() for column in columns},
        **{words_key(column): _keyword(prefix=True) for column in columns},
    }


def context_indexes() -> dict[str, "IndexSchema"]:
    """The payload indexes by which the indexing flow finds the neighbours of a document."""
    order = models.FloatIndexParams(type=models.FloatIndexType.FLOAT)
    return {GROUP: _keyword(), ORDER: order, NEIGHBOURS: _keyword(), LEFT: _keyword()}


def needs(settings: QdrantSettings) -> Wanted:
    """The needs of rankstream by collection; in another tool's, by its names, the fields that all queries filter by."""
    schemas = _schemas(settings).items()
    indexed = {field: schema.model_dump(mode="json", exclude_none=True) for field, schema in schemas}
    return replace(vectors(settings), indexes=indexed)


def _schemas(settings: QdrantSettings) -> dict[str, "IndexSchema"]:
    configured = {settings.payload_path(field): _CONFIGURED[kind] for field, kind in settings.indexes.items()}
    if not settings.of_another_tool:
        return configured | indexes(settings.search_fields) | (context_indexes() if settings.context.on else {})
    return configured if settings.namespaces == "none" else configured | {settings.payload_path(NAMESPACE): _tenant()}


def _tenant() -> models.KeywordIndexParams:
    return models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)


def _keyword(*, prefix: bool | None = None) -> models.KeywordIndexParams:
    return models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, prefix=prefix)


def _datetime() -> models.DatetimeIndexParams:
    return models.DatetimeIndexParams(type=models.DatetimeIndexType.DATETIME)


def _text() -> models.TextIndexParams:
    """Words as they are, in lower case, whatever the language: an expression is taken literally."""
    return models.TextIndexParams(
        type=models.TextIndexType.TEXT,
        tokenizer=models.TokenizerType.WORD,
        lowercase=True,
        phrase_matching=True,
    )


@dataclass(frozen=True, slots=True)
class Ensured:
    """The collections that were created, and those of other programs, which were left alone.

    `group` is the consumer group that the others note for the offsets of their documents; None: they note none.
    """

    created: list[str]
    foreign: list[str]
    group: str | None = None


async def ensure(
    qdrant: QdrantClient,
    settings: QdrantSettings,
    timeout: float,
    *,
    writes: bool = True,
    purposes: Purposes | None = None,
    model: str | None = None,
    choice: Choice = _ANY,
    noted: Noted = lambda _: {},
) -> Ensured:
    """Create the collections that don't exist, and the indexes that rankstream's own collections lack.

    A collection keeps the parameters of its analyser as metadata, by which its terms are made later, `purposes` and
    `model`, the embedder's prompts and its name, and what `noted` has for it. The creation of one that exists may have
    been stopped before the last index. `writes`: documents will be written to each collection, so one of another
    program is refused; else it is left alone. Raises ConfigError for that and for whatever is there and isn't as
    documents need it, all of it at once and before anything is made. Raises BackendError.
    """
    if settings.of_another_tool:
        if writes:
            raise ConfigError(OTHERS)
        return Ensured([], settings.physical)
    needed = needs(settings)
    surveyed = await survey(qdrant, settings, needed, timeout, choice)
    for each in surveyed:
        if each.error is not None:
            raise each.error
    problems = [problem for each in surveyed for problem in _problems(each, choice, writes=writes)]
    groups = sorted({generation.group for each in surveyed if (generation := generation_of(each.info)) is not None})
    if writes and len(groups) > 1:
        problems.append(_SEVERAL)
    if problems:
        raise ConfigError("\n".join(problems))
    for step in steps(surveyed, needed, create=True, add=True, foreign=False):
        await take(qdrant, settings, step, timeout, purposes, model, noted)
    absent = [each.name for each in surveyed if each.info is None]
    return Ensured(absent, [each.name for each in surveyed if each.foreign], next(iter(groups), None))


def steps(surveyed: Sequence[Surveyed], needed: Wanted, *, create: bool, add: bool, foreign: bool) -> list[Step]:
    """The steps to do: make collections that don't exist, and missing indexes of the others, `foreign` ones too."""
    made: list[Step] = []
    for each in surveyed:
        if each.lack is not None:
            if add and (foreign or not each.foreign):
                made += additions(each.physical, each.lack.missing)
        elif create and each.error is None:
            made += creation(each.name, needed)
    return made


async def take(
    qdrant: QdrantClient,
    settings: QdrantSettings,
    step: Step,
    timeout: float,
    purposes: Purposes | None = None,
    model: str | None = None,
    noted: Noted = lambda _: {},
) -> None:
    """Make a collection or an index, within `timeout` seconds; raises BackendError."""
    if step.field is not None:
        if step.collection not in qdrant.limits:
            await qdrant.collection_info(step.collection, timeout=timeout)
        await qdrant.create_index(step.collection, step.field, _schemas(settings)[step.field], timeout=timeout)
        return
    made = metadata(settings.analyser(step.collection), purposes, settings.search_fields, model)
    made[OURS] |= noted(step.collection)
    try:
        created = configuration(settings).model_copy(update={"metadata": made})
        await qdrant.create_collection(step.collection, created, timeout=timeout)
    except BackendBadResponse as error:
        # Another replica was faster.
        if error.status != _CONFLICT:
            raise


def _problems(surveyed: Surveyed, choice: Choice, *, writes: bool) -> Iterator[str]:
    where = f"Qdrant collection {surveyed.name}"
    if surveyed.foreign:
        if writes:
            yield f"{where}: it is not rankstream's own, and no document is written to it. {WAYS_OUT}"
        return
    if writes and surveyed.info is not None and surveyed.info.by_key:
        yield f"{where}: {BY_KEY}. {UNKEYED}"
    own = choice.settings(surveyed.name)
    if writes and generation_of(surveyed.info) is not None and own not in {None, settings_of(surveyed.info)}:
        yield f"Qdrant collection {surveyed.physical}: {OTHER_SETTINGS}"
    for difference in surveyed.lack.differences if surveyed.lack is not None else ():
        if difference.mild:
            log.warning("collection is not as it should be", collection=surveyed.name, difference=difference.what)
        else:
            yield f"{where}: {difference.what}. {remedy(surveyed.name, difference)}"


def remedy(collection: str, difference: Difference) -> str:
    """The remedy of an operator for a difference in a collection of rankstream's own."""
    if difference.field is None:
        return "Correct qdrant.dimension or qdrant.vectors, or name another collection, which is then created."
    path = f"/collections/{quote(collection, safe='')}/index/{quote(difference.field, safe='')}"
    own = indexes() | context_indexes()
    configured = "" if difference.field in own else "Correct qdrant.indexes, or make the index again: "
    first = "delete" if configured else "Delete"
    return f"{configured}{first} it (DELETE {path}), then run rankstream collections --add-indexes."
