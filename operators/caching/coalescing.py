"""Request coalescing (singleflight): of identical queries in flight one, the leader, is computed for all."""

from typing import Generic, TypeVar

T = TypeVar("T")


class Coalescer(Generic[T]):
    """The leader of each key: at most one item, until it is done."""

    def __init__(self) -> None:
        self._leading: dict[bytes, T] = {}

    def lead(self, key: bytes, item: T) -> None:
        """Make the item the key's leader. Raises ValueError if the key has one."""
        if key in self._leading:
            raise ValueError("this key has a leader")
        self._leading[key] = item

    def of(self, key: bytes) -> T | None:
        """The key's leader; None without one."""
        return self._leading.get(key)

    def done(self, key: bytes) -> None:
        """Remove the key's leader; does nothing without one."""
        self._leading.pop(key, None)

    def __len__(self) -> int:
        return len(self._leading)
