"""Credentials: the files and secrets for a secured broker, read before the first connection.

A file that can't be used is a ConfigError that names its setting, instead of a client's error half a minute later.
"""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schemas.errors import ConfigError
from schemas.settings import KafkaSettings
from schemas.settings.delivery import SaslSettings, TlsSettings
from schemas.settings.section import read_secret


def key_password(tls: TlsSettings) -> str | None:
    """The password of the client's key. Raises ConfigError."""
    return _secret(tls, "kafka.tls", "key_password")


def password(sasl: SaslSettings) -> str | None:
    """The user's password. Raises ConfigError."""
    return _secret(sasl, "kafka.sasl", "password")


def client_secret(sasl: SaslSettings) -> str | None:
    """The OAuth client's secret. Raises ConfigError."""
    return _secret(sasl, "kafka.sasl", "client_secret")


def token(path: Path) -> str:
    """The token in the file. Raises ConfigError."""
    try:
        return read_secret(path)
    except OSError as error:
        raise ConfigError(f"kafka.sasl.token_file: {error.strerror}") from error


def check_files(settings: KafkaSettings) -> None:
    """Raise ConfigError, naming the setting, if a file can't be read or holds no certificate or key."""
    if not settings.security_protocol.endswith("SSL"):
        return
    tls = settings.tls
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if tls.ca_file is not None:
        with _naming("kafka.tls.ca_file"):
            context.load_verify_locations(tls.ca_file)
    if tls.certificate_file is not None and tls.key_file is not None:
        with _naming("kafka.tls.certificate_file"):
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(tls.certificate_file)
        with _naming("kafka.tls.key_file"):
            # Without a password of any kind OpenSSL would ask for it on the terminal.
            context.load_cert_chain(tls.certificate_file, tls.key_file, key_password(tls) or "")


@contextmanager
def _naming(setting: str) -> Iterator[None]:
    try:
        yield
    except ssl.SSLError as error:
        # OpenSSL's reason, such as KEY_VALUES_MISMATCH; it gives none for a file without a key, or a wrong password.
        reason = error.reason.replace("_", " ").lower() if error.reason else "not a PEM key that key_password opens"
        raise ConfigError(f"{setting}: {reason}") from error
    except OSError as error:
        raise ConfigError(f"{setting}: {error.strerror}") from error


def _secret(section: TlsSettings | SaslSettings, path: str, name: str) -> str | None:
    try:
        return section.secret(name)
    except OSError as error:
        raise ConfigError(f"{path}.{name}_file: {error.strerror}") from error
