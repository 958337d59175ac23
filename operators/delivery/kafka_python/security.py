"""TLS and SASL of kafka-python.

Certificates, keys and tokens are read again for each connection; a password once, when the client is made.

Where the broker refuses us kafka-python goes on trying and then reports a time-out: `check_admission` asks once
beforehand. An answer that arrives together with the connection's end is lost, as the refusal of PLAIN is: once the two
have begun to speak, an end is a refusal.
"""

import logging
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from kafka.errors import BrokerResponseError, KafkaError, UnsupportedSaslMechanismError
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.selector import NetworkSelector

from operators.delivery import credentials
from operators.delivery.credentials import TokenSource, tokens
from schemas.errors import FatalDelivery, RankstreamError
from schemas.settings import KafkaSettings
from schemas.settings.delivery import SaslSettings, TlsSettings

_PATIENCE_MS: Final = 10_000

_open: set[tuple[str, str, TlsSettings, SaslSettings]] = set()


def security(settings: KafkaSettings) -> dict[str, Any]:
    """The options that secure a client's connections. Raises ConfigError for a file that can't be used."""
    credentials.check_files(settings)
    tls, sasl = settings.tls, settings.sasl
    options: dict[str, Any] = {"security_protocol": settings.security_protocol}
    if settings.security_protocol.endswith("SSL"):
        options |= {
            "ssl_check_hostname": tls.check_hostname,
            "ssl_cafile": tls.ca_file,
            "ssl_certfile": tls.certificate_file,
            "ssl_keyfile": tls.key_file,
            # None would make OpenSSL ask for the password of an encrypted key on the terminal.
            "ssl_password": credentials.key_password(tls) or "",
        }
    if sasl.mechanism == "OAUTHBEARER":
        options |= {
            "sasl_mechanism": sasl.mechanism,
            "sasl_oauth_token_provider": _Tokens(tokens(sasl), sasl.extensions),
        }
    elif sasl.mechanism is not None:
        options |= {
            "sasl_mechanism": sasl.mechanism,
            "sasl_plain_username": sasl.username,
            "sasl_plain_password": credentials.password(sasl),
        }
    return options


def check_admission(settings: KafkaSettings) -> None:
    """Connect once a process; FatalDelivery names the symptom if we don't trust the broker or it doesn't take us.

    A broker that can't be reached is left to the clients' own timeouts.
    """
    door = (settings.bootstrap_servers, settings.security_protocol, settings.tls, settings.sasl)
    if door not in _open:
        _knock(settings)
        _open.add(door)


def _knock(settings: KafkaSettings) -> None:
    options = {
        "bootstrap_servers": settings.bootstrap_servers.split(","),
        "client_id": settings.group_id,
        **security(settings),
    }
    net = NetworkSelector()
    manager = KafkaConnectionManager(net, **options)
    try:
        for broker in manager.cluster.bootstrap_brokers():
            connection = manager.get_connection(broker.node_id)
            try:
                with _silence():
                    manager.run(manager.wait_for, connection.init_future, _PATIENCE_MS)
            except (KafkaError, RankstreamError) as error:
                if symptom := _refusal(error, connection, settings):
                    raise FatalDelivery(f"{broker.host}:{broker.port}: {symptom}") from None
            else:
                return
    finally:
        manager.close()
        net.close()


class _Tokens(AbstractTokenProvider):
    def __init__(self, source: TokenSource, extensions: Mapping[str, str]) -> None:
        super().__init__()
        self._source = source
        self._extensions = extensions

    def token(self) -> str:
        return self._source.token().value

    def extensions(self) -> dict[str, str]:
        return dict(self._extensions)


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


def _refusal(error: BaseException, connection: Any, settings: KafkaSettings) -> str | None:
    # What the broker wrote is left out: it knows what we sent.
    if isinstance(error, RankstreamError):
        return str(error)
    for cause in (error.__context__, *error.args):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"TLS: the broker's certificate isn't accepted: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return f"TLS: {(cause.reason or 'no handshake').replace('_', ' ').lower()}"
    mechanism = f"SASL {settings.sasl.mechanism}"
    if isinstance(error, UnsupportedSaslMechanismError):
        return f"{mechanism}: not offered by the broker"
    if isinstance(error, BrokerResponseError):
        return f"{mechanism}: the broker refuses the credentials ({type(error).__name__})"
    if connection.broker_version_data is not None:
        return f"{mechanism}: the broker ends the connection, as it does when it refuses the credentials"
    if connection.parser is not None:
        return (
            f"the broker ends the connection: it may want another security_protocol than {settings.security_protocol}"
        )
    return None
