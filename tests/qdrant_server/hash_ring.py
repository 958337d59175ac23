"""Which shard holds a point: the hash ring of Qdrant's server, so that a collection is split here as it is there."""

import bisect
from functools import cache
from uuid import UUID

MASK = 2**64 - 1
NODES_A_SHARD = 100


def shard_of(identity: int | UUID | str, shards: int) -> int:
    """The number of the shard, below `shards`, that holds the point of this id."""
    if shards == 1:
        return 0
    keys, owners = _ring(shards)
    at = bisect.bisect_left(keys, _siphash(_bytes(identity)))
    return owners[at % len(owners)]


@cache
def _ring(shards: int) -> tuple[list[int], list[int]]:
    nodes = sorted(
        (_siphash(shard.to_bytes(4, "little") + number.to_bytes(4, "little")), shard)
        for shard in range(shards)
        for number in range(NODES_A_SHARD)
    )
    return [key for key, _ in nodes], [shard for _, shard in nodes]


def _bytes(identity: int | UUID | str) -> bytes:
    if isinstance(identity, int):
        return bytes(8) + identity.to_bytes(8, "little")
    return (1).to_bytes(8, "little") + (16).to_bytes(8, "little") + UUID(str(identity)).bytes


def _siphash(data: bytes) -> int:
    """SipHash-2-4 with a key of zeros."""
    state = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 0xFF])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        a, b, c, d = _round(_round((state[0], state[1], state[2], state[3] ^ word)))
        state = (a ^ word, b, c, d)
    a, b, c, d = _round(_round(_round(_round((state[0], state[1], state[2] ^ 0xFF, state[3])))))
    return a ^ b ^ c ^ d


def _round(state: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    a, b, c, d = state
    a, c = (a + b) & MASK, (c + d) & MASK
    b, d = _left(b, 13) ^ a, _left(d, 16) ^ c
    a, c = (_left(a, 32) + d) & MASK, (c + b) & MASK
    b, d = _left(b, 17) ^ c, _left(d, 21) ^ a
    return a, b, _left(c, 32), d


def _left(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & MASK
