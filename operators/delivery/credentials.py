"""Credentials: the files, secrets and tokens for a secured broker.

A file that can't be used is a ConfigError that names its setting, before the first connection, instead of a client's
error half a minute later. Tokens for SASL OAUTHBEARER come from a file that another process renews, by the client
credentials of OAuth 2 (RFC 6749, 4.4), or from AWS's signer for Amazon MSK. No error holds a token, a secret or the
issuer's text.
"""

import base64
import binascii
import functools
import math
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_plus

import httpx
import orjson

from schemas.errors import ConfigError, RetriableDelivery
from schemas.settings.delivery import SaslSettings, SchemaRegistrySettings, TlsSettings
from schemas.settings.section import Section, read_secret

TIMEOUT: Final = 4.0
"""Seconds for the issuer's answer: less than a group's session timeout, since the waiting thread sends heartbeats."""

_UNTOLD_LIFETIME: Final = 300.0
_FRESH: Final = 0.75
_BEARER: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_ERRORS: Final = {"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "invalid_scope"}


def check_files(section: TlsSettings | SchemaRegistrySettings, path: str) -> None:
    """Raise ConfigError, naming the setting of this `path`, if a file can't be read or holds no certificate or key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if section.ca_file is not None:
        with _naming(f"{path}.ca_file", section.ca_file):
            context.load_verify_locations(section.ca_file)
    if isinstance(section, TlsSettings) and section.certificate_file is not None and section.key_file is not None:
        with _naming(f"{path}.certificate_file", section.certificate_file):
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(section.certificate_file)
        password = secret(section, path, "key_password")
        with _naming(f"{path}.key_file", section.key_file):
            # Without a password of any kind OpenSSL would ask for it on the terminal.
            context.load_cert_chain(section.certificate_file, section.key_file, password or "")


@contextmanager
def _naming(setting: str, file: Path | None) -> Iterator[None]:
    try:
        yield
    except ssl.SSLError as error:
        # OpenSSL's reason, such as KEY_VALUES_MISMATCH; it gives none for a file without a key, or a wrong password.
        reason = error.reason.replace("_", " ").lower() if error.reason else "not a PEM key that key_password opens"
        raise ConfigError(f"{setting}: {reason}") from error
    except OSError as error:
        raise ConfigError(f"{setting}: {file}: {error.strerror}") from error


def secret(section: Section, path: str, name: str) -> str | None:
    """The secret of a section of this `path`, read from its file if one is configured. Raises ConfigError."""
    with _naming(f"{path}.{name}_file", getattr(section, f"{name}_file")):
        return section.secret(name)


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A token and its expiry in Unix seconds."""

    value: str = field(repr=False)
    expires: float


class TokenSource:
    """Gives a valid token to each new connection. Thread-safe."""

    def __init__(self, sasl: SaslSettings, now: Callable[[], float] = time.time) -> None:
        self._sasl = sasl
        self._now = now
        self._lock = threading.Lock()
        self._issued: BearerToken | None = None
        self._fresh_until = 0.0

    def token(self) -> BearerToken:
        """A valid token: the file's present one, or an issued one, which is renewed after three quarters of its life.

        Raises ConfigError for a file that can't be used or a missing signer, and RetriableDelivery for an issuer that
        gives none.
        """
        path = self._sasl.token_file
        if path is not None:
            with _naming("kafka.sasl.token_file", path):
                value = _bearer(read_secret(path))
            if value is None:
                raise ConfigError("kafka.sasl.token_file: expected a bearer token in the file")
            return BearerToken(value, min(_expiry(value), self._now() + _UNTOLD_LIFETIME))
        with self._lock:
            if self._issued is None or self._now() >= self._fresh_until:
                self._renew()
            assert self._issued is not None
            return self._issued

    def _renew(self) -> None:
        asked = self._now()
        try:
            value, lifetime = self._sign(asked) if self._sasl.aws_region else self._ask()
        except RetriableDelivery:
            if self._issued is None or asked >= self._issued.expires:
                raise
            return
        self._issued = BearerToken(value, asked + lifetime)
        self._fresh_until = asked + _FRESH * lifetime

    def _ask(self) -> tuple[str, float]:
        sasl = self._sasl
        assert sasl.token_url is not None
        form = {"grant_type": "client_credentials", **({"scope": sasl.scope} if sasl.scope else {})}
        # RFC 6749, 2.3.1: both are form-encoded before they are put into the header.
        client = (quote_plus(sasl.client_id or ""), quote_plus(secret(sasl, "kafka.sasl", "client_secret") or ""))
        try:
            answer = httpx.post(sasl.token_url, data=form, auth=client, timeout=TIMEOUT)
        except httpx.HTTPError as error:
            raise RetriableDelivery(f"kafka.sasl.token_url: {type(error).__name__}") from None
        body = _object(answer.content)
        if answer.status_code != httpx.codes.OK:
            code = body.get("error")
            told = f" {code}" if code in _ERRORS else ""
            raise RetriableDelivery(f"kafka.sasl.token_url: HTTP {answer.status_code}{told}")
        value = _bearer(body.get("access_token"))
        lifetime = _number(body["expires_in"]) if body.get("expires_in") is not None else _UNTOLD_LIFETIME
        if value is None or lifetime is None or lifetime <= 0:
            raise RetriableDelivery("kafka.sasl.token_url: the answer holds no token")
        return value, lifetime

    def _sign(self, now: float) -> tuple[str, float]:
        try:
            from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
        except ImportError:  # It is an extra.
            raise ConfigError("kafka.sasl.aws_region: install the extra msk, pip install 'rankstream[msk]'") from None
        try:
            value, expires_ms = MSKAuthTokenProvider.generate_auth_token(self._sasl.aws_region)
        except Exception as error:  # noqa: BLE001  it has no errors of its own, and none without credentials
            name = "no AWS credentials" if isinstance(error, AttributeError) else type(error).__name__
            raise RetriableDelivery(f"kafka.sasl.aws_region: {name}") from None
        return value, expires_ms / 1000 - now


tokens: Final = functools.cache(TokenSource)
"""The token source of a process by its settings: Kafka clients share it, so that the issuer is asked once for all."""


def _bearer(value: Any) -> str | None:
    return value if isinstance(value, str) and _BEARER.fullmatch(value) else None


def _number(value: Any) -> float | None:
    """A finite number; some issuers write it as a string."""
    try:
        number = float(value) if isinstance(value, int | float | str) else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _expiry(token: str) -> float:
    """A JWT's expiry in Unix seconds; infinity for a token without one."""
    try:
        claims = token.split(".")[1]
        number = _number(_object(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4))).get("exp"))
    except (IndexError, binascii.Error):
        number = None
    return math.inf if number is None else number


def _object(content: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
