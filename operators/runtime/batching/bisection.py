"""Bisection: a batch that is refused whole is divided, so that one item cannot cost the others their answer. Pure."""

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def divided(items: Sequence[Item], *, singly: int = 1, most: int | None = None) -> list[Sequence[Item]]:
    """The batches that a refused one is sent as, in the items' order; none if it cannot be divided.

    They are its halves; of at most `singly` items they are the items one by one, because halves of a few cost more
    calls. None either if they would be more than `most` batches.
    """
    size = 1 if len(items) <= singly else len(items) - len(items) // 2
    parts = [items[start : start + size] for start in range(0, len(items), size)] if len(items) > 1 else []
    return parts if most is None or len(parts) <= most else []
