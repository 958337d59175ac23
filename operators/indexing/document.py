"""The event in flight, and the point that a document becomes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from operators.clients.qdrant.requests import Change
from operators.clients.rerankers.token_vectors import DECIMALS
from operators.collections.analysers import Bm25
from operators.indexing import patch
from operators.indexing.neighbourhood import position
from operators.query.backend_answers import Embedding
from operators.ranking.content import field_texts, fingerprint, join_fields
from operators.ranking.marks import marks
from operators.ranking.run import stamp
from operators.text.terms import SparseVector
from operators.text.words import words
from operators.wire.message import Message, Rejected
from schemas.document import (
    CLASSIFICATION,
    COLUMNS,
    CONTENT,
    CREATED,
    DESTINATION,
    EXPIRES,
    EXPIRES_AT,
    GROUP,
    LABELS,
    MARKS,
    NAMESPACE,
    ORDER,
    PATCHED,
    PATCHES,
    READ,
    TOKEN_IDS,
    VERSION,
    WHOLE_TITLE,
    DeletionEvent,
    DocumentEvent,
    text_key,
    words_key,
)
from schemas.errors import DeadLetterClass
from schemas.fields import rfc3339
from schemas.settings.qdrant import ContextSettings, Vectors

_TIMES = ("created_at", "accessed_at", "updated_at", "confirmed_at")
_NOT_PAYLOAD = {"schema_version", "op", "vector"}
_ALONE = ContextSettings()
_PLACING = ("created_at", CLASSIFICATION, LABELS)
"""Fields that those of the index's own follow from."""


@dataclass(slots=True)
class EventInFlight:
    """One event of the documents topic on its way.

    `collection` is the configured name of a Qdrant collection, `physical` the collection's own name once the event is
    applied, and empty before.
    """

    message: Message
    event: DocumentEvent | DeletionEvent
    destination: str
    namespace: str
    collection: str
    point_id: str
    version: int
    physical: str = ""
    answered: ClassVar = False

    def reject(self, stage: str, kind: DeadLetterClass, reason: str, field: str | None = None) -> Rejected:
        """The refusal of the event's message."""
        return Rejected(self.message, kind, stage, reason, field=field)


@dataclass(slots=True)
class DeletionInFlight(EventInFlight):
    """The deletion of a namespace's documents; its point is the namespace's tombstone. `emptied`: it left none."""

    event: DeletionEvent
    emptied: bool = False


@dataclass(slots=True)
class DocumentInFlight(EventInFlight):
    """One document event on its way.

    `read` are the fields whose texts the models read. `patches` are those of the index that hold over an upsert.
    `lifetime` are the seconds until it expires where it has no `expires_at`, if its collection `expires` documents.
    A `hidden` document is written without its namespace, so that no query finds it.
    """

    event: DocumentEvent
    embedding: Embedding | None = None
    encoding: SparseVector | None = None
    read: tuple[str, ...] = COLUMNS
    patches: patch.Patches = field(default_factory=dict)
    lifetime: float | None = None
    expires: bool = False
    hidden: bool = False

    @property
    def content(self) -> str:
        """The text that is embedded."""
        if self.read == COLUMNS:
            return self.event.content
        return join_fields(self.event.model_dump(exclude=_NOT_PAYLOAD), self.read)


def newest(documents: Iterable[DocumentInFlight]) -> list[DocumentInFlight]:
    """Find the newest event of each point, the later one of equals: a batch with two versions of an id keeps the older.

    Patches are none of them.
    """
    kept: dict[tuple[str, str], DocumentInFlight] = {}
    for document in documents:
        key = (document.collection, document.point_id)
        if document.event.op == "patch":
            continue
        if key not in kept or document.version >= kept[key].version:
            kept[key] = document
    return list(kept.values())


def patches_to_apply(documents: Iterable[DocumentInFlight]) -> list[DocumentInFlight]:
    """The patches of a batch in their order, without those that an upsert or a deletion behind them is done with."""
    kept: list[DocumentInFlight] = []
    whole: dict[tuple[str, str], int] = {}
    for document in reversed(list(documents)):
        key = (document.collection, document.point_id)
        if document.event.op != "patch":
            whole[key] = max(document.version, whole.get(key, document.version))
        elif document.version > whole.get(key, document.version - 1):
            kept.append(document)
    return kept[::-1]


def payload(
    document: DocumentInFlight, context: ContextSettings = _ALONE, columns: Iterable[str] = COLUMNS
) -> dict[str, Any]:
    """The payload of a document in the index: its fields, and the index's own with an underscore.

    `context` says where it has its place among its neighbours; keyword expressions look in the `columns`.
    """
    event = document.event
    changes = {name: value for name, (_, value) in document.patches.items()}
    written = {**_fields(event, exclude_none=True), **changes, **patch.fields(document.patches)}
    fields = {name: value for name, value in written.items() if value is not None}
    fields[NAMESPACE] = document.namespace
    if document.hidden:
        del fields[NAMESPACE]
    fields[DESTINATION] = document.destination
    fields[VERSION] = document.version
    if (content := fingerprint(document.content)) is not None:
        fields[CONTENT] = content
    if event.title is not None:
        fields[WHOLE_TITLE] = event.title
    if document.read != COLUMNS:
        fields[READ] = list(document.read)
    for column in columns:
        texts = field_texts(fields, column)
        if texts and text_key(column) != column:
            fields[text_key(column)] = texts
        if found_words := words("\n".join(texts)):
            fields[words_key(column)] = sorted(set(found_words))
    if event.vector is None and document.embedding is not None and document.embedding.token_ids:
        fields[TOKEN_IDS] = sorted(set(document.embedding.token_ids))
    derived = _derive(document, context, fields)
    return fields | {name: value for name, value in derived.items() if value is not None}


