"""Decode: a message's bytes become a document in flight, or a named error."""

import math
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import structlog

from operators.access.filters import on_fields
from operators.indexing import patch
from operators.indexing.document import DeletionInFlight, DocumentInFlight
from operators.indexing.rows import from_debezium, read_tombstone, rename
from operators.query.collection import Destinations
from operators.wire.message import Message, check_headers, sent_at
from operators.wire.parsing import parse_message
from schemas.document import (
    COLUMNS,
    DELETE_WHERE,
    MAX_DOCUMENT_PARTS,
    NAMESPACE,
    DeletionEvent,
    DocumentEvent,
    point_id,
)
from schemas.errors import DeadLetterClass, InputError, invalid
from schemas.event import HALF_REPLACED, check_dimension, validate
from schemas.settings import DocumentSettings

log = structlog.stdlib.get_logger(__name__)

INTERVAL: Final = 60.0
"""Seconds from one line about documents of a kind to the next."""


class Occurrences:
    """Logs documents of a kind, with this event: the first with its place, and then their number once a minute."""

    def __init__(self, event: str) -> None:
        self._event = event
        self._due = -math.inf
        self._count = 0

    def note(self, message: Message) -> None:
        """Count a document, and log it if a minute has passed."""
        self._count += 1
        if message.clock >= self._due:
            place = message.origin
            log.warning(
                self._event, topic=place.topic, partition=place.partition, offset=place.offset, count=self._count
            )
            self._due, self._count = message.clock + INTERVAL, 0


@dataclass(frozen=True, slots=True)
class DocumentDecoder:
    """Turns messages into documents, and deletions of many, under one configuration."""

    max_bytes: int
    destinations: Destinations
    default_destination: str
    default_namespace: str
    dimension: int
    documents: DocumentSettings = field(default_factory=DocumentSettings)
    read: tuple[str, ...] = COLUMNS
    searched: tuple[str, ...] = COLUMNS
    mended: Occurrences = field(default_factory=lambda: Occurrences(HALF_REPLACED))

    def __call__(self, message: Message) -> DocumentInFlight | DeletionInFlight:
        """The event that the message brings. Raises InputError."""
        check_headers(message, self.max_bytes)
        return self.in_flight(message, self._read(message))

    def in_flight(self, message: Message, given: dict[str, Any]) -> DocumentInFlight | DeletionInFlight:
        """An event as a document, or a deletion of many, with its place in the index. Raises InputError."""
        many = given.get("op") == DELETE_WHERE
        event = read_deletion(given) if many else validate(DocumentEvent, given)
        destination = event.destination if event.destination is not None else self.default_destination
        collection = self.destinations.collection(destination, event.collection)
        namespace = event.namespace if event.namespace is not None else self.default_namespace
        version = round((event.updated_at if event.updated_at is not None else _version(message)) * 1000)
        if isinstance(event, DeletionEvent):
            place = point_id(destination, namespace)
            return DeletionInFlight(message, event, destination, namespace, collection, place, version)
        check_dimension(event.vector, self.dimension)
        document = DocumentInFlight(
            message=message,
            event=event,
            destination=destination,
            namespace=namespace,
            collection=collection,
            point_id=point_id(destination, namespace, event.id),
            version=version,
            read=self.read,
            lifetime=self.documents.expire_after.get(namespace),
        )
        if event.op == "patch":
            patch.check({name: getattr(event, name) for name in event.changed}, {*self.read, *self.searched})
        return document

    def _read(self, message: Message) -> dict[str, Any]:
        rows = self.documents.envelope == "debezium"
        columns = self.documents.columns
        if message.value is None:
            return read_tombstone(message.json_key, columns) if rows else tombstone(message.json_key)
        parsed = parse_message(message, self.max_bytes, MAX_DOCUMENT_PARTS)
        if parsed.warnings:
            self.mended.note(message)
        document = parsed.event
        return from_debezium(document, columns) if rows else rename(document, columns) if columns else document


def read_deletion(given: dict[str, Any]) -> DeletionEvent:
    """The deletion of many that an event asks for.

    Raises InputError, `invalid` also for a filter on the namespace, which a late document lacks while it is hidden.
    """
    event = validate(DeletionEvent, given)
    for place, each in on_fields(event.filters, "filters"):
        if each.field == NAMESPACE:
            raise invalid(f"{place}.field", "the event's own `namespace` says this; leave the filter out", NAMESPACE)
    return event


def _version(message: Message) -> float:
    """Seconds; of a message without a timestamp before all others."""
    return sent_at(message) if message.timestamp >= 0 else message.timestamp


def tombstone(key: bytes | None) -> dict[str, Any]:
    """The deletion that a message without value stands for: its key is the JSON array `[namespace, id]`.

    Raises InputError `invalid` for any other key: an id alone may be anything, and be meant for no deletion.
    """
    try:
        named = orjson.loads(key or b"")
    except orjson.JSONDecodeError:
        named = None
    if not (isinstance(named, list) and len(named) == 2 and all(isinstance(name, str) for name in named)):
        raise InputError(
            DeadLetterClass.INVALID, 'a message without value is a deletion, and its key ["namespace", "id"]', "key"
        )
    namespace, id_ = named
    return {"op": "delete", "namespace": namespace, "id": id_}
