"""The watermarks of all namespaces, from the records that indexing publishes; cached answers depend on them.

Rules
-----
- A record's key is `collection|namespace|documents partition`, its value the offset of the last document applied. A
  record without a value removes the entry. The last record read wins, also over a greater offset: the documents topic
  may have been created again. Such a record starts a new generation, since a watermark may then take a value again that
  it had for other documents. So does an offset that is repeated: it may be the only sign of the same event.
- Names may hold `|`: two namespaces with the same joined names share a watermark. It then moves too often, never too
  seldom.
- Any other record changes nothing.
"""

import re
from typing import Final

_PARTITION: Final = re.compile("0|[1-9][0-9]{0,18}")
_OFFSET: Final = re.compile(rb"0|[1-9][0-9]{0,18}")


class WatermarkTable:
    """The watermark of each namespace of each collection: how far its documents are indexed."""

    def __init__(self) -> None:
        self._offsets: dict[str, dict[int, int]] = {}
        self.generation = 0
        """Counts the offsets that went back, were repeated, or were removed."""

    def __len__(self) -> int:
        """The number of namespaces that have a watermark."""
        return len(self._offsets)

    def apply(self, key: bytes, value: bytes | None) -> bool:
        """Apply a record; False if it is no watermark."""
        try:
            names, _, number = key.decode().rpartition("|")
        except UnicodeDecodeError:
            return False
        if "|" not in names or not _PARTITION.fullmatch(number):
            return False
        partition = int(number)
        if value is None:
            self._remove(names, partition)
        elif _OFFSET.fullmatch(value):
            offsets, offset = self._offsets.setdefault(names, {}), int(value)
            self.generation += partition in offsets and offset <= offsets[partition]
            offsets[partition] = offset
        else:
            return False
        return True

    def of(self, collection: str, namespace: str) -> tuple[str, ...]:
        """A namespace's watermark: `partition:offset` by partition; empty if none of its documents was ever indexed."""
        offsets = self._offsets.get(f"{collection}|{namespace}", {})
        return tuple(f"{partition}:{offset}" for partition, offset in sorted(offsets.items()))

    def _remove(self, names: str, partition: int) -> None:
        offsets = self._offsets.get(names, {})
        self.generation += offsets.pop(partition, None) is not None
        if not offsets:
            self._offsets.pop(names, None)
