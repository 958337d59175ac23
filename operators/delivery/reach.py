"""Whether any of the bootstrap servers accepts a connection: found at once, where a client would try for long."""

import socket
from typing import Final

from schemas.errors import FatalDelivery

_TIMEOUT: Final = 5.0
_PORT: Final = 9092


def reach(bootstrap_servers: str) -> None:
    """Raise FatalDelivery, with the reason for each server, if none accepts a connection within 5 seconds."""
    reasons = []
    for server in bootstrap_servers.split(","):
        try:
            socket.create_connection(address(server), _TIMEOUT).close()
        except OSError as error:
            reasons.append(f"{server.strip()} ({_why(error)})")
        else:
            return
    raise FatalDelivery(
        f"no Kafka broker answers at {', '.join(reasons)}: start it, or correct kafka.bootstrap_servers"
    )


def address(server: str) -> tuple[str, int]:
    """Host and port of `host`, `host:port` or `[v6]:port`. Raises OSError for a port that is no number."""
    host, colon, port = server.strip().rpartition(":")
    if not colon or port.endswith("]"):
        host, port = server.strip(), str(_PORT)
    if not port.isascii() or not port.isdigit():
        raise OSError(f"{port} is no port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _why(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, socket.gaierror):
        return "unknown host"
    return (error.strerror or str(error)).lower()
