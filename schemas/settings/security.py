"""Sections `kafka.tls` and `kafka.sasl`: how client and broker authenticate each other."""

from pathlib import Path
from typing import Final, Literal, Self, TypeVar

from pydantic import Field, model_validator

from schemas.settings.section import Secret, Section, TokenUrl

S = TypeVar("S", bound=Section)
Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]

_PASSWORD: Final = ("username", "password", "password_file")
_CLIENT: Final = ("token_url", "client_id", "client_secret", "client_secret_file", "scope")
_TOKEN: Final = ("token_file", *_CLIENT)


class TlsSettings(Section):
    """TLS, for SSL and SASL_SSL: the trusted authorities, and a client certificate. Every file is PEM."""

    ca_file: Path | None = Field(default=None, description="Trusted authorities; null: those of the system.")
    certificate_file: Path | None = Field(default=None, description="Client certificate, for brokers that require one.")
    key_file: Path | None = Field(default=None, description="Private key of the client certificate.")
    key_password: Secret = None
    key_password_file: Path | None = Field(default=None, description="File that holds the password of the key.")
    check_hostname: bool = Field(default=True, description="Check that the broker's certificate names its host.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        problems = []
        if (self.certificate_file is None) != (self.key_file is None):
            problems.append("certificate_file and key_file need each other")
        if self.key_file is None and _given(self, ("key_password", "key_password_file")):
            problems.append("key_password needs key_file")
        return _sound(self, problems)


class SaslSettings(Section):
    """SASL, for SASL_PLAINTEXT and SASL_SSL: user and password, or an OAuth 2 token from a file or an issuer."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = Field(
        default=None, description="SASL mechanism; null: no SASL."
    )
    username: str | None = Field(default=None, description="User, for PLAIN and SCRAM.")
    password: Secret = None
    password_file: Path | None = Field(default=None, description="File that holds the password.")
    token_file: Path | None = Field(
        default=None, description="For OAUTHBEARER: file with a token that another process renews; it is read again."
    )
    token_url: TokenUrl | None = Field(
        default=None, description="For OAUTHBEARER: issuer of tokens, by OAuth 2 client credentials."
    )
    client_id: str | None = Field(default=None, description="Client id for `token_url`.")
    client_secret: Secret = None
    client_secret_file: Path | None = Field(default=None, description="File that holds the client secret.")
    scope: str | None = Field(default=None, description="Scope of the requested token; null: the issuer's default.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.mechanism is None:
            unused = _given(self, (*_PASSWORD, *_TOKEN))
            return _sound(self, [f"{', '.join(unused)}: set without mechanism"] if unused else [])
        oauth = self.mechanism == "OAUTHBEARER"
        unused = _given(self, _PASSWORD if oauth else _TOKEN)
        problems = [f"{', '.join(unused)}: not for {self.mechanism}"] if unused else []
        return _sound(self, problems + (self._token_problems() if oauth else self._password_problems()))

    def _password_problems(self) -> list[str]:
        absent = [] if self.username else ["username"]
        if not _given(self, ("password", "password_file")):
            absent.append("password or password_file")
        return [f"{self.mechanism} needs {' and '.join(absent)}"] if absent else []

    def _token_problems(self) -> list[str]:
        if (self.token_file is None) == (self.token_url is None):
            return ["OAUTHBEARER needs one of token_file and token_url"]
        if self.token_url is None:
            unused = _given(self, _CLIENT)
            return [f"{', '.join(unused)}: not with token_file"] if unused else []
        absent = [] if self.client_id else ["client_id"]
        if not _given(self, ("client_secret", "client_secret_file")):
            absent.append("client_secret or client_secret_file")
        return [f"token_url needs {' and '.join(absent)}"] if absent else []


def contradictions(protocol: Protocol, tls: TlsSettings, sasl: SaslSettings) -> list[str]:
    """What is set but the protocol does not use, or what it needs but is not set; each problem names the key."""
    problems = []
    if not protocol.endswith("SSL") and tls != TlsSettings():
        problems.append(f"tls is set, but security_protocol {protocol} doesn't use it")
    if protocol.startswith("SASL") and sasl.mechanism is None:
        problems.append(f"security_protocol {protocol} needs sasl.mechanism")
    if not protocol.startswith("SASL") and sasl.mechanism is not None:
        problems.append(f"sasl is set, but security_protocol {protocol} doesn't use it")
    return problems


def _given(section: Section, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if getattr(section, name) is not None]


def _sound(section: S, problems: list[str]) -> S:
    if problems:
        raise ValueError("; ".join(problems))
    return section
