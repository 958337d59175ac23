"""Connections: the options, TLS, SASL and the errors of every client of a broker, by kafka-python.

Certificates, keys and tokens are read again for each connection; a password once, when the client is made.

Where the broker refuses us kafka-python goes on trying and then reports a time-out: `_check_admission` asks once
beforehand. An answer that arrives together with the connection's end is lost, as the refusal of PLAIN is: once the two
have begun to speak, an end is a refusal.
"""

import logging
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import kafka
from kafka.errors import BrokerResponseError, KafkaError, KafkaTimeoutError, UnsupportedSaslMechanismError
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.selector import NetworkSelector
from kafka.structs import OffsetAndMetadata

from operators.delivery.client import CALL_TIMEOUT, METADATA_AGE, Commits
from operators.delivery.credentials import TokenSource, check_files, secret, tokens
from operators.delivery.error_codes import curing
from schemas.errors import ConfigError, FatalDelivery, RankstreamError, RetriableDelivery
from schemas.settings import KafkaSettings
from schemas.settings.delivery import SaslSettings, TlsSettings

_PATIENCE_MS: Final = 10_000

_CORRECT: Final = "; correct kafka.sasl"

_open: set[tuple[str, str, TlsSettings, SaslSettings]] = set()


def connection(settings: KafkaSettings) -> dict[str, Any]:
    """The options of every client of this broker.

    Raises ConfigError for a file that can't be used, and FatalDelivery if a secured broker refuses us or we it.
    """
    if settings.security_protocol != "PLAINTEXT":
        _check_admission(settings)
    return {
        **_identity(settings),
        "request_timeout_ms": int(settings.request_timeout * 1000),
        # By default it would be looked for once in 30 seconds only, after a while.
        "reconnect_backoff_max_ms": 1000,
    }


def open_consumer(settings: KafkaSettings, own: Mapping[str, Any], metadata_age: float = METADATA_AGE) -> Any:
    """A consumer that commits nothing by itself, with options of its own. Raises RetriableDelivery without a broker."""
    connected: list[Any] = []

    def connect(**options: Any) -> Any:
        connected.append(KafkaNetClient(**options))
        return connected[-1]

    try:
        return kafka.KafkaConsumer(
            **{
                "enable_auto_commit": False,
                "allow_auto_create_topics": False,
                "auto_offset_reset": "earliest",
                # Bytes that one fetch brings, and that may wait in this process, unless a single record is larger.
                "fetch_max_bytes": 4 * 1024 * 1024,
                "metadata_max_age_ms": int(metadata_age * 1000),
                "metrics_enabled": False,
                "kafka_client": connect,
                **connection(settings),
                **further_options(settings.options_of_consumers, kafka.KafkaConsumer),
                **own,
            }
        )
    except KafkaError as error:
        # Its thread and its sockets would be left behind.
        for abandoned in connected:
            abandoned.close()
        raise RetriableDelivery(unmade(settings, error)) from error


def close_consumer(consumer: Any) -> None:
    """Leave the group, if it is in one, and release the connections."""
    consumer.close(autocommit=False, timeout_ms=CALL_TIMEOUT * 1000)


def further_options(options: Mapping[str, Any], kind: Any) -> dict[str, Any]:
    """Options of the settings for a consumer or producer, over ours. Raises ConfigError for what its class lacks."""
    named = {name.replace(".", "_"): value for name, value in options.items()}
    if unknown := sorted(named.keys() - kind.DEFAULT_CONFIG.keys()):
        raise ConfigError(f"kafka.options: kafka-python's {kind.__name__} has no {', '.join(unknown)}")
    return named


def offsets(commits: Commits) -> dict[Any, Any]:
    """Commits in the client's own types."""
    return {
        kafka.TopicPartition(*partition): OffsetAndMetadata(commit.offset, commit.metadata, -1)
        for partition, commit in commits.items()
    }


def unmade(settings: KafkaSettings, error: KafkaError) -> str:
    """Why there is no client of this broker, which accepts connections."""
    if isinstance(error, KafkaTimeoutError):
        if settings.security_protocol != "PLAINTEXT":
            return (
                f"{settings.bootstrap_servers}: no answer in time; look at the broker's log, or correct section kafka"
            )
        said = f"{settings.bootstrap_servers}: no answer that kafka-python understands; "
        if settings.client == "librdkafka":
            return said + "this command asks by it whatever kafka.client is, and cannot read the broker of the demo"
        return said + "kafka.client: librdkafka may, as it does that of `rankstream demo`"
    return describe(settings.bootstrap_servers, error)


