"""Notes: the metadata by which a collection is rankstream's, and which say how its documents were indexed.

Nothing reads them but this module. Notes that are no object, or of another type than this version writes, are none.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from operators.clients.qdrant.answers import CollectionInfo
from operators.collections.analysers import CURRENT, PLAIN
from schemas.document import EXPIRES_AT
from schemas.settings.qdrant import DEFAULT_FIELDS, Bm25Settings, Vectors

OURS: Final = "rankstream"
"""The key of a collection's metadata by which it is rankstream's."""

PROMPTS: Final = "prompts"

_BY_ACCESS: Final = "same tier and labels"


@dataclass(frozen=True, slots=True)
class Generation:
    """The making of a collection by `rankstream reindex`.

    `group` has the offsets of the documents topic that stand for it, `replaces` is the collection before it, if there
    was one.
    """

    group: str
    replaces: str | None = None


def collection_metadata(
    settings: Bm25Settings,
    purposes: Mapping[str, Mapping[str, str]] | None = None,
    fields: Mapping[str, float] = DEFAULT_FIELDS,
    model: str | None = None,
    making: str | None = None,
    generation: Generation | None = None,
) -> dict[str, Any]:
    """The metadata of a new collection.

    `purposes` are the prompts of the embedder, `model` is its model, and `making` the hash of the settings.
    """
    # An earlier version knows the other parameters only.
    newer = {name for name in ("languages", "accents") if getattr(settings, name) == getattr(Bm25Settings(), name)}
    notes = {
        "bm25": settings.model_dump(mode="json", exclude=newer),
        "analysis": CURRENT,
        "fields": dict(fields),
        "contexts": _BY_ACCESS,
        "expiry": EXPIRES_AT,
        PROMPTS: purposes,
        "embedder": model,
        "settings": making,
        "generation": asdict(generation) if generation is not None else None,
    }
    return {OURS: {name: each for name, each in notes.items() if each is not None}}


def notes_of(info: CollectionInfo | None) -> Mapping[str, Any]:
    """The notes of a collection; none of another program's."""
    ours = info.metadata.get(OURS) if info is not None else None
    return ours if isinstance(ours, Mapping) else {}


def settings_of(info: CollectionInfo | None) -> str | None:
    """The hash of the settings that a collection was made with; None if it does not say."""
    found = notes_of(info).get("settings")
    return found if isinstance(found, str) else None


def generation_of(info: CollectionInfo | None) -> Generation | None:
    """The generation that a collection is; None of one that `rankstream reindex` did not make."""
    match notes_of(info).get("generation"):
        case {"group": str(group), "replaces": None | str() as replaces}:
            return Generation(group, replaces)
    return None


def expires(info: CollectionInfo) -> bool:
    """True if the collection says that its documents expire: in one of an earlier version `expires_at` is a field."""
    return notes_of(info).get("expiry") == EXPIRES_AT


def mixed_contexts(names: Vectors, info: CollectionInfo) -> bool:
    """True if the collection has contexts that may hold words of documents that fewer sources see."""
    there = names.dense_context in info.vectors or names.sparse_context in info.sparse_vectors
    return there and notes_of(info).get("contexts") != _BY_ACCESS


def analysis_of(metadata: Mapping[str, Any]) -> tuple[Bm25Settings | None, int, Mapping[str, float]]:
    """The parameters in a collection's metadata, None without any, its analysis, and the fields that it searches.

    Raises ValueError for others than this version knows.
    """
    ours = metadata.get(OURS, {})
    if not isinstance(ours, Mapping):
        raise ValueError("no object")
    analysis = ours.get("analysis", PLAIN)
    if analysis not in range(PLAIN, CURRENT + 1):
        raise ValueError("another analysis")
    fields = ours.get("fields", DEFAULT_FIELDS)
    if not isinstance(fields, Mapping) or not all(isinstance(weight, int | float) for weight in fields.values()):
        raise ValueError("no fields with weights")
    own = Bm25Settings.model_validate(ours["bm25"], strict=True) if "bm25" in ours else None
    return own, analysis, fields
