"""TLS and SASL of librdkafka.

Certificates and keys are read when a client is made, and so is a password; a token before the last one expires.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

from operators.delivery import credentials
from operators.delivery.credentials import TokenSource, tokens
from schemas.errors import FatalDelivery, RetriableDelivery
from schemas.settings import KafkaSettings

_IDENTIFICATION: Final = {True: "https", False: "none"}


def security(settings: KafkaSettings) -> dict[str, Any]:
    """The configuration that secures a client's connections.

    For OAUTHBEARER confluent-kafka asks for tokens on a thread of its own, with no call of `poll`, and a client's
    constructor waits for the first, 10 s at most. Where that fails, a consumer's raises an object that is no exception,
    which nothing but a bare `except` catches: a good token is made sure of here, so call this right before each client.

    Raises ConfigError for a file that can't be used and FatalDelivery if there is no good token.
    """
    credentials.check_files(settings)
    tls, sasl = settings.tls, settings.sasl
    options: dict[str, Any] = {"security.protocol": settings.security_protocol}
    if settings.security_protocol.endswith("SSL"):
        options |= {
            "ssl.endpoint.identification.algorithm": _IDENTIFICATION[tls.check_hostname],
            **_option("ssl.ca.location", tls.ca_file),
            **_option("ssl.certificate.location", tls.certificate_file),
            **_option("ssl.key.location", tls.key_file),
            **_option("ssl.key.password", credentials.key_password(tls)),
        }
    if sasl.mechanism == "OAUTHBEARER":
        options |= {"sasl.mechanism": sasl.mechanism, "oauth_cb": _callback(tokens(sasl), sasl.extensions)}
    elif sasl.mechanism is not None:
        options |= {
            "sasl.mechanism": sasl.mechanism,
            "sasl.username": sasl.username,
            "sasl.password": credentials.password(sasl),
        }
    return options


def _option(name: str, value: object) -> dict[str, str]:
    return {name: str(value)} if value is not None else {}


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
