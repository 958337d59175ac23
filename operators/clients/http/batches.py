"""Splitting one request over a backend's limit into several, answered whole or not at all."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


async def in_batches(
    items: Sequence[Item], size: int, call: Callable[[Sequence[Item]], Coroutine[Any, Any, Answer]]
) -> list[Answer]:
    """Call `call` at once on each run of at most `size` items and return the answers in the items' order.

    Raises what the first failing call raised, after cancelling the others.
    """
    batches = [items[start : start + size] for start in range(0, len(items), size)]
    if len(batches) == 1:
        return [await call(batches[0])]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call(batch)) for batch in batches]
    except ExceptionGroup as failures:
        failure = failures.exceptions[0]
    else:
        return [task.result() for task in tasks]
    raise failure
