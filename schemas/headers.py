"""Headers and attributes of messages: their names in CloudEvents 1.0 and in dead letters.

The names of a dead letter's headers are those of Kafka Connect's dead letter queue reporter, so that tools for it can
read them. CloudEvents' Kafka protocol binding has two modes: in binary mode the attributes are headers; in structured
mode the message is a JSON envelope.

Names are compared as HTTP compares its own: the case of ASCII's letters doesn't count. Unicode's case is another thing:
the Kelvin sign has `k` as its lower case. Who is kept from setting a header must not set it by a name that only looks
the same to us.
"""

from string import ascii_lowercase, ascii_uppercase
from typing import Final

_LOWER: Final = str.maketrans(ascii_uppercase, ascii_lowercase)


def fold_name(name: str) -> str:
    """The name with ASCII's letters in lower case, and all others as they are."""
    return name.lower() if name.isascii() else name.translate(_LOWER)


SPECVERSION: Final = "1.0"

HEADER_PREFIX: Final = "ce_"
CONTENT_TYPE: Final = "content-type"
"""The header with the media type of a message's value."""

MEDIA_TYPE: Final = "application/cloudevents"
"""The beginning of every envelope's content type, including other formats and batches."""

ENVELOPE: Final = f"{MEDIA_TYPE}+json"
JSON: Final = "application/json"

MAX_HEADERS: Final = 1_000
"""Headers of a message at most: to read one takes a client a microsecond, and nothing else of a message costs that."""

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


ERROR_PREFIX: Final = "__connect.errors."
"""The beginning of the names of a dead letter's own headers."""

TOPIC: Final = ERROR_PREFIX + "topic"
PARTITION: Final = ERROR_PREFIX + "partition"
OFFSET: Final = ERROR_PREFIX + "offset"
STAGE: Final = ERROR_PREFIX + "stage"
CLASS: Final = ERROR_PREFIX + "exception.class.name"
MESSAGE: Final = ERROR_PREFIX + "exception.message"
TRACE_ID: Final = ERROR_PREFIX + "trace.id"
TIMESTAMP: Final = ERROR_PREFIX + "timestamp"
REFUSED: Final = ERROR_PREFIX + "refused"

SENDING: Final = "send"
"""The stage of a dead letter without payload, which stands for a record that its topic does not take."""

OWN_PREFIX: Final = "rankstream."
REPLAYED: Final = f"{OWN_PREFIX}replayed"
"""The header of a message that `replay` sent: the place of the first message, and the reason why that was rejected."""

MAX_MESSAGE_CHARS: Final = 512
"""Length at which an error message in a header is cut, since it can quote a value of any length."""
