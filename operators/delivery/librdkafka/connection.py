"""Connections: the options, TLS, SASL and the errors of every client of a broker, by librdkafka.

Certificates and keys are read when a client is made, and so is a password; a token before the last one expires.
"""

import contextlib
import logging
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from operators.delivery.client import Commits
from operators.delivery.credentials import TokenSource, check_files, secret, tokens
from operators.delivery.error_codes import curing
from schemas.errors import ConfigError, FatalDelivery, RetriableDelivery
from schemas.settings import KafkaSettings
from schemas.settings.delivery import TlsSettings

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


def security(settings: KafkaSettings) -> dict[str, Any]:
    """The configuration that secures a client's connections.

    For OAUTHBEARER confluent-kafka asks for tokens on a thread of its own, with no call of `poll`, and a client's
    constructor waits for the first, 10 s at most. Where that fails, a consumer's raises an object that is no exception,
    which nothing but a bare `except` catches: a good token is made sure of here, so call this right before each client.

    Raises ConfigError for a file that can't be used and FatalDelivery if there is no good token.
    """
    tls, sasl = settings.tls, settings.sasl
    options: dict[str, Any] = {"security.protocol": settings.security_protocol}
    if settings.security_protocol.endswith("SSL"):
        check_files(tls, "kafka.tls")
        options["ssl.endpoint.identification.algorithm"] = "https" if tls.check_hostname else "none"
        options |= _locations(tls)
        if (password := secret(tls, "kafka.tls", "key_password")) is not None:
            options["ssl.key.password"] = password
    if sasl.mechanism is not None:
        options["sasl.mechanism"] = sasl.mechanism
    if sasl.mechanism == "OAUTHBEARER":
        options["oauth_cb"] = _callback(tokens(sasl), sasl.extensions)
    elif sasl.mechanism is not None:
        options |= {"sasl.username": sasl.username, "sasl.password": secret(sasl, "kafka.sasl", "password")}
    return options


def _locations(section: TlsSettings) -> dict[str, str]:
    files = {"ca": section.ca_file, "certificate": section.certificate_file, "key": section.key_file}
    return {f"ssl.{name}.location": str(file) for name, file in files.items() if file is not None}


def _callback(source: TokenSource, extensions: Mapping[str, str]) -> Any:
    def token(_: str) -> tuple[str, float, str, dict[str, str]]:
        issued = source.token()
        # The name between them is for the client's own logs.
        return issued.value, issued.expires, "", dict(extensions)

    try:
        first = source.token()
    except RetriableDelivery as error:
        raise FatalDelivery(str(error)) from None
    if first.expires <= time.time():
        raise FatalDelivery("SASL OAUTHBEARER: the token has expired")
    return token


def open_consumer(settings: KafkaSettings, own: Mapping[str, Any]) -> Consumer:
    """A consumer that commits nothing by itself, with options of its own."""
    return Consumer(
        {
            **connection(settings),
            "group.id": settings.group_id,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            # KiB fetched ahead of a partition at most, unless a single record is larger.
            "queued.max.messages.kbytes": 4096,
            # A full queue is looked at again at once, not after a second.
            "fetch.queue.backoff.ms": 5,
            **own,
            **settings.options_of_consumers,
        },
        logger=log,
    )


def check_options(settings: KafkaSettings) -> None:
    """Raise ConfigError for an option that the library doesn't have, or a value that it doesn't take."""
    try:
        if settings.options_of_consumers:
            Consumer({"group.id": settings.group_id, **settings.options_of_consumers}, logger=log).close()
        if settings.options_of_producers:
            Producer({**settings.options_of_producers}, logger=log).close()
    except KafkaException as error:
        raise ConfigError(f"kafka.options: {kafka_error(error).str()}") from error


def offsets(commits: Commits) -> list[TopicPartition]:
    """Commits in the client's own types."""
    return [
        TopicPartition(partition.topic, partition.partition, commit.offset, commit.metadata)
        for partition, commit in commits.items()
    ]


def kafka_error(exception: KafkaException) -> KafkaError:
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
        raise failure(what, kafka_error(error)) from error


def _of_no_connection(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("FAIL ")


def quieten() -> None:
    """Have librdkafka log no line a try while no broker is there: `_log_error` logs it once."""
    log.addFilter(_of_no_connection)


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
