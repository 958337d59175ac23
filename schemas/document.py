"""The document event: an upsert or a delete, one JSON object a message on the documents topic."""

import uuid
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from schemas.normalization import nfc
from schemas.query import SCHEMA_VERSION, Name, SchemaVersion, Vector
from schemas.timestamp import Timestamp

POINT_NAMESPACE: Final = uuid.UUID("6f3c1d0a-4c2e-5b7e-9a52-7d1f0c8e2b46")
"""Every point id is a UUIDv5 under this one: part of the contract, never to change."""

COLUMNS: Final = ("title", "text")
"""The text columns, in the order in which they are joined for embedding and BM25."""


NAMESPACE: Final = "namespace"
"""The payload key of a document's tenant."""

DESTINATION: Final = "destination"
"""The payload key of a document's logical store."""

CONTENT: Final = "_content"
"""Payload key: the fingerprint of the document's content."""

CREATED: Final = "_created"
"""Payload key: milliseconds of `created_at`, 0 without, so that undated documents come last in an ordered lookup."""

TOKEN_IDS: Final = "_token_ids"  # noqa: S105  no secret
"""Payload key: the vocabulary ids of the content's tokens, each once; by counting them tokens are weighted."""

VERSION: Final = "_version"
"""Payload key: milliseconds of `updated_at`, else of the record's Kafka timestamp. An older write never wins."""

WORDS: Final[Mapping[str, str]] = {"title": "_title_words", "text": "_text_words"}
"""Payload keys by text column: its words in lower case, each once, in which prefixes are looked up."""

SUBJECT: Final = "subject"
ACTOR_TYPE: Final = "actor_type"
CLASSIFICATION: Final = "classification"
LABELS: Final = "labels"
"""The payload keys of what queries and the firewall ask for."""

TYPE: Final = "type"
"""The payload key of what kind of document it is."""

INDEXED: Final = frozenset({NAMESPACE, DESTINATION, SUBJECT, ACTOR_TYPE, CLASSIFICATION, LABELS, TYPE, *COLUMNS})
"""Fields that always have an index."""

REFLECTION: Final = "reflection"
"""The type of documents that sum up others."""


Finite = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


Composed = Annotated[str, AfterValidator(nfc)]
"""As texts of queries are, so that the words of both are the same."""


class Edge(BaseModel):
    """A neighbour of a document, in the same namespace."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    to: Annotated[str, StringConstraints(min_length=1, max_length=4096)] = Field(description="The neighbour's id.")
    weight: Finite = 1.0


class DocumentEvent(BaseModel):
    """One document. Fields that aren't named here are kept as payload, under their own names."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    schema_version: SchemaVersion = SCHEMA_VERSION
    id: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    op: Literal["upsert", "delete"] = "upsert"
    text: Composed | None = None
    title: Composed | None = None
    vector: Vector | None = Field(default=None, description="The document's own vector, in place of the embedder's.")
    namespace: Name | None = None
    destination: Name | None = None
    collection: Name | None = Field(default=None, description="A part of the destination.")
    subject: str | None = Field(default=None, description="Whom or what it is about; queries may ask for one subject.")
    actor_type: str | None = Field(default=None, description="Who made it, such as user, agent, system.")
    classification: str | None = Field(
        default=None, description="public, internal, confidential or restricted; missing: public; others nobody sees."
    )
    labels: list[str] | None = Field(default=None, description="What the firewall may block or require.")
    created_at: Timestamp | None = None
    accessed_at: Timestamp | None = None
    updated_at: Timestamp | None = None
    confirmed_at: Timestamp | None = None
    cycle: Annotated[int, Field(ge=-(2**53), le=2**53)] | None = Field(
        default=None, description="The producer's own clock, for the blend's recency."
    )
    type: str | None = Field(default=None, description="What kind of document it is, such as `reflection`.")
    memory_tier: str | None = Field(default=None, description="procedural, semantic, episodic, working, or another.")
    priority: str | None = Field(default=None, description="P1 to P4; any other counts as none.")
    importance: Finite | None = Field(default=None, description="0 to 5, or 0 to 1 where the recipe says so.")
    confidence: Finite | None = Field(default=None, description="0 to 1.")
    salience: Finite | None = Field(default=None, description="In place of what tier and importance give.")
    access_count: Annotated[int, Field(ge=0, le=2**53)] | None = None
    edges: list[Edge] | None = Field(default=None, description="Neighbours, for the blend's graph.")

    @model_validator(mode="before")
    @classmethod
    def _nothing_reserved(cls, event: Any) -> Any:
        if isinstance(event, dict) and (names := sorted(name for name in event if name.startswith("_"))):
            raise ValueError(f"{', '.join(names)}: names that start with an underscore are the index's own")
        return event

    @model_validator(mode="after")
    def _has_content(self) -> Self:
        if self.op == "upsert" and not self.content.strip() and self.vector is None:
            raise ValueError("an upsert needs text, title or vector")
        return self

    @property
    def content(self) -> str:
        """The text that is embedded and indexed: the text columns, joined."""
        return "\n".join(value for name in COLUMNS if (value := getattr(self, name)))


def point_id(destination: str, namespace: str, document: str) -> str:
    """The Qdrant point id of a document: UUIDv5 of destination, namespace and id, which may hold any characters."""
    # Lengths keep ("a", "bc") and ("ab", "c") apart whatever the names hold.
    name = f"{len(destination)}:{destination}{len(namespace)}:{namespace}{document}"
    return str(uuid.uuid5(POINT_NAMESPACE, name))
