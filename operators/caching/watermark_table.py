"""The watermarks of all namespaces, from the records that indexing publishes; cached answers depend on them.

- A record's key is `collection|namespace|documents partition`, its value the offset of the last document applied. A
  record without a value removes the entry. The last record read wins, also over a greater offset: the documents topic
  may have been created again. Such a record starts a new generation, since a watermark may then take a value again that
  it had for other documents. So does an offset that is repeated: it may be the only sign of the same event.
- Names may hold `|`: two namespaces with the same joined names share a watermark. It then moves too often, never too
  seldom.
- Any other record changes nothing. Nor does a new namespace beyond MOST: it has no watermark, so its answers are not
  cached.
"""

import re
from array import array
from bisect import bisect_left
from typing import Final

from schemas.errors import DeadLetterClass, InputError

MOST: Final = 1_000_000
"""Namespaces of all collections at most: each takes some 300 bytes."""

_PARTITION: Final = re.compile("0|[1-9][0-9]{0,17}")
_OFFSET: Final = re.compile(rb"0|[1-9][0-9]{0,18}")


class WatermarkTable:
    """The watermark of each namespace of each collection: how far its documents are indexed."""

    def __init__(self) -> None:
        # Partitions, ascending, each with its offset behind it.
        self._offsets: dict[str, array[int]] = {}
        self.generation = 0
        """Counts the offsets that went back, were repeated, or were removed."""

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Apply a record. Raises InputError if it is no watermark."""
        try:
            names, _, number = key.decode().rpartition("|")
        except UnicodeDecodeError:
            names = number = ""
        is_offset = value is None or (_OFFSET.fullmatch(value) is not None and int(value) < 2**63)
        if not is_offset or "|" not in names or not _PARTITION.fullmatch(number):
            raise InputError(DeadLetterClass.INVALID, "a watermark is expected")
        if value is None:
            self._remove(names, int(number))
        else:
            self._set(names, int(number), int(value))

    def of(self, collection: str, namespace: str) -> tuple[str, ...]:
        """A namespace's watermark: `partition:offset` by partition; empty if none of its documents was ever indexed."""
        pairs = iter(self._offsets.get(f"{collection}|{namespace}", ()))
        return tuple(f"{partition}:{offset}" for partition, offset in zip(pairs, pairs, strict=True))

    def _set(self, names: str, partition: int, offset: int) -> None:
        pairs = self._offsets.get(names)
        if pairs is None:
            if len(self._offsets) < MOST:
                self._offsets[names] = array("q", (partition, offset))
            return
        at, known = _find(pairs, partition)
        if known:
            self.generation += offset <= pairs[at + 1]
            pairs[at + 1] = offset
        else:
            pairs[at:at] = array("q", (partition, offset))

    def _remove(self, names: str, partition: int) -> None:
        pairs = self._offsets.get(names, array("q"))
        at, known = _find(pairs, partition)
        if known:
            self.generation += 1
            del pairs[at : at + 2]
        if not pairs:
            self._offsets.pop(names, None)


def _find(pairs: "array[int]", partition: int) -> tuple[int, bool]:
    """The index of a partition, or where it belongs, and whether it is there."""
    at = 2 * bisect_left(pairs[::2], partition)
    return at, at < len(pairs) and pairs[at] == partition
