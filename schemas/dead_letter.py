"""Dead letters: the original message, unchanged, with headers that describe the error.

The header names are those of Kafka Connect's dead letter queue reporter, so that tools for it can read them.
"""

from typing import Final

_PREFIX: Final = "__connect.errors."

TOPIC: Final = _PREFIX + "topic"
PARTITION: Final = _PREFIX + "partition"
OFFSET: Final = _PREFIX + "offset"
STAGE: Final = _PREFIX + "stage"
CLASS: Final = _PREFIX + "exception.class.name"
MESSAGE: Final = _PREFIX + "exception.message"
TRACE_ID: Final = _PREFIX + "trace.id"
TIMESTAMP: Final = _PREFIX + "timestamp"
REFUSED: Final = _PREFIX + "refused"

MAX_MESSAGE_CHARS: Final = 512
"""Length at which an error message in a header is cut, since it can quote a value of any length."""