def describe(what: str, error: KafkaError) -> str:
    """The message about a request that failed, with the cure if there is one."""
    return curing(f"{what}: {type(error).__name__}", getattr(error, "errno", None))


@contextmanager
def naming_failures(what: str) -> Iterator[None]:
    """Raise RetriableDelivery with the name of the request if the broker doesn't answer it."""
    try:
        yield
    except KafkaError as error:
        raise RetriableDelivery(describe(what, error)) from error


def _identity(settings: KafkaSettings) -> dict[str, Any]:
    """The options by which a connection is made and secured. Raises ConfigError for a file that can't be used."""
    tls, sasl = settings.tls, settings.sasl
    options: dict[str, Any] = {
        "bootstrap_servers": settings.bootstrap_servers.split(","),
        "client_id": settings.group_id,
        "security_protocol": settings.security_protocol,
    }
    if settings.security_protocol.endswith("SSL"):
        check_files(tls, "kafka.tls")
        options |= {
            "ssl_check_hostname": tls.check_hostname,
            "ssl_cafile": tls.ca_file,
            "ssl_certfile": tls.certificate_file,
            "ssl_keyfile": tls.key_file,
            # None would make OpenSSL ask for the password of an encrypted key on the terminal.
            "ssl_password": secret(tls, "kafka.tls", "key_password") or "",
        }
    if sasl.mechanism is not None:
        options["sasl_mechanism"] = sasl.mechanism
    if sasl.mechanism == "OAUTHBEARER":
        options["sasl_oauth_token_provider"] = _Tokens(tokens(sasl), sasl.extensions)
    elif sasl.mechanism is not None:
        password = secret(sasl, "kafka.sasl", "password")
        options |= {"sasl_plain_username": sasl.username, "sasl_plain_password": password}
    return options


class _Tokens(AbstractTokenProvider):
    def __init__(self, source: TokenSource, extensions: Mapping[str, str]) -> None:
        super().__init__()
        self._source = source
        self._extensions = extensions

    def token(self) -> str:
        return self._source.token().value

    def extensions(self) -> dict[str, str]:
        return dict(self._extensions)


def _check_admission(settings: KafkaSettings) -> None:
    """Connect once a process; FatalDelivery names the symptom if we don't trust the broker or it doesn't take us.

    A broker that can't be reached is left to the clients' own timeouts.
    """
    door = (settings.bootstrap_servers, settings.security_protocol, settings.tls, settings.sasl)
    if door in _open:
        return
    net = NetworkSelector()
    manager = KafkaConnectionManager(net, **_identity(settings))
    with _silence():
        try:
            for broker in manager.cluster.bootstrap_brokers():
                connection = manager.get_connection(broker.node_id)
                try:
                    manager.run(manager.wait_for, connection.init_future, _PATIENCE_MS)
                except (KafkaError, RankstreamError) as error:
                    if symptom := _refusal(error, connection, settings):
                        raise FatalDelivery(f"{broker.host}:{broker.port}: {symptom}") from None
                else:
                    break
        finally:
            manager.close()
            net.close()
    _open.add(door)


@contextmanager
def _silence() -> Iterator[None]:
    # The client's own words about a refusal are several errors, some with a traceback.
    logger = logging.getLogger("kafka.net")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


_OF_NO_TLS: Final = frozenset({"unexpected eof while reading", "wrong version number"})
"""The reasons of a handshake with a listener that does not speak TLS."""


def _refusal(error: BaseException, connection: Any, settings: KafkaSettings) -> str | None:
    # What the broker wrote is left out: it knows what we sent.
    if isinstance(error, RankstreamError):
        return str(error)
    for cause in (error.__context__, *error.args):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"TLS: the broker's certificate isn't accepted: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            reason = (cause.reason or "no handshake").replace("_", " ").lower()
            cure = "; set kafka.security_protocol to PLAINTEXT or SASL_PLAINTEXT, or name the port of TLS"
            return f"TLS: {reason}{cure if reason in _OF_NO_TLS else ''}"
    mechanism = f"SASL {settings.sasl.mechanism}"
    if isinstance(error, UnsupportedSaslMechanismError):
        return f"{mechanism}: not offered by the broker; set kafka.sasl.mechanism to one that it offers"
    if isinstance(error, BrokerResponseError):
        return f"{mechanism}: the broker refuses the credentials ({type(error).__name__}){_CORRECT}"
    ends = "the broker ends the connection"
    if connection.broker_version_data is not None:
        return f"{mechanism}: {ends}, as it does when it refuses the credentials{_CORRECT}"
    if connection.parser is not None:
        return f"{ends}: it may want another security_protocol than {settings.security_protocol}"
    return None
