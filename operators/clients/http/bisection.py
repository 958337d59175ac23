"""Bisection of a refused request: one item that a backend refuses must not cost the others their answer."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from operators.runtime.batching.policy import divided
from schemas.errors import BackendBadResponse, BackendError

Item = TypeVar("Item")
Answer = TypeVar("Answer")

REFUSALS: Final = frozenset({400, 413, 422})
"""Statuses that refuse one request for what is in it: the backend is alive."""

FEWEST: Final = 5
"""A refused request of fewer items is not divided, where calls are dear: it would cost over 1.2 calls an item."""

_FEW: Final = 6


async def bisected(
    items: Sequence[Item], call: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]], *, thorough: bool = False
) -> list[Answer | BackendError]:
    """Call with all of `items`; if they are refused, with each half, and so on: an answer or an error each.

    At most one call more than there are items, and none but the first for fewer than FEWEST: what is refused after that
    fails together. Raises BackendError if the first call fails and its items are not asked in parts.

    `thorough`: every item that is refused is refused alone, however many calls that takes; nothing is raised.
    """
    left = len(items) if len(items) >= FEWEST else 0
    answers: list[Answer | BackendError] = []
    # One after the other: the first call was given one place at the backend.
    waiting = [items] if items else []
    while waiting:
        batch = waiting.pop()
        parts: list[Sequence[Item]] = []
        try:
            answers += await call(batch)
        except BackendError as error:
            if isinstance(error, BackendBadResponse) and error.status in REFUSALS:
                parts = divided(batch) if thorough else divided(batch, singly=min(left, _FEW), most=left)
            if not parts and batch is items and not thorough:
                raise
            if not parts:
                answers += [error] * len(batch)
        left -= len(parts)
        waiting += reversed(parts)
    return answers
