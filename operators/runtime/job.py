"""An item's requests on their way, and the calls that carry them. Used on the event-loop thread alone."""

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from schemas.errors import BackendError

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True, eq=False)
class Job(Generic[T, R]):
    """An item, the outcomes of its requests, and how many of them have none yet."""

    item: T
    waiting: int
    outcomes: "dict[Hashable, R | BackendError]" = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Call:
    """A call of so many units, and how many requests wait for it.

    `took` is its duration in seconds; None if that says nothing of how long calls take. `answered`: it brought answers,
    otherwise it was given up by then.
    """

    started: float
    waiting: int
    units: int
    task: "asyncio.Task[None] | None" = None
    took: float | None = None
    answered: bool = True


@dataclass(slots=True, eq=False)
class Live(Generic[T, R]):
    """The job that a request belongs to, and the calls that carry it, by the first unit that each has of it."""

    job: Job[T, R]
    batch_key: Hashable
    since: float
    calls: dict[int, Call] = field(default_factory=dict)

    def release(self, start: int) -> None:
        """Wait no more for the units from `start` on; a call that no request waits for is cancelled."""
        for unit in [unit for unit in self.calls if unit >= start]:
            call = self.calls.pop(unit)
            call.waiting -= 1
            if not call.waiting and call.task is not None:
                call.task.cancel()
