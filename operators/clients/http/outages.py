"""What is said of a backend's failures, so that an operator hears of each kind and is not flooded.

A pure state machine: it makes no call and reads no clock. Times are seconds of one monotonic clock.

Rules
-----
- Failures of one kind are said together: at the first, and then at most once in INTERVAL seconds, with how many there
  were since.
- A lasting kind is an outage from its first failure on. The first success in its scope ends it, any success where it
  has no scope. The end is said if the outage was.
- A kind that isn't lasting, such as the refusal of single requests, has no end.
- At most KINDS kinds are told apart. Those that haven't failed for INTERVAL seconds and are no outage make room; while
  there is none, failures are told apart by scope and reason only.
"""

import re
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Final

from schemas.errors import Reason

INTERVAL: Final = 60.0
"""Seconds between two lines about one kind of failure."""

KINDS: Final = 64
"""How many kinds of failure are told apart."""

_NUMBER: Final = re.compile(r"\d+")


_AT_DEADLINE: Final = 0.05
"""What part of its time a call may have left when it is cancelled for being late: timers don't keep to the instant."""


def at_deadline(waited: float, given: float) -> bool:
    """Whether a call that is cancelled after `waited` of its `given` seconds is late: before, it says nothing."""
    return waited >= (1 - _AT_DEADLINE) * given


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of failure: where, why, and in what words, whose numbers don't count.

    `scope` is what a success must be of to end the outage; None: anything of the backend.
    """

    scope: Hashable
    reason: Reason
    words: str
    lasting: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", _NUMBER.sub("0", self.words))


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of an outage: how many seconds it took from its first failure, and how many there were."""

    kind: Kind
    lasted: float
    failed: int


@dataclass(slots=True)
class _Noted:
    latest: float
    said: float | None = None
    unsaid: int = 0


@dataclass(slots=True)
class _Outage:
    began: float
    failed: int = 0
    said: bool = False


@dataclass(slots=True)
class Outages:
    """The failures of one backend."""

    _noted: dict[Kind, _Noted] = field(default_factory=dict)
    _outages: dict[Kind, _Outage] = field(default_factory=dict)

    @property
    def under_way(self) -> bool:
        """Whether there is an outage that a success may end."""
        return bool(self._outages)

    def failed(self, kind: Kind, now: float) -> int | None:
        """Note a failure. How many are to be said now, this one among them; None: nothing is to be said."""
        kind = self._told_apart(kind, now)
        noted = self._noted.setdefault(kind, _Noted(now))
        noted.latest = now
        noted.unsaid += 1
        outage = self._outages.setdefault(kind, _Outage(now)) if kind.lasting else _Outage(now)
        outage.failed += 1
        if noted.said is not None and now - noted.said < INTERVAL:
            return None
        count, noted.unsaid, noted.said = noted.unsaid, 0, now
        outage.said = True
        return count

    def succeeded(self, scope: Hashable, now: float) -> list[Ended]:
        """Note a success. The outages that it ends and that were said."""
        over = [kind for kind in self._outages if kind.scope is None or kind.scope == scope]
        ended = [(kind, self._outages.pop(kind)) for kind in over]
        return [Ended(kind, now - outage.began, outage.failed) for kind, outage in ended if outage.said]

    def _told_apart(self, kind: Kind, now: float) -> Kind:
        if kind in self._noted or len(self._noted) < KINDS:
            return kind
        for each, noted in list(self._noted.items()):
            if each not in self._outages and now - noted.latest >= INTERVAL:
                del self._noted[each]
        return kind if len(self._noted) < KINDS else replace(kind, words="")
