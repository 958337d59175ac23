"""Which offsets of one partition are answered, and the commit that tells a new owner so. Pure.

Rules:
- An offset is *seen* when it was read, in rising order; offsets have gaps (control records, aborted transactions), so
  the next one is never assumed to be +1.
- The first record at an offset is the one that counts: there is one position for both.
- It is *done* when its output record is committed.
- The committed position is the end of the unbroken run of done offsets; the commit's metadata holds the done offsets
  beyond it. A new owner starts at the position and skips those.
- What is *passed* holds no more records: a partition may end in the marks of transactions. The unbroken run extends
  over it, so that nothing that can't be read looks unread.
- `plan_commit` says what a transaction would commit; only `apply_commit`, after the broker committed it, changes the
  state.
"""

import base64
import binascii
from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from types import MappingProxyType
from typing import Final, NamedTuple

METADATA_LIMIT: Final = 4096
"""The broker's default `offset.metadata.max.bytes`."""

_VERSION: Final = "rs1:"

_MOST_DONE: Final = 1 << 20
"""Far more than are answered in one partition while a query waits for its deadline: more means damaged metadata."""


class RepeatedOffset(Exception):
    """A partition holds a second record at an offset that was read already.

    No sound log does. A broker whose disk was full has been seen to write one: it put a record in its log, failed at
    the index, and took the producer's next attempt at the same offset.
    """


class Commit(NamedTuple):
    """A position and its metadata."""

    offset: int
    metadata: str


class CommitPlan(NamedTuple):
    """A transaction's commit for one partition: `accepted` offsets become done, `waiting` ones don't fit in yet.

    Of an offset with further ones, `waiting` has the first.
    """

    commit: Commit
    accepted: tuple[int, ...]
    waiting: tuple[int, ...]


class OffsetTracker:
    """The offsets of one partition, from one assignment to its end."""

    __slots__ = ("_done", "_passed", "_seen", "position")

    def __init__(self, committed: Commit) -> None:
        self._passed = committed.offset
        self.position = committed.offset
        """The offset at which a new owner would start."""
        self._seen: deque[int] = deque()
        self._done = {offset for offset in decode(committed) if offset >= committed.offset}

    def __repr__(self) -> str:
        return f"<OffsetTracker at {self.position}: {self.in_flight} in flight, {len(self._done)} done>"

    @property
    def next_offset(self) -> int:
        """The lowest offset that may still come."""
        return max(self._passed, self.position, self._seen[-1] + 1 if self._seen else 0)

    @property
    def advances(self) -> bool:
        """True if nothing is in flight, and the position can move on without an answer."""
        return self.next_offset > self.position and self._done.issuperset(self._seen)

    @property
    def in_flight(self) -> int:
        """Offsets seen but not done."""
        return sum(1 for offset in self._seen if offset not in self._done)

    def see(self, offset: int) -> bool:
        """Note that `offset` was read; False if an earlier owner has answered it already.

        Raises RepeatedOffset for an offset that isn't above the last one.
        """
        if offset < self.next_offset:
            raise RepeatedOffset(f"offset {offset}, and not {self.next_offset} or above")
        self._seen.append(offset)
        return offset not in self._done

    def pass_over(self, offset: int) -> None:
        """Note that what is below `offset`, and was not seen, is no record to read."""
        self._passed = max(self._passed, offset)

    def plan_commit(
        self,
        offsets: Collection[int],
        *,
        limit: int = METADATA_LIMIT,
        further: Mapping[int, Sequence[int]] = MappingProxyType({}),
    ) -> CommitPlan:
        """The commit when `offsets` are answered too; the highest wait while the metadata is over `limit` bytes.

        An offset is done together with its `further` ones, which are above it and rise: all of them wait, or none.
        Raises ValueError for an offset that isn't in flight.
        """
        accepted = sorted(chain(offsets, *further.values()))
        seen = set(self._seen)
        for offset in accepted:
            if offset not in seen or offset in self._done:
                raise ValueError(f"offset {offset} is not in flight")
        commit = self._commit(self._done.union(accepted))
        if len(commit.metadata) <= limit:
            return CommitPlan(commit, tuple(accepted), ())
        groups = sorted(((offset, *further.get(offset, ())) for offset in offsets), key=itemgetter(-1))

        def commit_first(count: int) -> Commit:
            return self._commit(self._done.union(*groups[:count]))

        # The more groups, the longer the metadata, nearly always: thousands of them need a few tries.
        count = bisect_left(range(1, len(groups)), True, key=lambda each: len(commit_first(each).metadata) > limit)
        accepted, waiting = sorted(chain.from_iterable(groups[:count])), sorted(each[0] for each in groups[count:])
        return CommitPlan(commit_first(count), tuple(accepted), tuple(waiting))

    def apply_commit(self, plan: CommitPlan) -> None:
        """Note that the broker has committed the plan."""
        self._done.update(plan.accepted)
        self.position = max(self.position, plan.commit.offset)
        while self._seen and self._seen[0] < self.position:
            self._seen.popleft()
        self._done = {offset for offset in self._done if offset >= self.position}

    def _commit(self, done: set[int]) -> Commit:
        position = next((offset for offset in self._seen if offset not in done), self.next_offset)
        return encode(position, sorted(offset for offset in done if offset >= position))


def encode(position: int, done: Sequence[int]) -> Commit:
    """Write the done offsets at or beyond `position`, rising, as runs: varints of gap and length in turn, in base64."""
    if not done:
        return Commit(position, "")
    numbers: list[int] = []
    end = position
    for offset in done:
        if numbers and offset == end:
            numbers[-1] += 1
        else:
            numbers += [offset - end, 1]
        end = offset + 1
    data = b"".join(_varint(number) for number in numbers)
    return Commit(position, _VERSION + base64.b64encode(data).decode("ascii"))


def decode(commit: Commit) -> list[int]:
    """Read the done offsets from a commit; foreign or damaged metadata holds none."""
    if not commit.metadata.startswith(_VERSION):
        return []
    try:
        numbers = list(_varints(base64.b64decode(commit.metadata[len(_VERSION) :], validate=True)))
    except (binascii.Error, ValueError):
        return []
    if sum(numbers[1::2]) > _MOST_DONE:
        return []
    done: list[int] = []
    end = commit.offset
    for gap, length in zip(numbers[::2], numbers[1::2], strict=False):
        done += range(end + gap, end + gap + length)
        end += gap + length
    # Damaged metadata that can still be parsed would skip queries without an answer.
    return done if encode(commit.offset, done) == commit else []


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _varints(data: bytes) -> Iterable[int]:
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield number
            number = shift = 0
    if shift:
        raise ValueError("cut short")
