"""The HTTP seam tells no secret and trusts no stranger."""

import asyncio
import shutil
import ssl
import subprocess
import traceback
from pathlib import Path

import httpx
import pytest
from aiohttp import web

from operators.clients.http.transport import Endpoint, http_transport
from schemas.errors import BackendError, BackendUnavailable, ConfigError
from tests.missing import missing
from tests.operators.clients.http.faults import HEADERS, KEY, OK, TEXT, call, raw_failure_of, sending
from tests.operators.clients.http.serving import answering, json_response


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"garbage that quotes sk-do-not-tell and the query\r\n\r\n",
        OK + b"Content-Length: 99\r\n\r\n{",
        OK + b"Content-Length: 27\r\n\r\nsk-do-not-tell in the query",
        b"HTTP/1.1 400 sk-do-not-tell\r\nX: sk-do-not-tell\r\nContent-Length: 14\r\n\r\nsk-do-not-tell",
        b"HTTP/1.1 503 sk-do-not-tell\r\nContent-Length: 14\r\n\r\nsk-do-not-tell",
    ],
)
def test_errors_tell_no_secret(sent: bytes) -> None:
    """Neither the error, nor its traceback, nor any error chained to it holds the key or a text."""
    error = raw_failure_of(sending(sent))
    assert str(error).startswith("backend")
    assert error.__cause__ is None
    assert error.__context__ is None
    told = f"{error} {error!r} {''.join(traceback.format_exception(error))}"
    for secret in (KEY, TEXT):
        assert secret not in told


def test_untrusted_certificate_is_unavailable(tmp_path: Path) -> None:
    """A server whose certificate isn't trusted gets no request; one that `verify` trusts is answered."""
    if shutil.which("openssl") is None:
        missing("the certificate needs the command openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    named = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*made, *named, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_side.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=certificate)

    async def answer(_: web.Request) -> web.Response:
        return json_response({})

    async def outcome(url: str, verify: ssl.SSLContext | bool) -> object:
        endpoint = Endpoint("backend", url, http_transport(verify=verify), HEADERS)
        try:
            return await call(endpoint)
        except BackendError as error:
            return type(error)
        finally:
            await endpoint.aclose()

    async def scenario() -> list[object]:
        async with answering(answer, tls=server_side) as url:
            return [await outcome(url, True), await outcome(url, trusting)]

    assert asyncio.run(scenario()) == [BackendUnavailable, {}]


def test_endpoint_tells_no_secret() -> None:
    """An endpoint's repr and str hold no header."""
    endpoint = Endpoint("backend", "http://127.0.0.1:1", httpx.MockTransport(lambda _: httpx.Response(200)), HEADERS)
    assert KEY not in f"{endpoint} {endpoint!r}"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "backend:80",
        "ftp://backend",
        "http://",
        "http://user:sk-do-not-tell@backend",
        "http://backend?key=sk-do-not-tell",
        "http://backend#sk-do-not-tell",
        "http://backend:port",
    ],
)
def test_unusable_url_is_a_config_error(url: str) -> None:
    """A URL that no request could use, or that carries a secret, is a ConfigError that doesn't quote it."""
    with pytest.raises(ConfigError) as caught:
        Endpoint("backend", url, http_transport())
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}\r\nX: 1", f"{KEY}é", f"{KEY}\x00"])
def test_unusable_key_is_a_config_error(key: str) -> None:
    """A key that no header can carry, as one read with its newline, is a ConfigError that doesn't quote it."""
    with pytest.raises(ConfigError) as caught:
        Endpoint("backend", "http://backend", http_transport(), {"authorization": key})
    assert "authorization" in str(caught.value)
    assert KEY not in str(caught.value)
