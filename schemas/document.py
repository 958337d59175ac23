"""The events of the documents topic, one JSON object a message: a document's, and the deletion of many by filter."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import AfterValidator, ConfigDict, Field, field_validator, model_validator

from schemas.errors import MAX_WORDED, join_first
from schemas.fields import SCHEMA_VERSION, AnyId, Documented, DocumentId, Name, SchemaVersion, Strict, Timestamp, Vector
from schemas.filters import DocumentFilters
from schemas.texts import nfc

POINT_NAMESPACE: Final = uuid.UUID("6f3c1d0a-4c2e-5b7e-9a52-7d1f0c8e2b46")
"""Namespace of the UUIDv5 of every point. It is part of the contract and never changes."""

TEXT: Final = "text"

VECTOR: Final = "vector"
"""The field of a document event with its embedding, which is no payload."""

COLUMNS: Final = ("title", TEXT)
"""The text columns, in the order in which they are joined for the embedder and BM25."""


NAMESPACE: Final = "namespace"
"""The payload key of a document's namespace: its tenant."""

DESTINATION: Final = "destination"
"""The payload key of a document's logical store."""

CONTENT: Final = "_content"
"""Payload key: the fingerprint of the document's content."""

FIELDS: Final = "_fields"
"""Payload key: how many fields the document has, by which the fullest of several copies is found."""

CREATED: Final = "_created"
"""Payload key: `created_at` in milliseconds, or 0, so that undated documents come last in an ordered lookup."""

TOKEN_IDS: Final = "_token_ids"  # noqa: S105  no secret
"""Payload key: the distinct vocabulary ids of the content's tokens. Their counts give the IDF weights of tokens."""

TERMS: Final = "_terms"
"""Payload key of documents that version 0.1 wrote in collections of several shards: the ids of their terms."""

MARKS: Final = "_marks"
"""Payload key: marks of the content's BM25 terms, by which ranking sees the words that a document has."""

VERSION: Final = "_version"
"""Payload key: `updated_at`, or else the Kafka timestamp, in milliseconds. An older write never replaces a newer."""

PATCHES: Final = "_patches"
"""Payload key: the fields that patches changed since the document's upsert, with their versions and values."""

PATCHED: Final = "_patched"
"""Payload key: a hash of the patches. A write that depends on them is applied only while they are the same."""

FORGOTTEN: Final = "_forgotten"
"""Payload key of a namespace's tombstone: versions, and the conditions of the documents that were forgotten."""

EXPIRES_AT: Final = "expires_at"
EXPIRES: Final = "_expires"
"""Payload keys: when a document expires, as sent and in milliseconds, in collections that expire documents."""

WORDS: Final[Mapping[str, str]] = {"title": "_title_words", "text": "_text_words"}
"""Text column -> payload key of its distinct words in lower case, for prefix searches."""

READ: Final = "_read"
"""Payload key: the fields whose texts the models read, in their order, where these are not the text columns."""

GROUP: Final = "_group"
ORDER: Final = "_order"
"""Payload keys: the group of documents that may be neighbours, and the place in its order."""

NEIGHBOURS: Final = "_neighbours"
"""Payload key: the point ids of the documents that the point's context was made of, its own among them."""

LEFT: Final = "_left"
"""Payload key: the point ids of documents whose leaving the point's context was made for."""

WHOLE_TITLE: Final = "_title"
"""Payload key: the title once more, as one value, which its index of words can't be asked for."""

SUBJECT: Final = "subject"
ACTOR_TYPE: Final = "actor_type"
CLASSIFICATION: Final = "classification"
LABELS: Final = "labels"
"""Payload keys that queries and the firewall filter by."""

LANG: Final = "lang"
"""The payload key of a document's language, such as `de`."""

TYPE: Final = "type"
"""The payload key of the document's type."""

TIMES: Final = ("created_at", "updated_at")
"""Payload fields that are times, as queries filter by them."""

FILTERED: Final = frozenset({"id", NAMESPACE, DESTINATION, SUBJECT, ACTOR_TYPE, CLASSIFICATION, LABELS, TYPE})
"""Payload fields by which rankstream itself filters."""

INDEXED: Final = FILTERED.union(TIMES, COLUMNS)
"""Payload fields that always have an index."""

MAX_DOCUMENT_PARTS: Final = 65_536
"""Keys, objects and arrays of a document event."""

REFLECTION: Final = "reflection"
"""The type of documents that summarise other documents."""


Finite = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


Composed = Annotated[str, AfterValidator(nfc)]
"""Text in Unicode NFC, as in queries, so that equal words are equal strings."""


_NAMING: Final = frozenset({"schema_version", "id", "op", NAMESPACE, DESTINATION, "collection"})
"""Fields of an event that say which document it is about."""


def words_key(column: str) -> str:
    """The payload key of the distinct words of a searched field."""
    return WORDS.get(column) or f"_{column.replace('.', '_')}_words"


def text_key(column: str) -> str:
    """The payload key of a searched field's texts.

    Others than title and text have a copy for the index of words: their own key may have one by which queries filter.
    """
    return column if column in COLUMNS else f"_{column.replace('.', '_')}_texts"


