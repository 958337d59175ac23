"""Requests to backends as the configuration has them: headers, paths, bodies, trusted authorities and proxies."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from flows.assembly.clients import Clients, InProcess, make_cross_encoder, make_embedder
from operators.clients.http.transport import proxy_for
from operators.clients.rerankers.listwise import FORM
from operators.telemetry.metrics import FlowMetrics, Instruments
from schemas.errors import BackendError, ConfigError
from schemas.settings import load
from tests.missing import missing
from tests.operators.clients.http.serving import answering, json_response, speaking

METRICS = FlowMetrics(Instruments(), "test")
HOST = "backend.test"


async def embed(section: dict[str, Any]) -> int | BackendError:
    """Embed a text by OpenAI's API; the number of vectors, or the error."""
    settings = load(
        None, {"qdrant": {"url": "http://q", "dimension": 2}, "rerank": {"kind": "none"}, "embedder": section}
    )
    client = make_embedder(settings, InProcess(settings), METRICS)
    assert client is not None
    try:
        return len(await client.embed(["a text"], purpose="query", timeout=10.0))
    except BackendError as error:
        return error
    finally:
        await client.aclose()


class Server:
    """An embedder with OpenAI's API; it keeps its requests."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.bodies: list[Any] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Answer one vector."""
        self.requests.append(request)
        self.bodies.append(await request.json())
        return json_response({"data": [{"index": 0, "embedding": [1.0, 0.0]}]})


def test_a_request_is_as_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Key, headers, path, query parameters and further fields are the configuration's, secrets from where keys are."""
    monkeypatch.setenv("RANKSTREAM_EMBEDDER__API_KEY", "the-key")
    (tmp_path / "tenant").write_text("from a file\n")
    server = Server()

    async def scenario() -> None:
        async with answering(server) as url:
            section = {
                "kind": "openai",
                "url": f"{url}/openai",
                "api_key_header": "api-key",
                "headers": {"X-Gateway": "one"},
                "header_files": {"x-tenant": str(tmp_path / "tenant")},
                "request_path": "/deployments/small/embeddings",
                "query": {"api-version": "2024-06-01"},
                "body": {"truncate_prompt_tokens": -1, "encoding_format": None},
            }
            assert await embed(section) == 1

    asyncio.run(scenario())
    (request,) = server.requests
    assert request.path_qs == "/openai/deployments/small/embeddings?api-version=2024-06-01"
    sent = {
        name: request.headers.get(name) for name in ("api-key", "authorization", "x-gateway", "x-tenant", "user-agent")
    }
    assert sent == {
        "api-key": "the-key",
        "authorization": None,
        "x-gateway": "one",
        "x-tenant": "from a file",
        "user-agent": f"rankstream/{version('rankstream')}",
    }
    assert server.bodies[0]["truncate_prompt_tokens"] == -1
    assert "encoding_format" not in server.bodies[0]


@pytest.mark.parametrize(
    ("section", "path"),
    [
        ({"body": {"input": "another text"}}, "embedder.body"),
        ({"body": {"messages": []}}, "embedder.body"),
        ({"headers": {"Content-Type": "text/plain"}}, "embedder.headers"),
        ({"headers": {"x gateway": "one"}}, "embedder.headers"),
        ({"headers": {"x-gateway": "one\r\ntwo"}}, "embedder.headers"),
        ({"request_path": "embeddings"}, "embedder.request_path"),
        ({"header_files": {"x-tenant": "/does/not/exist"}}, "embedder.header_files"),
        ({"tls": {"ca": "/does/not/exist"}}, "embedder.tls.ca"),
    ],
)
def test_what_no_request_can_carry_is_refused_at_start(section: dict[str, Any], path: str) -> None:
    """The error names the key, and no value of it."""
    with pytest.raises(ConfigError, match=path) as caught:
        asyncio.run(embed({"kind": "openai", "url": "http://backend.test", **section}))
    assert "one" not in str(caught.value)


