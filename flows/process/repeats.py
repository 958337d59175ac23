"""Repeated warnings: what fails again and again is said when it begins, and then once a minute with how often.

It is about the chatter of the Kafka clients, and about our own failures that are retried; every other line is printed.
"""

import logging
import re
import time
from collections.abc import Callable, Hashable
from typing import Final

INTERVAL: Final = 60.0
"""Seconds."""

KINDS: Final = 256
"""How many kinds are told apart; the oldest makes room."""

_NUMBER: Final = re.compile(r"\d+")
_CONNECTIONS: Final = "kafka.net"
"""One broken connection is several lines of these loggers."""

_CLIENTS: Final = ("kafka", "librdkafka")


class Repeats(logging.Filter):
    """Lets the first record of a kind through, then one in INTERVAL, which says in `repeated` how many there were."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._said: dict[Hashable, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is printed."""
        kind = _kind(record)
        if kind is None:
            return True
        now = self._clock()
        said, unsaid = self._said.pop(kind, (None, 0))
        if said is not None and now - said < INTERVAL:
            self._said[kind] = said, unsaid + 1
            return False
        if len(self._said) == KINDS:
            del self._said[next(iter(self._said))]
        self._said[kind] = now, 0
        if unsaid:
            if isinstance(record.msg, dict):
                record.msg["repeated"] = unsaid
            else:
                record.repeated = unsaid
        return True


def _kind(record: logging.LogRecord) -> Hashable:
    """What records are of one kind; None if each is printed."""
    if record.levelno < logging.WARNING:
        return None
    if isinstance(record.msg, dict):
        told = record.msg
        words = told.get("event"), _NUMBER.sub("0", str(told.get("reason")))
        return (record.name, *words) if "retry_in_s" in told else None
    if record.name.partition(".")[0] not in _CLIENTS:
        return None
    if record.name.startswith(_CONNECTIONS):
        return _CONNECTIONS
    return record.name, _NUMBER.sub("0", record.getMessage())
