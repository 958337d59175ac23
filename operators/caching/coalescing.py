"""Leaders: the queries in flight, by their exact key, so that what is identical is computed once."""

from typing import Generic, TypeVar

T = TypeVar("T")


class Coalescer(Generic[T]):
    """Who computes the answer of a key: at most one item a key, until it is done."""

    def __init__(self) -> None:
        self._leading: dict[bytes, T] = {}

    def lead(self, key: bytes, item: T) -> None:
        """Let the item compute this key's answer. Raises ValueError if another one does."""
        if key in self._leading:
            raise ValueError("this key has a leader")
        self._leading[key] = item

    def of(self, key: bytes) -> T | None:
        """Who computes this key's answer."""
        return self._leading.get(key)

    def done(self, key: bytes) -> None:
        """The key's answer is no longer computed; nothing happens if nobody computed it."""
        self._leading.pop(key, None)

    def __len__(self) -> int:
        return len(self._leading)
