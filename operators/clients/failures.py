"""Failures of backends: circuit breaker, retry budget, bisection of refused requests, and the log of outages.

Breaker, RetryBudget and Outages are pure state machines: they make no call and read no clock. Times are seconds of one
monotonic clock.

Breaker
-------
- Closed, every call gets a permit. OPENS_AFTER failures in a row, in the order in which calls end, open it.
- Open, it refuses for REST seconds. The first call after that gets a permit as the probe; others are refused until the
  probe's end. Its success closes the breaker, its failure opens it for another REST seconds.
- A probe that ends without either gives its permit back: the next call is the probe, at once.
- Calls are judged by the state they began in: the end of one that began before the last opening, or before the last
  closing, changes nothing, for it tells of a backend as it was.

Retry budget
------------
- The budget is a bucket of retries. It begins full; a request's first try puts in 0.2 of a retry, a retry takes 1.
- It holds at most 0.2 of a retry for each active request, those begun and not ended, and has room for 3 at the least.
- An excess over that is lost: at the time it is put in, or when requests end.

So among n requests there are never more than 0.2 n + 3 retries, however long a failure lasts.

Outages
-------
- Failures of one kind are logged together: at the first, and then at most once in INTERVAL seconds, with their number
  since.
- A lasting kind is an outage from its first failure on. The first success in its scope ends it, any success where it
  has no scope. The end is logged if the outage was.
- A kind that isn't lasting, such as the refusal of single requests, has no end.
- At most KINDS kinds are distinguished. Those that haven't failed for INTERVAL seconds and are no outage make room;
  while there is none, failures are distinguished by scope and reason only.
"""

import re
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NewType, TypeVar

import structlog

from operators.runtime.batching.policy import divide
from schemas.errors import BackendBadResponse, BackendError, Reason

log = structlog.stdlib.get_logger(__name__)

OPENS_AFTER: Final = 5
"""Failures in a row that open a breaker."""

REST: Final = 0.25
"""Seconds before a backend that failed is probed."""

REFUSALS: Final = frozenset({400, 413, 422})
"""Statuses that refuse one request for its content: the backend is alive."""

FEWEST: Final = 5
"""A refused request of fewer items is not divided, where calls are dear: it would cost over 1.2 calls an item."""

_FEW: Final = 6

INTERVAL: Final = 60.0
"""Seconds between two log lines about one kind of failure."""

KINDS: Final = 64
"""Most kinds of failure that are distinguished."""

# Counted in fifths of a retry, what a first try puts in, so that every sum is exact.
_RETRY: Final = 5
_RESERVE: Final = 3 * _RETRY

_AT_DEADLINE: Final = 0.05
"""Share of its time that a call cancelled for being late may have left: timers don't keep to the instant."""

_NUMBER: Final = re.compile(r"\d+")

Item = TypeVar("Item")
Answer = TypeVar("Answer")

Permit = NewType("Permit", int)
"""The leave to make one call."""


def refuses(error: BackendError) -> bool:
    """True if the backend refused one request for its content."""
    return error.reason is Reason.REFUSED or (error.reason is Reason.BAD_RESPONSE and error.status in REFUSALS)


def at_deadline(waited: float, given: float) -> bool:
    """True if a call cancelled after `waited` of its `given` seconds is late; an earlier end says nothing."""
    return waited >= (1 - _AT_DEADLINE) * given


class Breaker:
    """The circuit breaker of one backend, closed at first."""

    __slots__ = ("_failures", "_generation", "_opened", "_probing")

    def __init__(self) -> None:
        # A permit is the generation it was given in. Every change of state begins another, which voids the old ones.
        self._generation = 0
        self._failures = 0
        self._opened: float | None = None
        self._probing = False

    @property
    def closed(self) -> bool:
        """True while every call gets a permit."""
        return self._opened is None

    def admit(self, now: float) -> Permit | None:
        """Return a permit for one call, or None if there must be none now."""
        if self._opened is not None:
            if self._probing or now - self._opened < REST:
                return None
            self._enter(opened=self._opened, probing=True)
        return Permit(self._generation)

    def succeed(self, permit: Permit) -> None:
        """The call of `permit` showed that the backend works."""
        if permit != self._generation:
            return
        self._failures = 0
        if self._probing:
            self._enter(opened=None, probing=False)

    def fail(self, permit: Permit, now: float) -> None:
        """The call of `permit` failed, and that was the backend's fault."""
        if permit != self._generation:
            return
        self._failures += 1
        if self._probing or self._failures == OPENS_AFTER:
            self._enter(opened=now, probing=False)

    def give_back(self, permit: Permit) -> None:
        """The call of `permit` ended and says nothing of the backend; no effect after `succeed` or `fail`."""
        if permit == self._generation and self._probing:
            self._enter(opened=self._opened, probing=False)

    def _enter(self, *, opened: float | None, probing: bool) -> None:
        self._generation += 1
        self._opened = opened
        self._probing = probing


class RetryBudget:
    """Bounds the retries of one backend, so that they never multiply an overload."""

    __slots__ = ("_active", "_fifths")

    def __init__(self) -> None:
        self._active = 0
        self._fifths = _RESERVE

    def begin(self) -> None:
        """A request makes its first try."""
        self._active += 1
        self._fifths = min(self._fifths + 1, self._room)

    def end(self) -> None:
        """A request that has begun is over, with any outcome."""
        self._active -= 1
        self._fifths = min(self._fifths, self._room)

    def take(self) -> bool:
        """Take one retry; False if there is none."""
        if self._fifths < _RETRY:
            return False
        self._fifths -= _RETRY
        return True

    @property
    def _room(self) -> int:
        return max(_RESERVE, self._active)


