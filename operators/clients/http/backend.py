"""A backend, as its clients ask it: an endpoint, or a layer around one that has the same interface.

`resilient` stacks the layers: a request is retried within its budget, and each of its tries goes through the breaker.
"""

import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from operators.clients.http.breaking import Breaking
from operators.clients.http.retrying import Retrying, full_jitter
from operators.clients.http.transport import Endpoint
from operators.telemetry.instruments import Instruments
from operators.telemetry.metrics import BackendMetrics, FlowMetrics

T = TypeVar("T")


class Backend(Protocol):
    """What a client asks."""

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint below all layers."""
        ...

    @property
    def name(self) -> str:
        """The backend's name, for messages."""
        ...

    async def ask(
        self,
        path: str,
        body: object,
        read: Callable[[Any], T],
        *,
        timeout: float,
        method: str = "POST",
        repeatable: bool = False,
    ) -> T:
        """Send `body` and return what `read` makes of the parsed answer, all within `timeout` seconds.

        `repeatable`: the request only reads, so it may be sent again on a new connection when an old one breaks.
        `read` raises BackendError for an answer that breaks the protocol. Raises BackendError.
        """
        ...

    async def aclose(self) -> None:
        """Close the endpoint."""
        ...


def resilient(
    endpoint: Endpoint,
    clock: Callable[[], float] = time.monotonic,
    jitter: Callable[[float], float] = full_jitter,
    metrics: BackendMetrics | None = None,
) -> Backend:
    """The endpoint with retries, a retry budget, a breaker and a log of its outages.

    `jitter` chooses a pause up to the one that it is given. `metrics` count its requests, where they are a flow's. It
    belongs to no event loop, and works on the next when one is closed.
    """
    counted = metrics if metrics is not None else FlowMetrics(Instruments(), "none").backend(endpoint.name)
    return Retrying(Breaking(endpoint, clock, counted), clock, jitter)
