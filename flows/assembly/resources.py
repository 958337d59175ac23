"""Resources: what a process or a flow holds, with how each is closed and how it is asked whether it works."""

from collections.abc import Callable
from typing import Self

import structlog

log = structlog.stdlib.get_logger(__name__)

Ping = Callable[[], bool]


class Resources:
    """Closes what was registered in reverse order, whatever of it fails.

    As a context manager, at the end of the block, unless what was registered is taken over by `keep`.
    """

    def __init__(self) -> None:
        self._resources: list[tuple[str, Callable[[], object]]] = []
        self.pings: dict[str, Ping] = {}

    def register(self, name: str, close: Callable[[], object], ping: Ping | None = None) -> None:
        """Hold a resource: `close` releases it, `ping` says whether it works now."""
        self._resources.append((name, close))
        if ping is not None:
            self.pings[name] = ping

    def keep(self) -> "Resources":
        """The same resources, which outlive the block."""
        others = Resources()
        others._resources, self._resources = self._resources, []
        others.pings = self.pings
        return others

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every resource once, the last registered first."""
        while self._resources:
            name, close = self._resources.pop()
            try:
                close()
            except Exception as error:  # noqa: BLE001  the others are closed all the same
                log.warning("a resource did not close", resource=name, error=type(error).__name__)
