"""The point that a document becomes: its payload, its vectors, its patches, and the conditions of its writes. Pure.

Rules of patches, the changes of single fields:
- Of each field the value with the highest version holds; of equal versions the one that is applied last.
- An upsert is a version of all fields, those that it does not bring included.
- So upserts and patches with different versions give one document, in whatever order they are applied.
- The index keeps the changed fields that hold over the document's upsert, with their versions and values. A later
  upsert drops those that are older than itself, and its own values hold.
- A write that depends on the patches that it has read is applied only while the index has the same ones. They are
  compared by the hash that was written with them: the index may give a number back with another last digit.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import orjson

from operators.access.firewall import visibility
from operators.clients.qdrant.requests import Change
from operators.clients.rerankers.token_vectors import DECIMALS
from operators.collections.analysers import Bm25
from operators.indexing.document import NOT_PAYLOAD, DocumentInFlight, Documents, Patches
from operators.ranking.content import field_texts, fingerprint
from operators.ranking.marks import marks
from operators.ranking.run import stamp
from operators.runtime.batching.policy import chunks
from operators.text.terms import SparseVector
from operators.text.words import words
from schemas import document as keys
from schemas.document import DocumentEvent
from schemas.fields import rfc3339
from schemas.filters import value_at
from schemas.settings.qdrant import ContextSettings, Vectors

_TIMES: Final = ("created_at", "accessed_at", "updated_at", "confirmed_at")
_ALONE: Final = ContextSettings()
_PLACING: Final = ("created_at", keys.CLASSIFICATION, keys.LABELS)
"""Fields that those of the index's own follow from."""


class GroupPosition(NamedTuple):
    """The position of a document: the name of its group, and its value in the group's order."""

    group: str
    order: float


def group_position(
    settings: ContextSettings, destination: str, namespace: str, fields: Mapping[str, Any]
) -> GroupPosition | None:
    """The position of a document with these payload fields; None if it has no group or no value in the order."""
    if settings.order_by is None:
        return None
    order = _order(value_at(fields, settings.order_by))
    group = value_at(fields, settings.group_by) if settings.group_by is not None else True
    if order is None or not isinstance(group, str | int | float):
        return None
    return GroupPosition(orjson.dumps([destination, namespace, *visibility(fields), group]).decode(), order)


def _order(value: object) -> float | None:
    """A number as it is, a time in Unix seconds; None for any other value."""
    if isinstance(value, bool):
        return None
    if not isinstance(value, int | float):
        return stamp(value)
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def read_patches(payload: Mapping[str, Any]) -> Patches:
    """The patches of a point, by its payload."""
    return {name: (version, value) for name, (version, value) in (payload.get(keys.PATCHES) or {}).items()}


def hash_patches(patches: Patches) -> int | None:
    """A 63-bit hash of patches; None of none."""
    if not patches:
        return None
    written = orjson.dumps(patches, option=orjson.OPT_SORT_KEYS)
    return int.from_bytes(hashlib.blake2b(written, digest_size=8).digest()) >> 1


def has_value(key: str, value: object) -> dict[str, Any]:
    """The condition that a point has this value of a payload field; None: that it has none."""
    return {"is_empty": {"key": key}} if value is None else {"key": key, "match": {"value": value}}


def _patch_fields(patches: Patches) -> dict[str, Any]:
    """The payload fields that keep these patches; None removes a field."""
    written = {name: list(patch) for name, patch in sorted(patches.items())}
    return {keys.PATCHES: written or None, keys.PATCHED: hash_patches(patches)}


