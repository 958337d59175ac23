"""The dead-letter topic, read once: from its beginning to the end that it has at the start, and in no group.

So reading comes to an end, even if it adds to the topic itself, and disturbs no group.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from operators.delivery.client import BoundedReader
from operators.delivery.replay import Letter

Moved = Callable[[int, int], None]
"""Told (read, all) offsets from time to time."""

_POLL: Final = 0.2


def dead_letters(reader: BoundedReader, moved: Moved) -> Iterator[Letter | None]:
    """Each letter that is there when the first is asked for, once; None for a record that is none.

    `reader` is at the beginning of the topic. Raises DeliveryError.
    """
    begins, ends = reader.positions(), reader.ends()

    def tell(reached: Mapping[int, int]) -> None:
        read = sum(min(reached[number], end) - begins[number] for number, end in ends.items())
        moved(read, sum(ends.values()) - sum(begins.values()))

    reached = dict(begins)
    while any(reached[number] < end for number, end in ends.items()):
        for record in reader.poll(_POLL):
            number = record.partition.partition
            if record.offset < ends[number]:
                headers, timestamp_ms = record.headers, round(record.timestamp * 1000)
                yield None if headers is None else Letter.read(record.key, record.value, headers, timestamp_ms)
                reached[number] = record.offset + 1
                tell(reached)
        # A transaction's end is an offset without a record: only the position says that it is behind.
        reached = reader.positions()
        tell(reached)
