"""The listeners of a test's broker in addition to PLAINTEXT: TLS one-way and mutual, SASL with and without TLS.

Each SASL listener takes PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER with unsigned tokens (`alg: none`).
"""

import base64
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.kafka.certificates import HOST, KEY_PASSWORD, Certificates

USER: Final = "rankstream"
PASSWORD: Final = "canary-sasl-password-41fe"
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS: Final = ("PLAIN", *SCRAM, "OAUTHBEARER")

_PROTOCOLS: Final = {
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "SASLTLS": "SASL_SSL",
}
_LOGIN_MODULES: Final = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class Listeners:
    """The secure listeners of one broker: their ports by name (TLS, MUTUAL, SASL, SASLTLS), and their certificates."""

    certificates: Certificates
    ports: Mapping[str, int]
    format_arguments: Sequence[str] = field(
        default=tuple(
            argument
            for mechanism in SCRAM
            for argument in ("--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]")
        )
    )
    """The options that format the storage: SCRAM's users are in Kafka's own metadata."""

    def address(self, listener: str, host: str = HOST) -> str:
        """A listener's `host:port`."""
        return f"{host}:{self.ports[listener]}"

    def addresses(self, host: str) -> str:
        """All of them as the broker's property wants them, with a comma before each."""
        return "".join(f",{listener}://{host}:{port}" for listener, port in self.ports.items())

    def protocol_map(self) -> str:
        """Which protocol each speaks, with a comma before each."""
        return "".join(f",{listener}:{_PROTOCOLS[listener]}" for listener in self.ports)

    def properties(self, directory: Path) -> str:
        """The broker's further properties; the key goes into a file of `directory`."""
        keystore = directory / "keystore.pem"
        keystore.write_text(self.certificates.keystore())
        lines = [
            "ssl.keystore.type=PEM",
            f"ssl.keystore.location={keystore}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={self.certificates.authority}",
            "listener.name.mutual.ssl.client.auth=required",
        ]
        plain = f'{_LOGIN_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        scram = f"{_LOGIN_MODULES}.scram.ScramLoginModule required;"
        oauth = f"{_LOGIN_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=broker;"
        for listener in ("sasl", "sasltls"):
            prefix = f"listener.name.{listener}"
            lines.append(f"{prefix}.sasl.enabled.mechanisms={','.join(MECHANISMS)}")
            lines.append(f"{prefix}.plain.sasl.jaas.config={plain}")
            lines += [f"{prefix}.{mechanism.lower()}.sasl.jaas.config={scram}" for mechanism in SCRAM]
            lines.append(f"{prefix}.oauthbearer.sasl.jaas.config={oauth}")
        return "\n".join(lines) + "\n"

    def settings(self, listener: str, mechanism: str | None = None, host: str = HOST) -> dict[str, Any]:
        """The section `kafka` for this listener, without its `secrets`."""
        protocol = _PROTOCOLS[listener]
        settings: dict[str, Any] = {"bootstrap_servers": self.address(listener, host), "security_protocol": protocol}
        if protocol.endswith("SSL"):
            settings["tls"] = {"ca_file": str(self.certificates.authority)}
        if listener == "MUTUAL":
            files = {"certificate_file": self.certificates.client, "key_file": self.certificates.client_key}
            settings["tls"] |= {name: str(path) for name, path in files.items()}
        if mechanism == "OAUTHBEARER":
            token = self.certificates.client.with_name("token")
            token.write_text(unsigned_token(3600))
            settings["sasl"] = {"mechanism": mechanism, "token_file": str(token)}
        elif mechanism is not None:
            settings["sasl"] = {"mechanism": mechanism, "username": USER}
        return settings

    @staticmethod
    def secrets(listener: str, mechanism: str | None = None) -> dict[tuple[str, str], str]:
        """The secrets beside `settings`, by section and name."""
        secrets = {("tls", "key_password"): KEY_PASSWORD} if listener == "MUTUAL" else {}
        if mechanism is not None and mechanism != "OAUTHBEARER":
            secrets["sasl", "password"] = PASSWORD
        return secrets

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The listeners that there are."""
        return tuple(_PROTOCOLS)


def unsigned_token(lifetime: float, canary: str = "") -> str:
    """A JWT without signature for USER that expires in `lifetime` seconds (negative: it has); `canary` is a claim."""
    now = int(time.time())
    claims = {"sub": USER, "iat": now - 3600, "exp": now + int(lifetime), "canary": canary}
    return f"{_base64({'alg': 'none'})}.{_base64(claims)}."


def _base64(part: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