def payload(
    document: DocumentInFlight, context: ContextSettings = _ALONE, columns: Iterable[str] = keys.COLUMNS
) -> dict[str, Any]:
    """The payload of a document in the index: its fields, and the index's own with an underscore.

    `context` says where it has its place among its neighbours; keyword expressions look in the `columns`.
    """
    event = document.event
    changed = {name: value for name, (_, value) in document.patches.items()}
    written = {**_fields(event), **changed, **_patch_fields(document.patches)}
    fields = {name: value for name, value in written.items() if value is not None}
    fields |= {keys.DESTINATION: document.destination, keys.VERSION: document.version}
    fields[keys.NAMESPACE] = document.namespace
    if document.hidden:
        del fields[keys.NAMESPACE]
    if (content := fingerprint(document.content)) is not None:
        fields[keys.CONTENT] = content
    if event.title is not None:
        fields[keys.WHOLE_TITLE] = event.title
    if document.read != keys.COLUMNS:
        fields[keys.READ] = list(document.read)
    for column in columns:
        texts = field_texts(fields, column)
        if texts and keys.text_key(column) != column:
            fields[keys.text_key(column)] = texts
        if found_words := words("\n".join(texts)):
            fields[keys.words_key(column)] = sorted(set(found_words))
    if event.vector is None and document.embedding is not None and document.embedding.token_ids:
        fields[keys.TOKEN_IDS] = sorted(set(document.embedding.token_ids))
    derived = {**_derive(document, context, fields), keys.FIELDS: _count(fields.values(), fields)}
    return fields | {name: value for name, value in derived.items() if value is not None}


def _fields(event: DocumentEvent) -> dict[str, Any]:
    """The fields of an event as the payload has them; None for those that are missing or removed."""
    times = {name: rfc3339(seconds) for name in _TIMES if (seconds := getattr(event, name)) is not None}
    return event.model_dump(exclude=NOT_PAYLOAD) | times


