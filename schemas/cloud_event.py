"""CloudEvents 1.0: the names under which a query may come, and what its result is called.

The Kafka protocol binding has two modes: binary, the attributes in headers, and structured, an envelope of JSON.
"""

from typing import Final

SPECVERSION: Final = "1.0"

HEADER_PREFIX: Final = "ce_"
CONTENT_TYPE: Final = "content-type"
"""The header that names the type of a message's value."""

MEDIA_TYPE: Final = "application/cloudevents"
"""What the content type of every envelope begins with, of those in other formats and of batches too."""

ENVELOPE: Final = f"{MEDIA_TYPE}+json"
JSON: Final = "application/json"

RESULT_TYPE: Final = "dev.rankstream.result.v1"

CORRELATION_ID: Final = "correlationid"
"""Of the correlation extension: handed on from the query to its result."""

CAUSATION_ID: Final = "causationid"
"""Of the correlation extension: the query's `id`, in its result."""

CAUSATION_SOURCE: Final = "causationsource"
"""Our own extension: the query's `source`, in its result; an `id` is unique within its source only."""
