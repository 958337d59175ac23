"""Decode: a message's bytes become a document in flight, or a named error.

A row becomes an event first (operators.mapping.rows), then its values are read in their formats, and its markup becomes
text. In the envelope `debezium`, a message without value is a deletion, whose key has the columns of the id and of the
namespace.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import structlog

from operators.access.filters import on_fields
from operators.indexing.document import DeletionInFlight, DocumentInFlight
from operators.indexing.markup import read_markup
from operators.mapping.own_names import OwnNames
from operators.mapping.rows import name_by_texts, read_row, rename_columns, unwrap
from operators.query.collection import Destinations
from operators.wire.message import Message, check_headers, sent_at
from operators.wire.parsing import parse_message
from schemas import document as keys
from schemas.document import DeletionEvent, DocumentEvent, point_id
from schemas.errors import DeadLetterClass, InputError, invalid
from schemas.event import HALF_REPLACED, check_dimension, validate
from schemas.filters import find_values
from schemas.geo import read_coordinates
from schemas.settings import DocumentSettings

_CONTENT: Final = ("title", keys.TEXT, keys.VECTOR, keys.LANG)

NAMES: Final = ("id", keys.NAMESPACE, keys.DESTINATION, "collection")
"""Fields of an event that name its document."""

_TOMBSTONE: Final = "a message without value is a deletion, and its key"
_PATCH: Final = "a patch changes no field that is embedded or searched by words; send an upsert of the whole document"

log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DocumentDecoder:
    """Turns messages into documents, and deletions of many, under one configuration."""

    max_bytes: int
    destinations: Destinations
    default_destination: str
    default_namespace: str
    dimension: int
    documents: DocumentSettings = field(default_factory=DocumentSettings)
    read: tuple[str, ...] = keys.COLUMNS
    searched: tuple[str, ...] = keys.COLUMNS
    geo_fields: tuple[str, ...] = ()

    def __call__(self, message: Message) -> DocumentInFlight | DeletionInFlight:
        """The event that the message brings. Raises InputError."""
        check_headers(message, self.max_bytes)
        return self.to_in_flight(message, self._read(message))

    def delete(self, message: Message) -> DocumentInFlight | DeletionInFlight:
        """The deletion of the document that a message brings, which may lack all but its names. Raises InputError."""
        event = self._read(message)
        named = {name: event[name] for name in NAMES if event.get(name) is not None}
        return self.to_in_flight(message, {**named, "op": "delete"})

    def to_in_flight(self, message: Message, given: dict[str, Any]) -> DocumentInFlight | DeletionInFlight:
        """An event as a document, or a deletion of many, with its place in the index. Raises InputError."""
        event = read_deletion(given) if given.get("op") == keys.DELETE_WHERE else validate(DocumentEvent, given)
        destination = event.destination if event.destination is not None else self.default_destination
        collection = self.destinations.collection(destination, event.collection)
        namespace = event.namespace if event.namespace is not None else self.default_namespace
        version = round((event.updated_at if event.updated_at is not None else _version(message)) * 1000)
        if isinstance(event, DeletionEvent):
            point = point_id(destination, namespace)
            return DeletionInFlight(message, event, destination, namespace, collection, point, version)
        check_dimension(event.vector, self.dimension)
        if event.op == "patch":
            self._check_patch(event)
        for path in self.geo_fields:
            _check_points(path, event.model_extra or {})
        point, lifetime = point_id(destination, namespace, event.id), self.documents.expire_after.get(namespace)
        return DocumentInFlight(
            message, event, destination, namespace, collection, point, version, read=self.read, lifetime=lifetime
        )

    def _check_patch(self, event: DocumentEvent) -> None:
        roots = {*_CONTENT, *(path.partition(".")[0] for path in (*self.read, *self.searched))}
        if found := sorted(roots & event.changed):
            raise invalid(found[0], _PATCH, getattr(event, found[0]))

    def _read(self, message: Message) -> dict[str, Any]:
        rows = self.documents.envelope == "debezium"
        columns = self.documents.columns
        if message.value is None:
            return read_tombstone(message.json_key, columns) if rows else tombstone(message.json_key)
        parsed = parse_message(message, self.max_bytes, keys.MAX_DOCUMENT_PARTS)
        if parsed.warnings:
            log.warning(HALF_REPLACED, **message.origin.log_fields, count=1)
        event = read_row(parsed.event, self.documents)
        if event.get("op") == keys.DELETE_WHERE:
            return OwnNames(columns).read(event)
        return read_markup(event, self.documents)


def read_deletion(given: dict[str, Any]) -> DeletionEvent:
    """The deletion of many that an event asks for.

    Raises InputError, `invalid` also for a filter on the namespace, which a late document lacks while it is hidden.
    """
    event = validate(DeletionEvent, given)
    for place, each in on_fields(event.filters, "filters"):
        if each.field == keys.NAMESPACE:
            cure = "the event's own `namespace` says this; leave the filter out"
            raise invalid(place, cure, keys.NAMESPACE)
    return event


def _check_points(path: str, fields: Mapping[str, Any]) -> None:
    for value in find_values(fields, path):
        for each in value if isinstance(value, list) else [value]:
            # Exports write an unknown place as a point without degrees.
            unknown = each is None or each == {"lat": None, "lon": None}
            if not unknown and ((place := read_coordinates(each)) is None or not place.on_earth):
                wanted = (
                    "a point {lat, lon} is expected, from -90 to 90 and from -180 to 180 degrees, or a list of points"
                )
                raise invalid(path, wanted, each)


def _version(message: Message) -> float:
    """Seconds; of a message without a timestamp before all others."""
    return sent_at(message) if message.timestamp >= 0 else message.timestamp


def tombstone(key: bytes | None) -> dict[str, Any]:
    """The deletion that a message without value stands for: its key is the JSON array `[namespace, id]`.

    Raises InputError `invalid` for any other key: an id alone may be anything, and be meant for no deletion.
    """
    named = _read_key(key)
    if not (isinstance(named, list) and len(named) == 2 and all(isinstance(name, str) for name in named)):
        raise InputError(DeadLetterClass.INVALID, f'{_TOMBSTONE} ["namespace", "id"]', "key")
    namespace, id_ = named
    return {"op": "delete", "namespace": namespace, "id": id_}


def read_tombstone(key: bytes | None, columns: Mapping[str, str]) -> dict[str, Any]:
    """The deletion that a message without value stands for. Raises InputError `invalid` for a key without an id."""
    row = _read_key(key)
    event = name_by_texts(rename_columns(unwrap(row), columns)) if isinstance(row, dict) else {}
    if event.get("id") is None:
        raise InputError(DeadLetterClass.INVALID, f"{_TOMBSTONE} has the column {columns.get('id', 'id')}", "key")
    return {"op": "delete", **{name: event[name] for name in ("id", keys.NAMESPACE) if event.get(name) is not None}}


def _read_key(key: bytes | None) -> object:
    try:
        return orjson.loads(key or b"")
    except orjson.JSONDecodeError:
        return None
