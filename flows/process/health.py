"""The health of a process: its port for probes and Prometheus, and the watchdog, which ends a stuck process."""

import logging
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import orjson
import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from schemas.errors import ConfigError

log = structlog.stdlib.get_logger(__name__)

Probe = Callable[[], bool]
MetricsEncoder = Callable[[CollectorRegistry], bytes]


class Health:
    """Answers probes: 200 while every check of the path holds, else 503, and which one doesn't.

    Until `begin` the process is alive, and not ready. `/metrics` is what `registry` collects, in OpenMetrics with the
    traces of samples for who asks for it, else in Prometheus's text format. A path's query has no effect.
    """

    def __init__(self, host: str, port: int, registry: CollectorRegistry, *, tries: int = 1) -> None:
        """Listen on the first free one of `tries` ports from `port` on; 0 is any free one.

        Raises ConfigError if there is none.
        """
        self._paths: Mapping[str, Mapping[str, Probe]] = {"/livez": {}, "/readyz": {"started": lambda: False}}
        self._registry = registry
        for each in range(port, port + tries):
            try:
                listening = socket.create_server((host, each))
                break
            except OSError as error:
                why = f"telemetry.port: cannot listen on {host}:{each} ({error.strerror})"
        else:
            raise ConfigError(f"{why}; set another port in the file or by RANKSTREAM_TELEMETRY__PORT")
        self.port: int = listening.getsockname()[1]
        """The port on which it listens."""
        # Commands that serve nothing start sooner without uvicorn.
        from flows.process.http_server import HttpServer

        self._server = HttpServer(self._serve, listening)
        self._thread = threading.Thread(target=self._server.serve, name="health", daemon=True)
        self._thread.start()

    def begin(self, live: Mapping[str, Probe], ready: Mapping[str, Probe]) -> None:
        """Answer by these checks from now on."""
        self._paths = {"/livez": live, "/readyz": {**live, **ready}}

    def close(self) -> None:
        """Listen no more."""
        self._server.stop()
        self._thread.join()

    async def _serve(self, scope: Mapping[str, Any], _: object, send: Callable[[Any], Awaitable[None]]) -> None:
        status, kind, body = self._answer(scope)
        headers = [(b"content-type", kind.encode()), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _answer(self, scope: Mapping[str, Any]) -> tuple[int, str, bytes]:
        path = scope["path"]
        if scope["method"] not in {"GET", "HEAD"}:
            return 405, "text/plain", b""
        if path == "/metrics":
            encode, kind = _choose_encoder(
                value.decode("latin-1") for name, value in scope["headers"] if name == b"accept"
            )
            return 200, kind, encode(self._registry)
        checks = self._paths.get(path)
        if checks is None:
            return 404, "text/plain", b""
        results = {name: _holds(name, check) for name, check in checks.items()}
        body = orjson.dumps({"ok": all(results.values()), "checks": results})
        return 200 if all(results.values()) else 503, "application/json", body


def _choose_encoder(accept: Iterable[str]) -> tuple[MetricsEncoder, str]:
    """The library's choice of a format, with its type; what it cannot read is no wish."""
    try:
        return choose_encoder(",".join(accept))
    except (TypeError, ValueError):
        return choose_encoder("")


def _holds(name: str, check: Probe) -> bool:
    try:
        return check()
    except Exception as error:  # noqa: BLE001  a probe must have an answer
        log.warning("the check of %s failed: %s", name, type(error).__name__)
        return False


_INTERVAL: Final = 0.5

_LAST_WORDS: Final = 5.0
"""Seconds that the log has to take the last lines."""


def watch(checks: Mapping[str, Probe]) -> None:
    """Look at these checks from a thread of its own until one does not hold; then end the process with 1."""

    def look() -> None:
        while True:
            time.sleep(_INTERVAL)
            for name, holds in checks.items():
                if not holds():
                    # A log that nobody reads any more would keep the process.
                    ending = threading.Timer(_LAST_WORDS, os._exit, (1,))
                    ending.daemon = True
                    ending.start()
                    log.error("watchdog: stood still for too long", part=name)
                    end_process()

    threading.Thread(target=look, name="watchdog", daemon=True).start()


def announce(checks: Mapping[str, Probe]) -> None:
    """Log `ready` once, from a thread of its own, when all these checks hold."""

    def wait() -> None:
        while not all(_holds(name, check) for name, check in checks.items()):
            time.sleep(_INTERVAL)
        log.info("ready")

    threading.Thread(target=wait, name="announcement", daemon=True).start()


def lasting(check: Probe, seconds: float) -> Probe:
    """The check that holds until the given one has not held for `seconds`."""
    held = time.monotonic()

    def holds() -> bool:
        nonlocal held
        now = time.monotonic()
        if check():
            held = now
        return now - held < seconds

    return holds


def end_process() -> None:
    """End the process at once, with 1: threads of a failed flow may hang in a client."""
    logging.shutdown()
    os._exit(1)