@pytest.mark.parametrize(
    "section",
    [
        {"header_files": {"x-tenant": "/does/not/exist"}},
        {"tls": {"ca": "/does/not/exist"}},
        {"api_key_file": "/does/not/exist"},
    ],
)
def test_a_file_of_the_reranker_is_named_by_its_section(section: dict[str, Any]) -> None:
    """The key that is to be corrected is one of `rerank`, whatever the backend is called in metrics."""
    settings = load(
        None, {"qdrant": {"url": "http://q"}, "rerank": {"kind": "tei", "url": "http://backend.test", **section}}
    )
    with pytest.raises(ConfigError, match=rf"^rerank\.{next(iter(section))}(\.ca)?: /does/not/exist"):
        make_cross_encoder(settings, InProcess(settings), METRICS)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    """The certificate of a private authority, and the TLS of a server that it vouches for."""
    if shutil.which("openssl") is None:
        missing("the certificate needs the command openssl")
    directory = tmp_path_factory.mktemp("tls")
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    named = ["-subj", f"/CN={HOST}", "-addext", f"subjectAltName=IP:127.0.0.1,DNS:{HOST}"]
    subprocess.run([*made, *named, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return certificate, context


def test_a_private_authority_is_trusted_where_it_is_configured(
    authority: tuple[Path, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By `tls.ca` or by SSL_CERT_FILE; without either the error says that the certificate is not trusted."""
    certificate, context = authority

    async def scenario() -> None:
        async with answering(Server(), tls=context) as url:
            section = {"kind": "openai", "url": url}
            assert "certificate not trusted" in str(await embed(section))
            assert await embed({**section, "tls": {"ca": str(certificate)}}) == 1
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
            assert await embed(section) == 1

    asyncio.run(scenario())


class Proxy:
    """A proxy: tunnels for https, forwarded requests for http, all to one port; it keeps the targets."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.targets: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.split(b" ", 2)
        self.targets.append(target)
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self.port)
        if method == b"CONNECT":
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            inner_writer.write(head.replace(target, b"/" + target.split(b"/", 3)[3], 1))

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()

        _, others = await asyncio.wait(
            {asyncio.create_task(pump(reader, inner_writer)), asyncio.create_task(pump(inner_reader, writer))},
            return_when=asyncio.FIRST_COMPLETED,
        )
        for task in others:
            task.cancel()
        inner_writer.close()


@asynccontextmanager
async def proxied(server: Server, tls: ssl.SSLContext | None) -> AsyncIterator[tuple[Proxy, str]]:
    """A proxy before a server, and its address."""
    async with answering(server, tls=tls) as url:
        proxy = Proxy(int(url.rpartition(":")[2]))
        async with speaking(proxy) as address:
            yield proxy, address


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_requests_go_through_the_proxy_of_the_environment(
    scheme: str, authority: tuple[Path, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    """HTTPS_PROXY tunnels, HTTP_PROXY forwards; a host in NO_PROXY is called without it."""
    certificate, context = authority

    async def scenario() -> None:
        async with proxied(Server(), context if scheme == "https" else None) as (proxy, address):
            monkeypatch.setenv(f"{scheme}_proxy", address)
            section = {"kind": "openai", "url": f"{scheme}://{HOST}:8443/v1", "tls": {"ca": str(certificate)}}
            assert await embed(section) == 1
            assert proxy.targets == [
                b"http://backend.test:8443/v1/embeddings" if scheme == "http" else b"backend.test:8443"
            ]
            monkeypatch.setenv("no_proxy", "backend.test")
            assert "name not found" in str(await embed(section))

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:6333", None),
        ("http://127.0.0.2", None),
        ("http://[::1]:80", None),
        ("http://qdrant:6333", None),
        ("http://10.1.2.3:6333", None),
        ("http://api.near.test", None),
        ("http://192.168.0.1", "http://proxy.test:3128"),
        ("https://api.test", "http://proxy.test:3128"),
    ],
)
def test_a_server_nearby_has_no_proxy(url: str, expected: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of this machine, services by their bare names, and the hosts and networks of NO_PROXY."""
    monkeypatch.setenv("all_proxy", "proxy.test:3128")
    monkeypatch.setenv("no_proxy", "near.test, example.test/path, 10.0.0.0/33, 10.0.0.0/8")
    assert proxy_for(url) == expected


def test_a_proxy_of_another_kind_is_told_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """SOCKS is none that requests can go through."""
    monkeypatch.setenv("https_proxy", "socks5://proxy.test:1080")
    with pytest.raises(ConfigError, match="proxy for https"):
        proxy_for("https://api.test")


def test_every_backend_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Qdrant, embedder, reranker and chat model send the configured headers."""
    seen: dict[str, set[str | None]] = {}

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.setdefault(request.headers["x-gateway"], set()).add(request.headers.get("x-key"))
        return json_response({}, 400)

    async def scenario() -> None:
        async with answering(answer) as url:
            for name in ("QDRANT", "EMBEDDER", "RERANK", "CHAT"):
                monkeypatch.setenv(f"RANKSTREAM_{name}__API_KEY", name)
            common = {"url": url, "api_key_header": "x-key"}
            settings = load(
                None,
                {
                    "qdrant": {**common, "headers": {"x-gateway": "qdrant"}},
                    "embedder": {**common, "kind": "tei", "headers": {"x-gateway": "embedder"}},
                    "rerank": {**common, "kind": "tei", "headers": {"x-gateway": "reranker"}},
                    "chat": {**common, "kind": "openai", "model": "m", "headers": {"x-gateway": "chat"}},
                },
            )
            clients = Clients.of(settings, InProcess(settings), METRICS)
            assert clients.embedder is not None
            assert clients.chat is not None
            calls = [
                clients.qdrant.collection_info("documents", timeout=5),
                clients.embedder.embed(["a"], purpose="query", timeout=5),
                clients.chat.complete("a", "b", FORM, timeout=5),
            ]
            assert all(isinstance(each, BackendError) for each in await asyncio.gather(*calls, return_exceptions=True))
            for connected in clients.connections.values():
                await connected.aclose()

    asyncio.run(scenario())
    assert seen == {"qdrant": {"QDRANT"}, "embedder": {"EMBEDDER"}, "chat": {"CHAT"}}
