"""Dead letters: the original message untouched, with headers that say what was wrong with it.

The header names are those of Kafka Connect's dead letter queue reporter, so that its tools read them.
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

MAX_MESSAGE_CHARS: Final = 512
"""An error message in a header is cut here: it can quote a value of any length."""
