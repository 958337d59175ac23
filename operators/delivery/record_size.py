"""How large a record is: all of its bytes, in a batch of its own, before compression.

What a topic's `max.message.bytes` bounds is the batch, compressed. Without compression this is never less than that,
and more only by what lengths, which are written in as few bytes as they need, leave open.
"""

from collections.abc import Sequence
from typing import Final

_BATCH: Final = 61
_RECORD: Final = 36
"""Length, attributes, time and offset deltas, the lengths of key and value, the count of headers: at their longest."""

_HEADER: Final = 10
"""The lengths of a header's name and value."""


def record_size(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes]]) -> int:
    """The bytes that a topic must take for this record."""
    size = _BATCH + _RECORD + len(key or b"") + len(value or b"")
    for name, content in headers:
        # Hardly a name is anything but ASCII: only those have to be encoded.
        size += _HEADER + (len(name) if name.isascii() else len(name.encode())) + len(content)
    return size