async def bisect(
    items: Sequence[Item], call: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]], *, thorough: bool = False
) -> list[Answer | BackendError]:
    """Call with all of `items`; if they are refused, with each half, and so on: an answer or an error each.

    At most one call more than there are items, and a single one for fewer than FEWEST: what is refused after that fails
    together. Raises BackendError if the first call fails and its items are not divided.

    `thorough`: every item that is refused is refused alone, however many calls that takes; nothing is raised.
    """
    left = len(items) if len(items) >= FEWEST else 0
    answers: list[Answer | BackendError] = []
    # One after the other: the first call was given one slot at the backend.
    waiting = [items] if items else []
    while waiting:
        batch = waiting.pop()
        halves: list[Sequence[Item]] = []
        try:
            answers += await call(batch)
        except BackendError as error:
            if isinstance(error, BackendBadResponse) and error.status in REFUSALS:
                halves = divide(batch) if thorough else divide(batch, singly=min(left, _FEW), most=left)
            if not halves and batch is items and not thorough:
                raise
            if not halves:
                answers += [error] * len(batch)
        left -= len(halves)
        waiting += reversed(halves)
    return answers


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of failure: its scope, its reason, and its words, whose numbers don't count.

    A success of `scope` ends the outage; None: any success of the backend.
    """

    scope: Hashable
    reason: Reason
    words: str
    lasting: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", _NUMBER.sub("0", self.words))


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of an outage: its seconds since its first failure, and the number of its failures."""

    kind: Kind
    lasted: float
    failed: int


@dataclass(slots=True)
class _Noted:
    latest: float
    logged: float | None = None
    unlogged: int = 0


@dataclass(slots=True)
class _Outage:
    began: float
    failed: int = 0
    logged: bool = False


@dataclass(slots=True)
class Outages:
    """The failures of one backend."""

    _noted: dict[Kind, _Noted] = field(default_factory=dict)
    _outages: dict[Kind, _Outage] = field(default_factory=dict)

    @property
    def under_way(self) -> bool:
        """True while there is an outage that a success may end."""
        return bool(self._outages)

    def failed(self, kind: Kind, now: float) -> int | None:
        """Note a failure. Return the number of failures to log now, this one among them; None: log nothing."""
        kind = self._distinct(kind, now)
        noted = self._noted.setdefault(kind, _Noted(now))
        noted.latest = now
        noted.unlogged += 1
        outage = self._outages.setdefault(kind, _Outage(now)) if kind.lasting else _Outage(now)
        outage.failed += 1
        if noted.logged is not None and now - noted.logged < INTERVAL:
            return None
        count, noted.unlogged, noted.logged = noted.unlogged, 0, now
        outage.logged = True
        return count

    def succeeded(self, scope: Hashable, now: float) -> list[Ended]:
        """Note a success. Return the outages that it ends and that were logged."""
        over = [kind for kind in self._outages if kind.scope is None or kind.scope == scope]
        ended = [(kind, self._outages.pop(kind)) for kind in over]
        return [Ended(kind, now - outage.began, outage.failed) for kind, outage in ended if outage.logged]

    def _distinct(self, kind: Kind, now: float) -> Kind:
        if kind in self._noted or len(self._noted) < KINDS:
            return kind
        for each, noted in list(self._noted.items()):
            if each not in self._outages and now - noted.latest >= INTERVAL:
                del self._noted[each]
        return kind if len(self._noted) < KINDS else replace(kind, words="")


class OutageLog:
    """Logs the failures of one backend: the beginning of each outage with its cause, and its end.

    `fields` name the backend in every line; `subject` names the part of it that a request's path is about. A failure
    with a status belongs to that part, one without a status to the whole backend.
    """

    def __init__(
        self, fields: Mapping[str, str], clock: Callable[[], float], subject: Callable[[str], str] = lambda _: ""
    ) -> None:
        self._fields = fields
        self._clock = clock
        self._subject = subject
        self._outages = Outages()

    def failed(self, error: BackendError, path: str = "", *, reads: bool = True) -> None:
        """A request failed, by the fault of the backend or of the request."""
        scope = None if error.status is None else self._scope(path, reads)
        lasting = not refuses(error)
        count = self._outages.failed(Kind(scope, error.reason, str(error), lasting), self._clock())
        if count is not None:
            event = "backend is failing" if lasting else "backend refuses requests"
            log.warning(event, **self._identify(path), reason=error.reason.value, error=str(error), failed=count)

    def succeeded(self, path: str = "", *, reads: bool = True) -> None:
        """A request was answered."""
        if not self._outages.under_way:
            return
        for ended in self._outages.succeeded(self._scope(path, reads), self._clock()):
            after = {"reason": ended.kind.reason.value, "after_s": round(ended.lasted, 1), "failed": ended.failed}
            log.info("backend is well again", **self._identify(path), **after)

    def _scope(self, path: str, reads: bool) -> Hashable:
        # A key may read what it may not write.
        return self._subject(path), reads

    def _identify(self, path: str) -> dict[str, str]:
        subject = self._subject(path)
        return {**self._fields, **({"collection": subject} if subject else {})}
