"""The assembly: it alone reads the settings, builds every part of them, and closes the parts in reverse order."""

from collections.abc import Callable
from contextlib import ExitStack

import structlog

log = structlog.stdlib.get_logger(__name__)


class Resources(ExitStack):
    """Closes what was registered in reverse order, whatever of it fails; `pop_all` gives it to another owner."""

    def register(self, name: str, close: Callable[[], object]) -> None:
        """Have `close` called at the end; a failure of it is logged with this name."""
        self.callback(_close, name, close)


def _close(name: str, close: Callable[[], object]) -> None:
    try:
        close()
    except Exception as error:  # noqa: BLE001  the others are closed all the same
        log.warning("a resource did not close", resource=name, error=type(error).__name__)
