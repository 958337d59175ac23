"""Documents in flight as the indexing tests need them."""

from collections.abc import Iterable, Mapping
from typing import Any

from operators.indexing.decode import DocumentDecoder
from operators.indexing.document import DeletionInFlight, DocumentInFlight
from operators.query.collection import Destinations
from operators.wire.message import Message
from tests.operators.samples import DIMENSION, message


def decoder(**changes: Any) -> DocumentDecoder:
    """A decoder of two destinations, `default` first."""
    fields: dict[str, Any] = {
        "max_bytes": 10_000,
        "destinations": Destinations({"default": "documents", "other": "elsewhere"}),
        "default_destination": "default",
        "default_namespace": "public",
        "dimension": DIMENSION,
    }
    return DocumentDecoder(**{**fields, **changes})


def document(offset: int = 0, **event: Any) -> DocumentInFlight:
    """A document in flight, as `decode` makes it."""
    content = {} if event.get("op") == "patch" else {"text": "some content"}
    return read(decoder(), message({"id": "d", **content, **event}, offset))


def deletion(offset: int = 0, **event: Any) -> DeletionInFlight:
    """A deletion of many in flight, as `decode` makes it."""
    made = decoder()(message({"op": "delete_where", "namespace": "public", **event}, offset))
    assert isinstance(made, DeletionInFlight)
    return made


def in_flight(events: Iterable[Mapping[str, Any]]) -> list[DocumentInFlight | DeletionInFlight]:
    """Events in flight, those of many documents among them, at offsets from 0."""
    return [
        deletion(offset, **event) if event.get("op") == "delete_where" else document(offset, **event)
        for offset, event in enumerate(events)
    ]


def read(decode: DocumentDecoder, given: Message) -> DocumentInFlight:
    """The document that the message brings."""
    made = decode(given)
    assert isinstance(made, DocumentInFlight)
    return made