def _derive(document: DocumentInFlight, context: ContextSettings, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the index's own that follow from fields that a patch may change; None is one that isn't there."""
    created = stamp(fields.get("created_at"))
    found = group_position(context, document.destination, document.namespace, fields)
    group, order = found if found is not None else (None, None)
    derived = {keys.CREATED: round(created * 1000) if created is not None else 0, keys.GROUP: group, keys.ORDER: order}
    return {**derived, keys.EXPIRES: _expiry(document, fields)} if document.expires else derived


def _count(values: Iterable[object], names: Iterable[str]) -> int:
    """The number of fields that a document has, without those of the index's own, and the namespace, which all have."""
    # A document is written without its namespace while it may not be found yet.
    found = (name for name, value in zip(names, values, strict=True) if value is not None)
    return sum(not name.startswith("_") and name != keys.NAMESPACE for name in found)


def _expiry(document: DocumentInFlight, fields: Mapping[str, Any]) -> int | None:
    """The time in ms at which a document with these fields expires; None if it does not."""
    named, version = stamp(fields.get(keys.EXPIRES_AT)), fields.get(keys.VERSION)
    if named is not None:
        return round(named * 1000)
    if document.lifetime is None or not isinstance(version, int):
        return None
    return version + round(document.lifetime * 1000)


def read_by_patches(context: ContextSettings) -> list[str]:
    """The payload fields that each patch reads before it is applied, beside those that it changes."""
    placing = {path.partition(".")[0] for path in (context.group_by, context.order_by) if path is not None}
    return sorted({keys.VERSION, keys.PATCHES, keys.PATCHED, keys.EXPIRES_AT, *_PLACING, *placing})


def moves(document: DocumentInFlight, context: ContextSettings) -> bool:
    """True if an event may change which documents are its document's neighbours, or their texts."""
    return document.event.op != "patch" or not document.event.changed.isdisjoint(read_by_patches(context))


def change_of(
    payload: Mapping[str, Any], documents: Iterable[DocumentInFlight], context: ContextSettings, *, again: bool
) -> Change | None:
    """The change of a point with this payload by patches of its document, in their order; None if it has them all.

    The payload has the fields that patches read, and those that these patches change.

    `again`: a change was asked for before, and this is to see that it was made: of equal versions the index's holds.
    """
    before, version = read_patches(payload), payload.get(keys.VERSION)
    after = dict(before)
    for document in documents:
        if isinstance(version, int) and document.version < version:
            continue
        changed, least = document.event.changed, document.version - again
        for name, value in _fields(document.event).items():
            if name in changed and (name not in after or after[name][0] <= least):
                after[name] = document.version, value
    if after == before:
        return None
    new = {name: value for name, (_, value) in after.items() if before.get(name) != after[name]}
    derived = _derive(document, context, {**payload, **new})
    if keys.EXPIRES_AT not in new:
        # The default age may have changed since the document was written.
        derived.pop(keys.EXPIRES, None)
    if isinstance(held := payload.get(keys.FIELDS), int):
        derived[keys.FIELDS] = held + _count(new.values(), new) - _count(map(payload.get, new), new)
    changes = {**new, **derived, **_patch_fields(after)}
    same = [has_value(key, payload.get(key)) for key in (keys.VERSION, keys.PATCHED)]
    return Change(document.point_id, {}, changes, same)


def patches_over(payload: Mapping[str, Any], version: int) -> Patches:
    """The patches of a point that hold over an upsert of this version, which is applied after them."""
    return {name: patch for name, patch in read_patches(payload).items() if patch[0] > version}


def point(
    document: DocumentInFlight, names: Vectors, bm25: Bm25, *, context: ContextSettings = _ALONE
) -> dict[str, Any]:
    """The point of an upsert: id, payload, and each vector that there is."""
    vectors: dict[str, Any] = {}
    if document.event.vector is not None:
        vectors[names.dense] = document.event.vector
    elif document.embedding is not None:
        # A text without a token has no direction, and is found by its words alone.
        if document.embedding.vector.any():
            vectors[names.dense] = document.embedding.vector
        tokens = document.embedding.tokens
        if names.tokens is not None and tokens is not None and len(tokens):
            vectors[names.tokens] = np.round(tokens, DECIMALS)
    fields = payload(document, context, bm25.columns)
    terms, by_field = bm25.payload(fields)
    if names.sparse is not None:
        fields[keys.MARKS] = marks(by_field)
    trigrams = bm25.trigrams(fields) if names.fuzzy is not None else None
    sparse = ((names.sparse, terms), (names.learned, document.encoding), (names.fuzzy, trigrams))
    vectors |= {name: spell(each) for name, each in sparse if name is not None and each is not None and each.indices}
    return {"id": document.point_id, "vector": vectors, "payload": fields}


def spell(vector: SparseVector) -> dict[str, Any]:
    """A sparse vector in Qdrant's JSON."""
    return {"indices": vector.indices, "values": vector.values}


def up_to(version: int) -> dict[str, Any]:
    """The condition that a point has this version, or an earlier one."""
    return {"key": keys.VERSION, "range": {"lte": version}}


def not_newer(documents: Iterable[DocumentInFlight]) -> dict[str, Any]:
    """The filter that matches those of the documents' points that may be written: as old as the event, or older."""
    return {
        "should": [
            *({"must": [{"has_id": [document.point_id]}, up_to(document.version)]} for document in documents),
            {"is_empty": {"key": keys.VERSION}},
        ]
    }


def writable(documents: Iterable[DocumentInFlight], patched: object = None) -> dict[str, Any]:
    """The filter that matches those of the upserts' points that may be written, and whose patches have this hash."""
    return {"must": [not_newer(documents), has_value(keys.PATCHED, patched)]}


def deletable(documents: Documents, most: int | None = None) -> list[dict[str, Any]]:
    """The filters that match exactly the points to delete, of at most that many conditions each; None is no bound."""
    # Two a document, and two for all of them.
    size = max(1, len(documents) if most is None else (most - 2) // 2)
    parts = chunks(documents, size)
    return [{"must": [{"has_id": [each.point_id for each in part]}, not_newer(part)]} for part in parts]
