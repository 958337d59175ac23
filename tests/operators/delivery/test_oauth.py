"""Tokens for OAUTHBEARER: from a file, or from an issuer that is a real HTTP server here."""

import base64
import json
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from bench.kafka.listeners import unsigned_token
from bench.ports import free_port
from operators.delivery.credentials import TokenSource
from schemas.errors import ConfigError, RankstreamError, RetriableDelivery
from schemas.settings.delivery import SaslSettings
from tests.kafka.issuer import Issuer

SECRET = "canary:client secret/ä"
ISSUED = "canary-token-1"


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """An issuer that runs."""
    with Issuer(ISSUED) as running:
        yield running


class Clock:
    """Seconds since the epoch, as the test wants them."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        """Now."""
        return self.now


def client(issuer: Issuer, clock: Clock) -> TokenSource:
    """A source that asks the issuer."""
    settings = SaslSettings(
        mechanism="OAUTHBEARER",
        token_url=issuer.url,
        client_id="rank stream",
        client_secret=SecretStr(SECRET),
        scope="kafka read",
    )
    return TokenSource(settings, clock)


def refusal(source: TokenSource) -> str:
    """The message when there is no token; the traceback is searched for secrets."""
    with pytest.raises(RankstreamError) as caught:
        source.token()
    assert "canary" not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


def test_a_client_is_given_a_token_as_the_rfc_has_it(issuer: Issuer) -> None:
    """The grant and the scope are a form, and the credentials a header, form-encoded so that none is ambiguous."""
    clock = Clock()
    token = client(issuer, clock).token()
    assert (token.value, token.expires) == (ISSUED, clock.now + 100)
    assert ISSUED not in repr(token)
    [(header, form)] = issuer.asked
    assert form == {"grant_type": ["client_credentials"], "scope": ["kafka read"]}
    kind, _, credentials = header.partition(" ")
    assert kind == "Basic"
    assert base64.b64decode(credentials) == b"rank+stream:canary%3Aclient+secret%2F%C3%A4"


def test_a_token_is_kept_for_most_of_its_life(issuer: Issuer) -> None:
    """The issuer is asked again before the token expires, not for each connection."""
    clock = Clock()
    source = client(issuer, clock)
    source.token()
    clock.now += 74
    source.token()
    assert len(issuer.asked) == 1
    clock.now += 2
    issuer.body = json.dumps({"access_token": "renewed"}).encode()
    assert source.token().value == "renewed"


def test_a_token_outlives_its_issuers_failure(issuer: Issuer) -> None:
    """While a token is good a failed renewal isn't missed; afterwards it is an error."""
    clock = Clock()
    source = client(issuer, clock)
    source.token()
    issuer.status = 503
    clock.now += 90
    assert source.token().value == ISSUED
    clock.now += 10
    with pytest.raises(RetriableDelivery):
        source.token()


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, f'{{"error": "invalid_client", "error_description": "{SECRET}"}}', "HTTP 401 invalid_client"),
        (400, f'{{"error": "{SECRET}"}}', "HTTP 400"),
        (500, SECRET, "HTTP 500"),
        (302, SECRET, "HTTP 302"),
        (200, SECRET, "the answer holds no token"),
        (200, "[]", "the answer holds no token"),
        (200, '{"access_token": "canary\\u0001auth=x"}', "the answer holds no token"),
        (200, '{"access_token": 7}', "the answer holds no token"),
        (200, '{"access_token": "canary", "expires_in": "canary"}', "the answer holds no token"),
        (200, '{"access_token": "canary", "expires_in": 0}', "the answer holds no token"),
    ],
)
def test_an_issuer_that_gives_no_token_is_named_by_the_symptom(
    issuer: Issuer, status: int, body: str, said: str
) -> None:
    """The status and the RFC's own codes are told, and nothing else that the issuer wrote."""
    issuer.status, issuer.body = status, body.encode()
    assert refusal(client(issuer, Clock())) == f"kafka.sasl.token_url: {said}"


def test_an_issuer_that_is_not_there_is_named_by_the_symptom() -> None:
    """No connection is told as the kind of error, without the secret."""
    settings = SaslSettings(
        mechanism="OAUTHBEARER",
        token_url=f"http://127.0.0.1:{free_port()}",
        client_id="c",
        client_secret=SecretStr(SECRET),
    )
    assert refusal(TokenSource(settings)) == "kafka.sasl.token_url: ConnectError"


def from_file(path: Path) -> TokenSource:
    """A source that reads the file."""
    return TokenSource(SaslSettings(mechanism="OAUTHBEARER", token_file=path))


def test_a_file_is_read_for_each_token(tmp_path: Path) -> None:
    """A token that somebody else renewed is what the next connection gets."""
    path = tmp_path / "token"
    source = from_file(path)
    for value in ("first", "second"):
        path.write_text(f"{value}\n")
        assert source.token().value == value


def test_a_file_is_read_again_before_its_token_expires(tmp_path: Path) -> None:
    """A JWT says when it expires; of a token that doesn't, and of a long one, the file is read again in minutes."""
    path = tmp_path / "token"
    source = TokenSource(SaslSettings(mechanism="OAUTHBEARER", token_file=path), lambda: 0.0)
    for content in ("opaque", "a.b.c", "a.e30.", unsigned_token(100_000)):
        path.write_text(content)
        assert source.token().expires == 300
    claims = base64.urlsafe_b64encode(b'{"exp": 20}').rstrip(b"=").decode()
    path.write_text(f"a.{claims}.c")
    assert source.token().expires == 20


@pytest.mark.parametrize("content", [b"", b"canary two words", b"canary\xff", b"canary\0", b"canary\nsecond line"])
def test_a_file_that_holds_no_token_is_named_by_its_setting(tmp_path: Path, content: bytes) -> None:
    """A value that would break the exchange with the broker is refused, and not repeated."""
    path = tmp_path / "token"
    path.write_bytes(content)
    assert refusal(from_file(path)).startswith("kafka.sasl.token_file: ")


@pytest.mark.parametrize("section", ["token_file", "client_secret_file"])
def test_a_file_that_is_not_there_is_named_by_its_setting(tmp_path: Path, issuer: Issuer, section: str) -> None:
    """A missing file is the operator's fault."""
    fields: dict[str, Any] = {section: tmp_path / "none"}
    if section == "client_secret_file":
        fields |= {"token_url": issuer.url, "client_id": "c"}
    source = TokenSource(SaslSettings(mechanism="OAUTHBEARER", **fields))
    with pytest.raises(ConfigError, match=f"kafka.sasl.{section}: No such file"):
        source.token()


def test_no_log_has_the_query_of_an_issuer(issuer: Issuer) -> None:
    """The HTTP library logs whole URLs."""
    script = f"""
from flows.process import logs
from operators.delivery.credentials import TokenSource
from schemas.settings import TelemetrySettings
from schemas.settings.delivery import SaslSettings
for level in ("info", "debug"):
    logs.configure(TelemetrySettings(log_level=level))
    sasl = SaslSettings(mechanism="OAUTHBEARER", token_url="{issuer.url}?key=canary", client_id="c", client_secret="s")
    print(TokenSource(sasl).token().value)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == [ISSUED, ISSUED]
    assert "canary" not in done.stderr
