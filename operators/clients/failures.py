"""Calls in parts, of what is too long or was refused; failures of backends, and the log of outages.

- The failures of one reason are an outage from the first on. The first success in its scope ends it, any success where
  it has no scope. The refusal of a single request is none.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import structlog

from operators.runtime.batching.policy import chunks, divide
from schemas.errors import BackendError, Blame, Reason

log = structlog.stdlib.get_logger(__name__)

_FEW: Final = 6

MOST_PARTS: Final = 64
"""Most calls in which a refused one is made again, where calls are dear."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


async def attempt(call: Awaitable[Answer]) -> Answer | BackendError:
    """The answer of a call, or its failure."""
    try:
        return await call
    except BackendError as error:
        return error


def at_deadline(waited: float, given: float) -> bool:
    """True if a call cancelled after `waited` of its `given` seconds is late; an earlier end says nothing."""
    # Timers don't keep to the instant.
    return waited >= 0.95 * given


async def in_batches(
    items: Sequence[Item], size: int, call: Callable[[Sequence[Item]], Coroutine[Any, Any, Answer]]
) -> list[Answer]:
    """The answers to calls made at once, for at most `size` items each; the first error cancels the others."""
    if 0 < len(items) <= size:
        # Nearly always so: no tasks for it.
        return [await call(items)]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call(batch)) for batch in chunks(items, size)]
    except ExceptionGroup as failures:
        failure = failures.exceptions[0]
    else:
        return [task.result() for task in tasks]
    raise failure


VAIN: Final = 3
"""Divisions in vain after which a server fails by chance."""

SHARE: Final = 0.01
"""Calls of which as many may be divided in vain."""


@dataclass(slots=True, eq=False)
class Chance:
    """A token bucket that bounds the divisions in vain: of doubtful failures of calls whose parts all are answered.

    A text that spoils its call spoils one of the parts, too; a server that fails by chance does not. The bucket begins
    full, has room for VAIN, and gets SHARE for each call; while it is empty, no doubtful failure is divided.
    """

    _left: float = VAIN

    def call(self) -> None:
        """A call begins that is no part of another."""
        self._left = min(VAIN, self._left + SHARE)

    def allows(self, error: BackendError) -> bool:
        """True if a call that failed so may be divided."""
        return self._left >= 1 or error.suspect is not Blame.UNKNOWN

    def in_vain(self) -> None:
        """All parts of a call were answered that had doubtfully failed."""
        self._left -= 1


async def bisect(
    items: Sequence[Item],
    call: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
    *,
    thorough: bool = False,
    chance: Chance | None = None,
) -> list[Answer | BackendError]:
    """Call with all of `items`; if they are refused, with each half, and so on: an answer or an error each.

    At most one call more than there are items, and than MOST_PARTS: what is refused after that fails together. Raises
    BackendError if the first call fails and its items are not divided. `thorough`: every item that is refused is
    refused alone, however many calls that takes; nothing is raised. `chance` bounds the divisions in vain.
    """
    if chance is not None:
        chance.call()
    # A function within this one that calls itself would hold its items until garbage is collected.
    bisection = _Bisection(items, call, thorough, chance, min(len(items), MOST_PARTS))
    return await bisection.ask(items) if items else []


@dataclass(slots=True)
class _Bisection(Generic[Item, Answer]):
    """The calls of one `bisect`: `left` may be made yet, and `failed` have."""

    items: Sequence[Item]
    call: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]]
    thorough: bool
    chance: Chance | None
    left: int
    failed: int = 0

    async def ask(self, part: Sequence[Item]) -> list[Answer | BackendError]:
        """An answer or an error for each item of a part. Raises BackendError if all items are not divided."""
        chance = self.chance
        halves: list[Sequence[Item]] = []
        try:
            return [*await self.call(part)]
        except BackendError as error:
            if error.blame is Blame.REQUEST and (chance is None or chance.allows(error)):
                few, most = (1, None) if self.thorough else (min(self.left, _FEW), self.left)
                halves = divide(part, singly=few, most=most)
            if not halves and part is self.items and not self.thorough:
                raise
            # Its traceback would hold this frame, and the items.
            failure = error.with_traceback(None)
        self.failed += 1
        if not halves:
            return [failure] * len(part)
        self.left -= len(halves)
        before = self.failed
        # One after the other: the first call was given one slot at the backend.
        answers = [answer for half in halves for answer in await self.ask(half)]
        if chance is not None and failure.suspect is Blame.UNKNOWN and self.failed == before:
            chance.in_vain()
        return answers


@dataclass(slots=True)
class _Outage:
    began: float
    failed: int = 0


@dataclass(slots=True, eq=False)
class OutageLog:
    """Logs the failures of one backend, and the end of each outage.

    `fields` name the backend in every line; `subject` names the part of it that a request's path is about. A failure
    with a status belongs to that part, one without a status to the whole backend. Lines of one kind become one a minute
    in the log of the process, which sums up their `count`.
    """

    fields: Mapping[str, str]
    clock: Callable[[], float]
    subject: Callable[[str], str] = lambda _: ""
    _outages: dict[tuple[Hashable, Reason], _Outage] = field(default_factory=dict)

    def failed(self, error: BackendError, path: str = "", *, reads: bool = True) -> None:
        event = "backend refuses requests"
        if error.blame is not Blame.REQUEST:
            event = "backend is failing"
            scope = None if error.status is None else self._scope(path, reads)
            self._outages.setdefault((scope, error.reason), _Outage(self.clock())).failed += 1
        log.warning(event, **self._identify(path), reason=error.reason.value, error=str(error), count=1)

    def succeeded(self, path: str = "", *, reads: bool = True) -> None:
        if not self._outages:
            return
        over = {None, self._scope(path, reads)}
        for kind in [each for each in self._outages if each[0] in over]:
            outage = self._outages.pop(kind)
            after = {"after_s": round(self.clock() - outage.began, 1), "count": outage.failed}
            log.info("backend is well again", **self._identify(path), reason=kind[1].value, **after)

    def _scope(self, path: str, reads: bool) -> Hashable:
        # A key may read what it may not write.
        return self.subject(path), reads

    def _identify(self, path: str) -> dict[str, str]:
        subject = self.subject(path)
        return {**self.fields, **({"collection": subject} if subject else {})}
