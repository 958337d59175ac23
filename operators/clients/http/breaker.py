"""When a backend that keeps failing is left alone, and when it is asked again.

A pure state machine: it makes no call and reads no clock. The caller asks for a permit before each call, and
says afterwards what became of it. Times are seconds of one monotonic clock.

Rules
-----
- Closed, every call gets a permit. OPENS_AFTER failures in a row, in the order in which calls end, open it.
- Open, it refuses for REST seconds. The first call after that gets a permit as the probe; others are refused until the
  probe's end. Its success closes the breaker, its failure opens it for another REST seconds.
- A probe that ends without either gives its place back: the next call is the probe, at once.
- Calls are judged by the state they began in: how one ends that began before the last opening, or before the last
  closing, changes nothing, for it tells of a backend as it was.
"""

from typing import Final, NewType

OPENS_AFTER: Final = 5
"""How many failures in a row open a breaker."""

REST: Final = 0.25
"""How many seconds pass before a backend that failed is probed."""

Permit = NewType("Permit", int)
"""The leave to make one call."""


class Breaker:
    """One backend's breaker, closed at first."""

    __slots__ = ("_failures", "_generation", "_opened", "_probing")

    def __init__(self) -> None:
        # A permit is the generation it was given in. Every change of state begins another, which voids the old ones.
        self._generation = 0
        self._failures = 0
        self._opened: float | None = None
        self._probing = False

    @property
    def closed(self) -> bool:
        """Whether every call gets a permit."""
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
        """The call of `permit` ended and told nothing of the backend; no effect on one that told already."""
        if permit == self._generation and self._probing:
            self._enter(opened=self._opened, probing=False)

    def _enter(self, *, opened: float | None, probing: bool) -> None:
        self._generation += 1
        self._opened = opened
        self._probing = probing
