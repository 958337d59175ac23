"""The making of the collections that documents are indexed into, by their requirements."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import structlog
from qdrant_client.http import models

from operators.clients.qdrant.client import QdrantClient
from operators.collections.notes import collection_metadata, generation_of
from operators.collections.requirements import STORED, Requirement, Surveyed, format_schema, index_needs, vectors
from operators.collections.survey import ANY, Choice, survey
from schemas.errors import BackendBadResponse, ConfigError
from schemas.settings import QdrantSettings

log = structlog.stdlib.get_logger(__name__)

OTHERS: Final = (
    "qdrant.fields, ids, namespaces and vectors describe collections that another tool filled: no document is written"
    " to them. Leave these keys out of the indexing flow's configuration"
)

_SEVERAL: Final = (
    "The configured Qdrant collections were made by several runs of rankstream reindex, and their documents are read"
    " from different offsets. Run rankstream reindex with this configuration."
)

Notes = Callable[[str], Mapping[str, Any]]
"""The metadata of a new collection, by its name."""


# The copy is what searches read first: it stays in memory where the vectors are read from disk.
_QUANTIZATIONS: Final[Mapping[str, models.QuantizationConfig]] = {
    "scalar": models.ScalarQuantization(
        scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
    ),
    "binary": models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True)),
    "turbo": models.TurboQuantization(turbo=models.TurboQuantQuantizationConfig(always_ram=True)),
}


class MakingStep(NamedTuple):
    """One thing to make in a collection: an index, or, without a `need`, the collection itself."""

    collection: str
    need: Requirement | None = None

    def __str__(self) -> str:
        if self.need is None:
            return f"collection {self.collection}"
        return f"index {self.need.name} ({format_schema(self.need.wanted)}) in collection {self.collection}"


def configuration(settings: QdrantSettings) -> dict[str, Any]:
    """Cosine vectors, BM25 with IDF, and token vectors that are only ever compared with chosen candidates."""
    create, needs = settings.create, vectors(settings)
    sized = create.m is not None or create.ef_construct is not None
    hnsw = models.HnswConfigDiff(m=create.m, ef_construct=create.ef_construct) if sized else None
    searched = {"hnsw_config": hnsw, "quantization_config": _QUANTIZATIONS.get(create.quantization)}
    tokens = {"hnsw_config": models.HnswConfigDiff(m=0), "datatype": models.Datatype(settings.vectors.tokens_datatype)}
    created = models.CreateCollection(
        vectors={
            each.name: models.VectorParams(
                **each.wanted, on_disk=create.on_disk, **(tokens if each.kind == "tokens" else searched)
            )
            for each in needs
            if "size" in each.wanted
        },
        sparse_vectors={
            each.name: models.SparseVectorParams(**each.wanted) for each in needs if "size" not in each.wanted
        },
        shard_number=create.shards,
        replication_factor=create.replication_factor,
        write_consistency_factor=create.write_consistency_factor,
        on_disk_payload=create.on_disk_payload,
    )
    return created.model_dump(mode="json", exclude_none=True)


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
    choice: Choice = ANY,
    notes: Notes | None = None,
    *,
    writes: bool = True,
) -> Ensured:
    """Create the collections that don't exist, and the indexes that rankstream's own collections lack.

    A new collection gets the metadata `notes`, without it those of its analyser and its fields alone. The creation of
    one that exists may have been stopped before the last index. `writes`: documents will be written to each collection,
    so one of another program is refused; else it is left alone. Raises ConfigError for that and for whatever is there
    and isn't as documents need it, all of it at once and before anything is made. Raises BackendError.
    """
    if settings.of_another_tool:
        if writes:
            raise ConfigError(OTHERS)
        return Ensured([], settings.physical)
    parts = [*vectors(settings), *index_needs(settings)]

    def needs(name: str) -> list[Requirement]:
        own = Requirement("owner"), Requirement("shard keys"), Requirement("settings", choice.settings(name))
        return [*(own if writes else ()), *parts]

    surveyed = await survey(qdrant, settings, needs, timeout, choice)
    for each in surveyed:
        if each.error is not None:
            raise each.error
    problems = []
    for each in surveyed:
        for gap in each.gaps:
            if gap.stops:
                problems.append(f"Qdrant collection {each.name}: {gap.what}. {gap.cure}")
            elif gap.kind in STORED and not each.foreign:
                log.warning("collection is not as it should be", collection=each.name, difference=gap.what)
    groups = sorted({generation.group for each in surveyed if (generation := generation_of(each.info)) is not None})
    if writes and len(groups) > 1:
        problems.append(_SEVERAL)
    if problems:
        raise ConfigError("\n".join(problems))
    for step in steps(surveyed, settings, create=True, add=True, foreign=False):
        await take(qdrant, settings, step, timeout, notes)
        if step.need is None:
            log.info("collection created", collection=step.collection)
    absent = [each.name for each in surveyed if each.info is None]
    return Ensured(absent, [each.name for each in surveyed if each.foreign], next(iter(groups), None))


def steps(
    surveyed: Sequence[Surveyed], settings: QdrantSettings, *, create: bool, add: bool, foreign: bool
) -> list[MakingStep]:
    """The steps to do: make collections that don't exist, and missing indexes of the others, `foreign` ones too."""
    made: list[MakingStep] = []
    for each in surveyed:
        if each.info is not None:
            if add and (foreign or not each.foreign):
                made += [MakingStep(each.physical, gap.need) for gap in each.gaps if gap.kind == "missing index"]
        elif create and each.error is None:
            made += [MakingStep(each.name, need) for need in (None, *index_needs(settings))]
    return made


async def take(
    qdrant: QdrantClient, settings: QdrantSettings, step: MakingStep, timeout: float, notes: Notes | None = None
) -> None:
    """Make a collection, with these notes, or an index, within `timeout` seconds; raises BackendError."""
    if (need := step.need) is not None:
        if step.collection not in qdrant.limits:
            await qdrant.collection_info(step.collection, timeout=timeout)
        await qdrant.create_index(step.collection, need.name, need.wanted, timeout=timeout)
        return
    try:
        own = settings.bm25_settings(step.collection)
        noted = notes(step.collection) if notes else collection_metadata(own, fields=settings.search_fields)
        created = {**configuration(settings), "metadata": noted}
        await qdrant.create_collection(step.collection, created, timeout=timeout)
    except BackendBadResponse as error:
        # Another replica was faster.
        if error.status != 409:
            raise
