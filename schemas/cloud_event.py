"""CloudEvents 1.0: the names of headers, attributes and content types for queries and results.

The Kafka protocol binding has two modes. In binary mode the attributes are headers; in structured mode the message is a
JSON envelope.
"""

from typing import Final

SPECVERSION: Final = "1.0"

HEADER_PREFIX: Final = "ce_"
CONTENT_TYPE: Final = "content-type"
"""The header with the media type of a message's value."""

MEDIA_TYPE: Final = "application/cloudevents"
"""The beginning of every envelope's content type, including other formats and batches."""

ENVELOPE: Final = f"{MEDIA_TYPE}+json"
JSON: Final = "application/json"

MAX_ATTRIBUTES: Final = 64
MAX_ATTRIBUTE_CHARS: Final = 4096
"""Bounds of a query's envelope: each attribute is read, and some are in the result, too."""

RESULT_TYPE: Final = "dev.rankstream.result.v1"

CORRELATION_ID: Final = "correlationid"
"""An attribute of the correlation extension, copied from the query to its result."""

CAUSATION_ID: Final = "causationid"
"""An attribute of the correlation extension: in a result, the `id` of its query."""

CAUSATION_SOURCE: Final = "causationsource"
"""An extension of rankstream: in a result, the `source` of its query. An `id` is unique within its source only."""
