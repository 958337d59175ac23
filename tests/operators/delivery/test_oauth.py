"""Tokens for OAUTHBEARER: from a file, or from an issuer that is a real HTTP server here."""

import base64
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

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


@pytest.mark.parametrize(("written", "lifetime"), [("3599", 3599), (3599.5, 3599.5), (" 60 ", 60), (None, 300)])
def test_a_lifetime_is_read_as_issuers_write_it(issuer: Issuer, written: object, lifetime: float) -> None:
    """Some write the seconds as a string, and some none."""
    issuer.body = json.dumps({"access_token": "token", "expires_in": written, "token_type": "bearer"}).encode()
    clock = Clock()
    assert client(issuer, clock).token().expires == clock.now + lifetime


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
        (200, '{"access_token": "canary", "expires_in": "-1"}', "the answer holds no token"),
        (200, '{"access_token": "canary", "expires_in": "inf"}', "the answer holds no token"),
        (200, '{"access_token": "canary", "expires_in": []}', "the answer holds no token"),
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
    with pytest.raises(ConfigError, match=f"kafka.sasl.{section}: .*: No such file"):
        source.token()


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Credentials of AWS in the environment, and no others."""
    for name in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIACANARY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def signing(now: Callable[[], float] = time.time) -> TokenSource:
    """A source that signs for a region."""
    return TokenSource(SaslSettings(mechanism="OAUTHBEARER", aws_region="eu-central-1"), now)


def test_a_token_of_aws_is_a_signed_address(aws: None) -> None:
    """As Amazon MSK wants it: a presigned URL in base64, of the region, good for 15 minutes."""
    before = int(time.time())
    token = signing().token()
    assert before + 900 <= token.expires <= time.time() + 900
    url = urlsplit(base64.urlsafe_b64decode(token.value + "=" * (-len(token.value) % 4)).decode())
    assert (url.scheme, url.hostname) == ("https", "kafka.eu-central-1.amazonaws.com")
    signed = parse_qs(url.query)
    assert (signed["Action"], signed["X-Amz-Expires"]) == (["kafka-cluster:Connect"], ["900"])
    assert signed["X-Amz-Credential"][0].startswith("AKIACANARY/")
    assert signed["X-Amz-Credential"][0].endswith("/eu-central-1/kafka-cluster/aws4_request")
    assert len(signed["X-Amz-Signature"][0]) == 64
    assert SECRET not in token.value


def test_a_token_of_aws_is_renewed_before_it_expires(aws: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is kept for three quarters of its life; then the credentials of that time sign another."""
    clock = Clock()
    clock.now = time.time()
    source = signing(clock)
    first = source.token()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOTHER")
    clock.now += 670
    assert source.token() is first
    clock.now += 10
    assert source.token().value != first.value


def test_without_credentials_of_aws_the_setting_is_named(aws: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may come in a moment, so it is tried again."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert refusal(signing()) == "kafka.sasl.aws_region: no AWS credentials"


def test_without_the_signer_the_extra_is_named(aws: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signer is installed only by those who need it."""
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(ConfigError, match=r"kafka\.sasl\.aws_region: .*rankstream\[msk\]"):
        signing().token()


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
