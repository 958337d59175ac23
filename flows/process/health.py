"""The health port: `/livez` and `/readyz`, for probes."""

import logging
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import orjson

log = logging.getLogger(__name__)

Check = Callable[[], bool]

_PATIENCE: Final = 5.0
"""Seconds in which a probe must have asked: connections that say nothing don't add up."""


class Health:
    """Answers probes: 200 while every check of the path holds, else 503, and which one doesn't."""

    def __init__(self, host: str, port: int, live: Mapping[str, Check], ready: Mapping[str, Check]) -> None:
        """Listen on `port`, 0 for any free one. Raises OSError if it is taken."""
        paths = {"/livez": live, "/readyz": {**live, **ready}}

        class Handler(BaseHTTPRequestHandler):
            timeout = _PATIENCE

            def do_GET(self) -> None:
                checks = paths.get(self.path)
                if checks is None:
                    self.send_error(404)
                    return
                results = {name: _holds(name, check) for name, check in checks.items()}
                body = orjson.dumps({"ok": all(results.values()), "checks": results})
                self.send_response(200 if all(results.values()) else 503)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Probes are not news."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        """Where it listens."""
        threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()


def _holds(name: str, check: Check) -> bool:
    try:
        return check()
    except Exception as error:  # noqa: BLE001  a probe must have an answer
        log.warning("the check of %s failed: %s", name, type(error).__name__)
        return False
