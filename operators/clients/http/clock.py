"""The difference of an HTTP server's clock and this machine's, by the `Date` of one answer.

A `Date` counts whole seconds, and was set at some time between request and answer. So the difference is an interval,
as long as the answer took, and a second.
"""

import time
from dataclasses import dataclass

import httpx

from operators.clients.http.transport import Endpoint, read_http_date
from schemas.errors import BackendError


@dataclass(frozen=True, slots=True)
class Ahead:
    """The seconds that this machine's clock is ahead of the server's, at least and at most; negative: behind."""

    least: float
    most: float


@dataclass(slots=True, eq=False)
class _Dated(httpx.AsyncBaseTransport):
    """A transport that compares clocks by the `Date` of each answer."""

    inner: httpx.AsyncBaseTransport
    answered: bool = False
    ahead: Ahead | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        sent = time.time()
        response = await self.inner.handle_async_request(request)
        self.answered, self.ahead = True, between(response.headers.get("date", ""), sent, time.time())
        return response

    async def aclose(self) -> None:
        await self.inner.aclose()


async def ahead(name: str, url: str, transport: httpx.AsyncBaseTransport, timeout: float) -> Ahead | None:
    """Ask a server for its base URL and compare clocks, at any status; None if the answer has no date.

    No key is sent. Raises ConfigError for the URL, and BackendError if there is no answer.
    """
    dated = _Dated(transport)
    endpoint = Endpoint(name, url, dated)
    try:
        await endpoint.call("GET", "", timeout=timeout)
    except BackendError:
        if not dated.answered:
            raise
    finally:
        await endpoint.aclose()
    return dated.ahead


def between(date: str, sent: float, answered: float) -> Ahead | None:
    """The difference, by a `Date` and this machine's clock in seconds since 1970; None if the date can't be read."""
    since = read_http_date(date)
    return None if since is None else Ahead(sent - (since + 1.0), answered - since)
