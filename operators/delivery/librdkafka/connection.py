"""Connections: the options of every client of a broker, its records and its errors."""

import contextlib
import logging
import re
from collections.abc import Iterator, Mapping
from operator import methodcaller
from typing import Any, Final

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from operators.delivery.client import READ_HEADERS, ConsumerRecord
from operators.delivery.client import TopicPartition as Partition
from operators.delivery.error_codes import curing
from operators.delivery.librdkafka.security import security
from operators.delivery.tracker import Commit
from schemas.errors import ConfigError, FatalDelivery, RetriableDelivery
from schemas.settings import KafkaSettings

CALL_TIMEOUT: Final = 3.0
"""Seconds for a request that a broker answers immediately."""

_ALL: Final = 100_000

_raw_headers: Final = methodcaller("headers")
"""A header's name that isn't UTF-8 leaves `headers` with a result and an exception. A call from Python code that has
run often doesn't look for the latter, which would come up at some later line; this one always does."""

log = logging.getLogger("librdkafka")


def connection(settings: KafkaSettings) -> dict[str, Any]:
    """The options of every client of this broker; to be called for each.

    Raises ConfigError for a file that can't be used, and FatalDelivery for a token that can't be had.
    """
    return {
        "bootstrap.servers": settings.bootstrap_servers,
        "client.id": settings.group_id,
        "socket.timeout.ms": int(settings.request_timeout * 1000),
        "socket.nagle.disable": True,
        "reconnect.backoff.ms": 100,
        "reconnect.backoff.max.ms": 1000,
        "error_cb": _log_error,
        "throttle_cb": _log_throttling,
        **security(settings),
    }


def consumer_options(settings: KafkaSettings) -> dict[str, str]:
    """Options of the settings for consumers, in the library's own form; they go over ours."""
    return _as_text(settings.options_of_consumers)


def producer_options(settings: KafkaSettings) -> dict[str, str]:
    """Options of the settings for producers, in the library's own form; they go over ours."""
    return _as_text(settings.options_of_producers)


def check_options(settings: KafkaSettings) -> None:
    """Raise ConfigError for an option that the library doesn't have, or a value that it doesn't take."""
    try:
        if consuming := consumer_options(settings):
            Consumer({"group.id": settings.group_id, **consuming}, logger=log).close()
        if producing := producer_options(settings):
            Producer(producing, logger=log).close()
    except KafkaException as error:
        raise ConfigError(f"kafka.options: {error_of(error).str()}") from error


def _as_text(options: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}


def offsets(commits: Mapping[Partition, Commit]) -> list[TopicPartition]:
    """Commits in the client's own types."""
    return [
        TopicPartition(partition.topic, partition.partition, commit.offset, commit.metadata)
        for partition, commit in commits.items()
    ]


def error_of(exception: KafkaException) -> KafkaError:
    """The client's own error."""
    error: KafkaError = exception.args[0]
    return error


def failure(what: str, error: KafkaError) -> RetriableDelivery | FatalDelivery:
    """The error of a request, with its name and the reason."""
    kind = FatalDelivery if error.fatal() else RetriableDelivery
    return kind(describe(what, error))


def describe(what: str, error: KafkaError) -> str:
    """The message about a request that failed, with the cure if there is one."""
    return curing(f"{what}: {error.name()}", error.code())


@contextlib.contextmanager
def naming_failures(what: str) -> Iterator[None]:
    """Raise RetriableDelivery or FatalDelivery with the name of the request if it fails."""
    try:
        yield
    except KafkaException as error:
        raise failure(what, error_of(error)) from error


class _Connections(logging.Filter):
    """Drop the line for each try while no broker is there: `_log_error` logs it once."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith("FAIL ")


_CONNECTIONS: Final = _Connections()


def quieten() -> None:
    """Have librdkafka log no line a try while no broker is there."""
    log.addFilter(_CONNECTIONS)


class Connections:
    """A client's logger that notes the first of its connections that broke."""

    def __init__(self) -> None:
        self.broke: str | None = None
        """librdkafka's words about it."""

    def log(self, level: int, text: str, *arguments: str) -> None:
        """Note and drop what is only for noting; log the rest."""
        if level > logging.DEBUG:
            log.log(level, text, *arguments)
            return
        event, *_, message = arguments
        if self.broke is None and event == "FAIL" and not _UNUSED.search(message):
            self.broke = message


_UNUSED: Final = re.compile(
    r"in state (INIT|DOWN|TRY_CONNECT|CONNECT|SSL_HANDSHAKE|APIVERSION_QUERY|AUTH_HANDSHAKE|AUTH_LEGACY|AUTH_REQ)[,)]"
    r"|/bootstrap: .*\(_DESTROY\w*\)"
)
"""Connections that carried no request of a transaction: those that weren't up yet, and the bootstrap address's, which
is given up once its broker is known."""


def _log_error(error: KafkaError) -> None:
    # The client itself makes connections again; a call's own error says what was refused.
    if error.code() == KafkaError._ALL_BROKERS_DOWN:
        log.warning("no broker can be reached")
    elif error.code() != KafkaError._TRANSPORT:
        log.warning("%s", error.name())


def _log_throttling(event: Any) -> None:
    log.warning(
        "%s delays its answers by %.1f s: a quota is used up; raise it, or delivery.transaction_interval",
        event.broker_name,
        event.throttle_time,
    )


def partitions_of(consumer: Consumer, topic: str, timeout: float) -> set[int]:
    """The topic's partitions; none if it isn't known. Raises RetriableDelivery."""
    with naming_failures(f"metadata of {topic}"):
        known = consumer.list_topics(topic, timeout=timeout).topics[topic]
    return set(known.partitions) if known.error is None else set()


def fetch(consumer: Consumer, timeout: float) -> list[Any]:
    """All messages that a consumer has; waits `timeout` seconds for the first. Raises KafkaException."""
    first = consumer.poll(timeout)
    # `consume` waits until it has as many as it may return: only what is there already comes by it.
    return [] if first is None else [first, *consumer.consume(_ALL, 0)]


def consumer_record(message: Any) -> ConsumerRecord:
    """The record in a message. Raises RetriableDelivery or FatalDelivery for a message that is an error."""
    if (error := message.error()) is not None:
        raise failure("poll", error)
    kind, milliseconds = message.timestamp()
    return ConsumerRecord(
        Partition(message.topic(), message.partition()),
        message.offset(),
        message.key(),
        message.value(),
        _headers(message),
        milliseconds / 1000 if kind != TIMESTAMP_NOT_AVAILABLE else -1.0,
    )


def _headers(message: Any) -> tuple[tuple[str, bytes], ...] | None:
    try:
        headers = _raw_headers(message) or ()
    except (SystemError, UnicodeDecodeError):
        # A name that isn't UTF-8.
        return None
    return None if len(headers) > READ_HEADERS else tuple((name, value or b"") for name, value in headers)
