"""What is refused together is asked apart: one item that a backend refuses must not cost the others their answer."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from schemas.errors import BackendBadResponse, BackendError

Item = TypeVar("Item")
Answer = TypeVar("Answer")

REFUSALS: Final = frozenset({400, 413, 422})
"""Statuses that refuse one request for what is in it: the backend is alive."""

FEWEST: Final = 5
"""Of how many items a refused request must be to be asked apart: with fewer it would cost over 1.2 calls an item."""

_FEW: Final = 6


async def apart(
    items: Sequence[Item], call: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]]
) -> list[Answer | BackendError]:
    """Call with all of `items`; if they are refused, with each half, and so on: an answer or an error each.

    At most one call more than there are items; what is refused after that fails together, as do fewer than FEWEST.
    Raises BackendError if the first call fails otherwise, or is refused and not asked apart.
    """
    left = len(items)

    async def to_float16(some: Sequence[Item], refusal: BackendBadResponse) -> list[Answer | BackendError]:
        nonlocal left
        # Of a few, halves cost more than each by itself.
        size = 1 if len(some) <= min(left, _FEW) else len(some) - len(some) // 2
        parts = [some[start : start + size] for start in range(0, len(some), size)]
        if len(some) == 1 or left < len(parts):
            return [refusal] * len(some)
        left -= len(parts)
        # One after the other: whoever made the first call holds one place at the backend.
        return [answer for each in parts for answer in await part(each)]

    async def part(some: Sequence[Item]) -> list[Answer | BackendError]:
        try:
            return list(await call(some))
        except BackendBadResponse as error:
            if error.status in REFUSALS:
                return await to_float16(some, error)
            return [error] * len(some)
        except BackendError as error:
            return [error] * len(some)

    try:
        return list(await call(items))
    except BackendBadResponse as error:
        if error.status not in REFUSALS or len(items) < FEWEST:
            raise
        return await to_float16(items, error)
