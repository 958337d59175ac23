"""Findings: what is to be said of a collection before it is used, each with what to do about it."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from operators.clients.qdrant.answers import CollectionInfo
from operators.indexing.collection import REMEDY, compared, ours
from operators.query.capabilities import MOST
from schemas.settings import QdrantSettings


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what it is about, what was found, and what to do; `remedy` is empty where nothing needs doing."""

    level: Level
    subject: str
    found: str
    remedy: str = ""


SHARDS: Final = (
    "Qdrant counts how rare a term is in each shard by itself, so keyword scores depend on the shard of a document"
)
"""What several shards mean for the keyword leg."""


def of_collection(
    settings: QdrantSettings, collection: str, info: CollectionInfo | None, alias_of: str | None, *, tokens: bool
) -> list[Finding]:
    """What is to be said of a collection that Qdrant described; None: it isn't there.

    `alias_of` is the collection that an alias stands for; `tokens`: late interaction needs the token vectors.
    """
    subject = f"collection {collection}"
    if info is None:
        return [Finding(Level.ERROR, subject, "is not there", "rankstream collections --create")]
    found = [Finding(level, subject, text, remedy) for level, text, remedy in _of(settings, collection, info, tokens)]
    summary = f"{info.points} points" + (f", alias of {alias_of}" if alias_of is not None else "")
    owner = "rankstream writes to it" if ours(settings, collection, info) else "only read: rankstream did not create it"
    return [Finding(Level.OK, subject, f"{summary}; {owner}"), *found]


def _of(
    settings: QdrantSettings, collection: str, info: CollectionInfo, tokens: bool
) -> Iterator[tuple[Level, str, str]]:
    own = ours(settings, collection, info)
    inspection = compared(settings, info)
    for difference in inspection.vectors:
        yield Level.ERROR, str(difference), "Correct qdrant.dimension and qdrant.vectors, or name another collection"
    for difference in inspection.indexes:
        yield (Level.ERROR if difference.grave else Level.WARNING), str(difference), REMEDY
    if inspection.missing:
        lacking = f"no index of {', '.join(sorted(inspection.missing))}"
        # Without an index most filters are only slower; rankstream adds those of its own collections when it indexes.
        yield Level.WARNING, lacking, "rankstream collections --add-indexes"
    if tokens and settings.vectors.tokens not in info.vectors:
        without = "no token vectors: late interaction is off, results keep the order of the recipe"
        yield Level.WARNING, without, "Set rerank.kind to another reranker or none; or index into a new collection"
    if info.shards > 1:
        yield Level.WARNING, f"{info.shards} shards: {SHARDS}", "See docs/collections.md" if own else ""
    yield from _strict(info)


def _strict(info: CollectionInfo) -> Iterator[tuple[Level, str, str]]:
    most = info.strict.get("max_query_limit")
    if most is not None and most < MOST:
        yield (
            Level.WARNING,
            f"strict mode: max_query_limit is {most}, so no query finds more than {most} candidates",
            f"Raise max_query_limit to {MOST} if deep pages or broad recipes need more",
        )
    if info.strict.get("unindexed_filtering_retrieve") is False:
        yield (
            Level.WARNING,
            "strict mode: a filter on a field without an index is refused",
            "Add the fields that queries filter by to qdrant.indexes, then run rankstream collections --add-indexes",
        )
