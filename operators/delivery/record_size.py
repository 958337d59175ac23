"""The size of a record: all its bytes, in a batch of its own, before compression.

A topic's `max.message.bytes` limits the compressed batch. Without compression the size here is never below the batch's.
It is above it only by the bytes that Kafka's variable-length numbers save.
"""

from collections.abc import Sequence
from typing import Final

_BATCH: Final = 61
_RECORD: Final = 36
"""Length, attributes, time and offset deltas, the lengths of key and value, the count of headers: at their longest."""

_HEADER: Final = 10
"""The lengths of a header's name and value."""


def record_size(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes]]) -> int:
    """The bytes of the record: its topic takes it if `max.message.bytes` is at least this."""
    size = _BATCH + _RECORD + len(key or b"") + len(value or b"")
    for name, content in headers:
        # Nearly all names are ASCII; only the others have to be encoded.
        size += _HEADER + (len(name) if name.isascii() else len(name.encode())) + len(content)
    return size
