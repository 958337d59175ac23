"""Connections: the options and the errors of every client of a broker."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import kafka
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.structs import OffsetAndMetadata

from operators.delivery.client import TopicPartition
from operators.delivery.error_codes import curing
from operators.delivery.kafka_python.security import check_admission, security
from operators.delivery.tracker import Commit
from schemas.errors import ConfigError, RetriableDelivery
from schemas.settings import KafkaSettings

CALL_TIMEOUT: Final = 3.0
"""Seconds for a request that a broker answers immediately, and the shortest poll while a group forms."""


def connection(settings: KafkaSettings) -> dict[str, Any]:
    """The options of every client of this broker.

    Raises ConfigError for a file that can't be used, and FatalDelivery if a secured broker refuses us or we it.
    """
    if settings.security_protocol != "PLAINTEXT":
        check_admission(settings)
    return {
        "bootstrap_servers": settings.bootstrap_servers.split(","),
        "client_id": settings.group_id,
        "request_timeout_ms": int(settings.request_timeout * 1000),
        # By default it would be looked for once in 30 seconds only, after a while.
        "reconnect_backoff_max_ms": 1000,
        **security(settings),
    }


def consumer_options(settings: KafkaSettings) -> dict[str, Any]:
    """Options of the settings for consumers, over ours. Raises ConfigError for what kafka-python does not have."""
    return _known(settings, settings.options_of_consumers, kafka.KafkaConsumer)


def producer_options(settings: KafkaSettings) -> dict[str, Any]:
    """Options of the settings for producers, over ours. Raises ConfigError for what kafka-python does not have."""
    return _known(settings, settings.options_of_producers, kafka.KafkaProducer)


def _known(settings: KafkaSettings, options: Mapping[str, Any], kind: Any) -> dict[str, Any]:
    named = {name.replace(".", "_"): value for name, value in options.items()}
    if unknown := sorted(named.keys() - kind.DEFAULT_CONFIG.keys()):
        raise ConfigError(f"kafka.options: kafka-python's {kind.__name__} has no {', '.join(unknown)}")
    return named


def offsets(commits: Mapping[TopicPartition, Commit]) -> dict[Any, Any]:
    """Commits in the client's own types."""
    return {
        kafka.TopicPartition(*partition): OffsetAndMetadata(commit.offset, commit.metadata, -1)
        for partition, commit in commits.items()
    }


def unmade(settings: KafkaSettings, error: KafkaError) -> str:
    """Why there is no client of this broker, which accepts connections."""
    if isinstance(error, KafkaTimeoutError):
        said = f"{settings.bootstrap_servers}: no answer that kafka-python understands; "
        if settings.client == "librdkafka":
            return said + "this command asks by it whatever kafka.client is, and cannot read the broker of the demo"
        return said + "kafka.client: librdkafka may, as it does that of `rankstream demo`"
    return describe(settings.bootstrap_servers, error)


def describe(what: str, error: KafkaError) -> str:
    """The message about a request that failed, with the cure if there is one."""
    return curing(f"{what}: {type(error).__name__}", getattr(error, "errno", None))


@contextlib.contextmanager
def naming_failures(what: str) -> Iterator[None]:
    """Raise RetriableDelivery with the name of the request if the broker doesn't answer it."""
    try:
        yield
    except KafkaError as error:
        raise RetriableDelivery(describe(what, error)) from error
