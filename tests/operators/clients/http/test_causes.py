"""Why a request got no answer: the address and the cause are in the error, for operators."""

import asyncio
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import httpx
import pytest
from aiohttp import web

from operators.clients.http.connection import SilentEnd
from operators.clients.http.transport import Endpoint, cause_of, http_transport
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable
from tests.missing import missing
from tests.operators.clients.http.resilience import unused_port
from tests.operators.clients.http.serving import answering, json_response, speaking


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """A server's TLS with a certificate that nobody trusts."""
    if shutil.which("openssl") is None:
        missing("the certificate needs the command openssl")
    directory: Path = tmp_path_factory.mktemp("tls")
    key, made = directory / "key.pem", directory / "certificate.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    named = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, *named, "-keyout", key, "-out", made], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(made, key)
    return context


async def said(url: str, timeout: float = 5.0) -> tuple[type[BackendError], str]:
    """The outcome of a call to this URL: the error and its text, the address cut off."""
    endpoint = Endpoint("backend", f"{url}/with/a/path", http_transport())
    with pytest.raises(BackendError) as caught:
        await endpoint.call("POST", "/", {}, timeout=timeout)
    await endpoint.aclose()
    start = f"backend at {url}: "
    assert str(caught.value).startswith(start)
    return type(caught.value), str(caught.value).removeprefix(start)


async def _answer(_: web.Request) -> web.Response:
    return json_response({})


async def test_a_refused_connection() -> None:
    """A port on which nobody listens is told as that."""
    kind, cause = await said(f"http://127.0.0.1:{unused_port()}")
    assert (kind, cause) == (BackendUnavailable, "connection refused")


async def test_an_untrusted_certificate(certificate: ssl.SSLContext) -> None:
    """A certificate that isn't trusted is told with the library's reason."""
    async with answering(_answer, tls=certificate) as url:
        assert await said(url) == (BackendUnavailable, "certificate not trusted: self-signed certificate")


async def test_http_spoken_to_a_tls_port(certificate: ssl.SSLContext) -> None:
    """A server that wants TLS is told as that if it sends an alert; one that hangs up may be one, and may not."""

    async def alert(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x15\x03\x01\x00\x02\x02\x46")
        await writer.drain()

    async with speaking(alert) as url:
        by_alert = await said(url)
    async with answering(_answer, tls=certificate) as url:
        by_alert, by_openssl = [by_alert, await said(url.replace("https", "http"))]
    assert by_alert == (BackendBadResponse, "not an HTTP answer: http spoken to a TLS port")
    ended = "the connection broke without an answer, as a port of TLS or of another protocol ends one that speaks http"
    assert by_openssl == (BackendUnavailable, ended)


@pytest.mark.parametrize("answers", [b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", b"", b"\x00" * 40])
async def test_https_spoken_to_a_plain_port(answers: bytes) -> None:
    """A server that speaks no TLS is told as that, whether it answers in HTTP, hangs up, or says anything else."""

    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(answers)
        await writer.drain()

    async with speaking(plain) as url:
        kind, cause = await said(url.replace("http", "https"))
    assert kind is BackendUnavailable
    assert cause.endswith(f"https spoken to a plain port{'' if answers else '?'}")


async def test_no_connection_in_time() -> None:
    """A server that accepts no connection is told apart from one that doesn't answer."""

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()
        async with speaking(silent) as url:
            unanswered = await said(url, timeout=0.3)
        # One place in the queue of those that wait to be accepted, and it is taken.
        with socket.socket() as full, socket.socket() as first, socket.socket() as second:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            for each in (first, second):
                each.setblocking(False)
                each.connect_ex(full.getsockname())
            assert [unanswered, await said(f"http://127.0.0.1:{full.getsockname()[1]}", timeout=0.3)] == [
                (BackendTimeout, "no answer in time"),
                (BackendTimeout, "no connection in time"),
            ]


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (socket.gaierror(-2, "Name or service not known"), "name not found"),
        (OSError(113, "quoted"), "no route to host"),
        (OSError("Multiple exceptions"), "no connection"),
        (httpx.ReadError("quoted"), "the connection broke"),
        (SilentEnd("quoted"), "the connection broke without an answer"),
        (ConnectionRefusedError(111, "quoted"), "connection refused"),
    ],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_what_a_library_quotes_is_not_told(error: Exception, cause: str, wrapped: bool) -> None:
    """An error is told by what it means, in words of ours, by itself and as another's cause."""
    outer = httpx.ConnectError("quoted")
    outer.__cause__ = error
    assert cause_of(outer if wrapped else error) == cause
