"""Documents in flight as the indexing tests need them."""

from typing import Any

from operators.indexing.decode import DocumentDecoder
from operators.indexing.document import DocumentInFlight
from operators.query.collection import Destinations
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
    return decoder()(message({"id": "d", **content, **event}, offset))