def index_keys(columns: Iterable[str]) -> list[str]:
    """The payload keys that only the index reads, of documents with these searched fields."""
    copies = [key for column in columns for key in (words_key(column), text_key(column)) if key != column]
    return [MARKS, TERMS, TOKEN_IDS, PATCHES, PATCHED, *copies]


class Edge(Strict):
    """A neighbour of a document, in the same namespace."""

    to: AnyId = Field(description="The neighbour's id.")
    weight: Finite = 1.0


DELETE_WHERE: Final = "delete_where"
"""The `op` of a DeletionEvent."""

_Op = Literal["upsert", "delete", "patch"]
_OPS: Final = (*get_args(_Op), DELETE_WHERE)


class DocumentEvent(Documented):
    """One document. Unknown fields become payload under their own names."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    schema_version: SchemaVersion = SCHEMA_VERSION
    id: DocumentId
    op: _Op = "upsert"
    """`patch` changes the fields that it brings, and null removes one; the others stay."""
    text: Composed | None = None
    title: Composed | None = None
    vector: Vector | None = Field(default=None, description="Its embedding; missing: the embedder computes it.")
    namespace: Name | None = None
    destination: Name | None = None
    collection: Name | None = Field(default=None, description="A part of the destination.")
    subject: str | None = Field(default=None, description="What it is about; queries may filter by it.")
    actor_type: str | None = Field(default=None, description="Kind of its author, such as user, agent or system.")
    classification: str | None = None
    """Tier: public (if missing), internal, confidential or restricted; the firewall hides any other."""
    labels: Annotated[list[str], Field(fail_fast=True)] | None = None
    """Labels that the firewall may block or require."""
    created_at: Timestamp | None = None
    accessed_at: Timestamp | None = None
    updated_at: Timestamp | None = None
    confirmed_at: Timestamp | None = None
    expires_at: Any = None
    """From this time on it is in no answer, and later deleted; a mere field in collections of earlier versions."""
    cycle: Annotated[int, Field(ge=-(2**53), le=2**53)] | None = None
    """Logical time of the producer, for the stage `weighted`."""
    type: str | None = Field(default=None, description="Type of the document, such as `reflection`.")
    memory_tier: str | None = Field(default=None, description="procedural, semantic, episodic, working, or another.")
    priority: str | None = Field(default=None, description="P1 (highest) to P4; any other value counts as none.")
    importance: Finite | None = None
    """0 to 5; 0 to 1 if the recipe's scale is 1, as in `composite`; missing: `emotional_weight`."""
    confidence: Finite | None = Field(default=None, description="Trust in the content, 0 to 1; missing: 1.")
    salience: Finite | None = Field(default=None, description="Replaces the value from tier and importance.")
    access_count: Annotated[int, Field(ge=0, le=2**53)] | None = Field(default=None, description="Times it was used.")
    edges: Annotated[list[Edge], Field(fail_fast=True)] | None = None
    """Neighbours, for the stage `weighted`."""

    @field_validator("op", mode="before")
    @classmethod
    def _known(cls, op: Any) -> Any:
        if op not in _OPS:
            raise ValueError(f"expected one of {', '.join(_OPS)}")
        return op

    @model_validator(mode="before")
    @classmethod
    def _nothing_reserved(cls, event: Any) -> Any:
        if isinstance(event, dict) and (names := sorted(name for name in event if name.startswith("_"))):
            named = join_first(names[:MAX_WORDED], len(names[MAX_WORDED:]), ", ")
            raise ValueError(f"{named}: names that start with an underscore are the index's own")
        return event

    @model_validator(mode="after")
    def _has_content(self) -> Self:
        if self.op == "upsert" and not self.content.strip() and self.vector is None:
            raise ValueError("an upsert needs `text`, `title`, or its embedding as `vector`")
        if self.op == "patch" and not self.changed:
            raise ValueError("a patch needs a field that it changes")
        return self

    @property
    def changed(self) -> frozenset[str]:
        """The fields that a patch changes."""
        return frozenset(self.model_fields_set - _NAMING)

    @property
    def content(self) -> str:
        """The text that is embedded and indexed: the joined text columns."""
        return "\n".join(value for name in COLUMNS if (value := getattr(self, name)))


class DeletionEvent(Strict):
    """The deletion of all documents of a namespace, or of those that match the filters, up to a version.

    Documents with a later version stay. None with an earlier one comes back, however late its event is.
    """

    schema_version: SchemaVersion = SCHEMA_VERSION
    op: Literal["delete_where"]
    namespace: Name
    filters: DocumentFilters = Field(default=[])
    """As a query has them, none on `namespace`; missing: the whole namespace."""
    destination: Name | None = None
    collection: Name | None = Field(default=None, description="A part of the destination.")
    updated_at: Timestamp | None = None
    """The version, as a document has it; missing: the message's timestamp."""


def point_id(destination: str, namespace: str, document: str = "") -> str:
    """The Qdrant point id of a document: UUIDv5 of destination, namespace and id, which may contain any characters.

    Without an id, which every document has, it is that of the namespace's tombstone.
    """
    # Lengths keep ("a", "bc") and ("ab", "c") apart whatever the names hold.
    name = f"{len(destination)}:{destination}{len(namespace)}:{namespace}{document}"
    return str(uuid.uuid5(POINT_NAMESPACE, name))
