"""The broker: if it can be reached, its administration, and the versions with which the delivery was tried.

The protection of a transaction (see `producers`) depends on what each client reports of its connections, and on what
the broker refuses. The fault harness ran with the versions below; with any other a warning is logged at start.
"""

import socket
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Final

import structlog
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from operators.delivery.kafka_python.connection import KAFKA, connection, unmade
from schemas.errors import FatalDelivery
from schemas.settings import KafkaSettings

log = structlog.stdlib.get_logger(__name__)

CLIENTS: Final[Mapping[str, tuple[str, str]]] = {
    "librdkafka": ("confluent-kafka", "2.16.1"),
    "kafka-python": ("kafka-python", "3.0.12"),
}
"""By client: its distribution, and the version of it that was tried."""

TRANSACTION_VERSIONS: Final = frozenset({0, 2})
"""Levels of the broker's feature `transaction.version` that were tried, on Kafka 4.1.1."""

_FEATURE: Final = "transaction.version"

_CONNECT: Final = 5.0
_PORT: Final = 9092


def reach(bootstrap_servers: str) -> None:
    """Raise FatalDelivery, with the reason for each server, if none accepts a connection within 5 seconds."""
    reasons = []
    for server in bootstrap_servers.split(","):
        try:
            socket.create_connection(address(server), _CONNECT).close()
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


class Admin:
    """A context that holds the client.

    Raises FatalDelivery if no broker can be reached, or if it refuses a request or doesn't answer it.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings

    def __enter__(self) -> Any:
        reach(self._settings.bootstrap_servers)
        try:
            self._client = KafkaAdminClient(**connection(self._settings, KAFKA))
        except KafkaError as error:
            raise FatalDelivery(unmade(self._settings, error)) from error
        return self._client

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._client.close()
        if isinstance(error, KafkaError):
            raise FatalDelivery(f"{self._settings.bootstrap_servers}: {type(error).__name__}") from error


def warn_of_untried(settings: KafkaSettings, client: str) -> None:
    """Log each version that was not tried. Raises FatalDelivery if the broker doesn't answer."""
    distribution, tried = CLIENTS[client]
    if (found := version(distribution)) != tried:
        log.warning("client version was not tried", client=distribution, version=found, tried=tried)
    with Admin(settings) as admin:
        feature = admin.describe_features().get(_FEATURE)
    if feature is None:
        log.warning("broker version was not tried: it is older than Kafka 4.0", feature=_FEATURE)
        return
    _, level = feature.get("finalized", (0, 0))
    if level not in TRANSACTION_VERSIONS:
        tried_levels = sorted(TRANSACTION_VERSIONS)
        log.warning("broker version was not tried", feature=_FEATURE, version=level, tried=tried_levels)
