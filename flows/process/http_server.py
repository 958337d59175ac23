"""The HTTP server of probes and browsers: an ASGI application on uvicorn, which no client can fill up.

- The head of a request has PATIENCE seconds to arrive, and so has an answer to be read: a client that sends a byte now
  and then is no better than a silent one. The body's time is the application's.
- At most MOST connections are without a whole request. One more closes the oldest of them: a client that sends its
  request at once is answered, even while others open connections without end.
"""

import asyncio
import logging
import socket
from functools import partial
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger(__name__)

MOST: Final = 32
"""Connections without a whole request at a time."""

HEAD: Final = 64 * 1024
"""Bytes of a request without its body."""

PATIENCE: Final = 5.0
"""Seconds that a request may take to arrive."""

_ANSWERED: Final = 256
"""Requests at a time. That of a closed connection counts until the application has heard of it."""


class ServedConnection(H11Protocol):
    """A connection that is closed while it keeps others out; `waiting` are those without a whole request."""

    patience = PATIENCE

    def __init__(self, *arguments: Any, waiting: "dict[ServedConnection, None]", **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._waiting = waiting

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._timer.cancel()
            if not self.cycle.more_body:
                self._waiting.pop(self, None)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # The next request may be here already.
        if self.cycle.response_complete:
            self._timer.cancel()
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._waiting.pop(self, None)
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._timer = self.loop.call_later(self.patience, self.transport.abort)
        self._waiting[self] = None
        if len(self._waiting) > MOST:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.transport.abort()


class HttpServer:
    """Serves an ASGI application on a socket that listens, until it is stopped."""

    def __init__(self, application: Any, listening: socket.socket) -> None:
        self._application = application
        self._socket = listening
        # Its errors quote what was sent.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        connect: Any = partial(ServedConnection, waiting={})
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._answer,
                http=connect,
                interface="asgi3",
                ws="none",
                lifespan="off",
                loop="asyncio",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=_ANSWERED,
                timeout_graceful_shutdown=1,
                h11_max_incomplete_event_size=HEAD,
            )
        )

    def serve(self) -> None:
        """Serve until `stop` is called, on any thread; signals are the caller's."""
        with self._socket:
            asyncio.run(self._server._serve([self._socket]))

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await self._application(scope, receive, send)
        except Exception as error:
            log.error("a request failed: %s", type(error).__name__)
            raise

    def stop(self) -> None:
        """Have `serve` return."""
        self._server.should_exit = True
        self._server.force_exit = True