def _fields(event: DocumentEvent, *, exclude_none: bool) -> dict[str, Any]:
    """The fields of an event as the payload has them."""
    fields = event.model_dump(exclude=_NOT_PAYLOAD, exclude_none=exclude_none)
    for name in _TIMES:
        if (seconds := getattr(event, name)) is not None:
            fields[name] = rfc3339(seconds)
    return fields


def _derive(document: DocumentInFlight, context: ContextSettings, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the index's own that follow from fields that a patch may change; None is one that isn't there."""
    created = stamp(fields.get("created_at"))
    found = position(context, document.destination, document.namespace, fields)
    group, order = found if found is not None else (None, None)
    derived = {CREATED: round(created * 1000) if created is not None else 0, GROUP: group, ORDER: order}
    return {**derived, EXPIRES: _expiry(document, fields)} if document.expires else derived


def _expiry(document: DocumentInFlight, fields: Mapping[str, Any]) -> int | None:
    """The time in ms at which a document with these fields expires; None if it does not."""
    named, version = stamp(fields.get(EXPIRES_AT)), fields.get(VERSION)
    if named is not None:
        return round(named * 1000)
    if document.lifetime is None or not isinstance(version, int):
        return None
    return version + round(document.lifetime * 1000)


def changes(document: DocumentInFlight) -> dict[str, Any]:
    """The payload fields that a patch changes; None removes one."""
    return {
        name: value
        for name, value in _fields(document.event, exclude_none=False).items()
        if name in document.event.changed
    }


def read_by_patches(context: ContextSettings) -> list[str]:
    """The payload fields that a patch reads before it is applied."""
    paths = (context.group_by, context.order_by)
    return sorted(
        {
            VERSION,
            PATCHES,
            PATCHED,
            EXPIRES_AT,
            *_PLACING,
            *(path.partition(".")[0] for path in paths if path is not None),
        }
    )


def moves(document: DocumentInFlight, context: ContextSettings) -> bool:
    """True if an event may change which documents are its document's neighbours, or their texts."""
    return document.event.op != "patch" or not document.event.changed.isdisjoint(read_by_patches(context))


def change_of(
    payload: Mapping[str, Any], documents: Iterable[DocumentInFlight], context: ContextSettings, *, again: bool
) -> Change | None:
    """The change of a point with this payload by patches of its document, in their order; None if it has them all.

    `again`: a change was asked for before, and this is to see that it was made.
    """
    before, version = patch.read(payload), payload.get(VERSION)
    after = before
    for document in documents:
        if not isinstance(version, int) or document.version >= version:
            after = patch.add(after, changes(document), document.version, again=again)
    if after == before:
        return None
    new = {name: value for name, (_, value) in after.items() if before.get(name) != after[name]}
    derived = _derive(document, context, {**payload, **new})
    if EXPIRES_AT not in new:
        # The default age may have changed since the document was written.
        derived.pop(EXPIRES, None)
    same = {"key": VERSION, "match": {"value": version}} if version is not None else {"is_empty": {"key": VERSION}}
    return Change(
        document.point_id,
        {},
        {**new, **derived, **patch.fields(after)},
        (same, patch.condition_of(payload.get(PATCHED))),
    )


def point(
    document: DocumentInFlight,
    names: Vectors,
    bm25: Bm25,
    *,
    context: ContextSettings = _ALONE,
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
        fields[MARKS] = marks(by_field)
    if names.sparse is not None and terms.indices:
        vectors[names.sparse] = _sparse(terms)
    if names.learned is not None and document.encoding is not None and document.encoding.indices:
        vectors[names.learned] = _sparse(document.encoding)
    if names.fuzzy is not None and (trigrams := bm25.trigrams(fields)).indices:
        vectors[names.fuzzy] = _sparse(trigrams)
    return {"id": document.point_id, "vector": vectors, "payload": fields}


def _sparse(terms: SparseVector) -> dict[str, Any]:
    return {"indices": terms.indices, "values": terms.values}


def up_to(version: int) -> dict[str, Any]:
    """The condition that a point has this version, or an earlier one."""
    return {"key": VERSION, "range": {"lte": version}}


def not_newer(documents: Iterable[DocumentInFlight]) -> dict[str, Any]:
    """The filter that matches those of the documents' points that may be written: as old as the event, or older."""
    return {
        "should": [
            *({"must": [{"has_id": [document.point_id]}, up_to(document.version)]} for document in documents),
            {"is_empty": {"key": VERSION}},
        ]
    }


def writable(documents: Iterable[DocumentInFlight], patched: object = None) -> dict[str, Any]:
    """The filter that matches those of the upserts' points that may be written, and whose patches have this hash."""
    return {"must": [not_newer(documents), patch.condition_of(patched)]}


def deletion(documents: Iterable[DocumentInFlight]) -> dict[str, Any]:
    """The filter that matches exactly the points to delete."""
    documents = list(documents)
    return {"must": [{"has_id": [document.point_id for document in documents]}, not_newer(documents)]}


def chunks(documents: Sequence[DocumentInFlight], most: int | None) -> list[Sequence[DocumentInFlight]]:
    """The documents in parts whose filter `deletion` has at most that many conditions; None is no bound."""
    # Two a document, and two for all of them.
    size = max(1, len(documents) if most is None else (most - 2) // 2)
    return [documents[start : start + size] for start in range(0, len(documents), size)]
