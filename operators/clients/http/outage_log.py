"""The log of a backend: when it begins to fail and why, and when it is well again."""

from collections.abc import Callable, Hashable

import structlog

from operators.clients.http.bisection import REFUSALS
from operators.clients.http.outages import Kind, Outages
from operators.clients.http.transport import Endpoint
from schemas.errors import BackendError, Reason

log = structlog.stdlib.get_logger(__name__)


def refuses(error: BackendError) -> bool:
    """Whether a backend refused one request for what is in it."""
    return error.reason is Reason.REFUSED or (error.reason is Reason.BAD_RESPONSE and error.status in REFUSALS)


class OutageLog:
    """What is logged of one endpoint, at most once a minute for each kind of failure.

    What came with a status is held against what the request was about; what had none, against the server.
    """

    def __init__(self, endpoint: Endpoint, clock: Callable[[], float]) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._outages = Outages()

    def failed(self, error: BackendError, path: str, *, reads: bool) -> None:
        """A request failed, by the fault of the backend or of the request."""
        scope = None if error.status is None else self._scope(path, reads)
        lasting = not refuses(error)
        count = self._outages.failed(Kind(scope, error.reason, str(error), lasting), self._clock())
        if count is not None:
            event = "backend is failing" if lasting else "backend refuses requests"
            log.warning(event, **self._told(path), reason=error.reason.value, error=str(error), failed=count)

    def succeeded(self, path: str, *, reads: bool) -> None:
        """A request was answered."""
        if not self._outages.under_way:
            return
        for ended in self._outages.succeeded(self._scope(path, reads), self._clock()):
            after = {"reason": ended.kind.reason.value, "after_s": round(ended.lasted, 1), "failed": ended.failed}
            log.info("backend is well again", **self._told(path), **after)

    def _scope(self, path: str, reads: bool) -> Hashable:
        # A key may read what it may not write.
        return self._endpoint.dialect.subject(path), reads

    def _told(self, path: str) -> dict[str, str]:
        subject = self._endpoint.dialect.subject(path)
        told = {"backend": self._endpoint.name, "address": self._endpoint.address}
        return told | {"collection": subject} if subject else told
