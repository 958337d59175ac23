"""The console: what its page holds and may do, and what its server answers and refuses."""

import base64
import hashlib
import re
import socket
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import orjson
import pytest

from flows.cli import console as console_server
from flows.cli.console import MAX_BODY, Answers, ConsoleServer, page
from flows.cli.query_client import Unanswered
from operators.delivery.client import RecordRefused
from operators.delivery.error_codes import Refusal
from schemas.errors import ConfigError, FatalDelivery
from schemas.result import Status
from tests.flows.cli.browsing import JSON, SEARCH, WITHIN, ask, post, serving
from tests.flows.cli.running import Command

NOTHING = Answers([], None)

Asked = list[Sequence[Mapping[str, Any]]]


@pytest.fixture
def asked() -> Asked:
    """The console's queries."""
    return []


@pytest.fixture
def port(asked: Asked) -> Iterator[int]:
    """The port of a console that notes what it is to ask."""

    def note(searches: Sequence[Mapping[str, Any]]) -> Answers:
        asked.append(searches)
        return NOTHING

    with serving(note) as number:
        yield number


class Elements(HTMLParser):
    """The elements of a page: each tag with its attributes, and the text of each script and style."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inline: dict[str, str] = {}
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Note a script or a style."""
        if self.found and (tag := self.found[-1][0]) in {"script", "style"} and tag not in self.inline:
            self.inline[tag] = data


def test_only_the_pages_own_script_and_style_run(port: int) -> None:
    """The policy has the hashes of both, and allows nothing else: no attribute, no other host, no frame around it."""
    got = ask(port, "GET", "/")
    elements = Elements(got.body.decode())
    policy = dict(part.strip().split(" ", 1) for part in got.headers["Content-Security-Policy"].split(";"))
    for tag in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(elements.inline[tag].encode()).digest()).decode()
        assert policy[f"{tag}-src"] == f"'sha256-{digest}'"
    assert (policy["default-src"], policy["connect-src"]) == ("'none'", "'self'")
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    attributes = {(name, value) for _, each in elements.found for name, value in each.items()}
    assert not [name for name, _ in attributes if name.startswith("on") or name in {"src", "style", "action"}]
    assert [value for name, value in attributes if name == "href"] == ["data:,"]


def test_texts_are_never_html() -> None:
    """The script uses nothing that reads a text as HTML or as code."""
    script = Elements(page()).inline["script"]
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|createContextual|\beval\b", script)


def test_the_page_says_what_every_status_means() -> None:
    """Each status has a sentence, and there are no others."""
    [listed] = re.findall(r"const STATUSES = \{(.*?)\};", page(), re.DOTALL)
    assert set(re.findall(r"(?m)^  (\w+): \"[^\"]+\.\",$", listed)) == set(Status)


def test_every_field_has_a_label() -> None:
    """Each input has a label, which a screen reader reads and a click leads from."""
    found = Elements(page()).found
    fields = {attributes["id"] for tag, attributes in found if tag in {"input", "select"}}
    assert fields == {"text", "namespace", "profile", "a", "b", "limit"}
    assert {attributes["for"] for tag, attributes in found if tag == "label"} == fields


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/", 200), ("GET", "/x", 404), ("PUT", "/", 501), ("POST", "/search", 415)]
)
def test_every_answer_is_guarded(port: int, method: str, path: str, status: int) -> None:
    """Refusals too: nothing is sniffed, kept, or read by another site, and no address is passed on."""
    got = ask(port, method, path)
    assert got.status == status
    assert "default-src 'none'" in got.headers["Content-Security-Policy"]
    assert got.headers["X-Content-Type-Options"] == "nosniff"
    assert got.headers["Cache-Control"] == "no-store"
    assert got.headers["Referrer-Policy"] == "no-referrer"
    assert got.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert got.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert not [name for name in got.headers if name.startswith("Access-Control")]


def test_only_this_machine_is_listened_to() -> None:
    """The server's address is loopback's."""
    with ConsoleServer(0, {}, lambda _: NOTHING) as server:
        assert server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("host", ["evil.example:{}", "127.0.0.1", "127.0.0.1:1", "evil.localhost:{}", ""])
def test_another_hosts_name_is_refused(port: int, asked: Asked, host: str) -> None:
    """A site whose name leads to loopback reads neither the page nor the recipes, and asks nothing."""
    named = host.format(port)
    assert [ask(port, "GET", path, Host=named).status for path in ("/", "/recipes")] == [421, 421]
    assert post(port, SEARCH, Host=named).status == 421
    assert asked == []


def test_localhost_is_this_machine(port: int, asked: Asked) -> None:
    """The page searches under either name of loopback."""
    for name in (f"localhost:{port}", f"127.0.0.1:{port}", f"LOCALHOST:{port}"):
        assert ask(port, "GET", "/", Host=name).status == 200
        assert post(port, SEARCH, Host=name, Origin=f"http://{name.lower()}").status == 200
    assert len(asked) == 3


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{}", "http://127.0.0.1:1"])
def test_another_origin_is_refused(port: int, asked: Asked, origin: str) -> None:
    """A page of another site, or of another server on this machine, has nothing asked."""
    assert post(port, SEARCH, Origin=origin.format(port)).status == 403
    assert asked == []


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_browsers_send_without_asking_is_refused(port: int, asked: Asked, kind: str) -> None:
    """Only JSON is a search; a form of another site can't be."""
    assert post(port, SEARCH, Content_Type=kind).status == 415
    assert asked == []


def test_a_body_over_1_mib_is_refused(port: int, asked: Asked) -> None:
    """A client that sends more hears so, and one that sends as much is served; one that doesn't say how much isn't."""
    padding = MAX_BODY - len(orjson.dumps({**SEARCH, "text": ""}))
    assert post(port, {**SEARCH, "text": "x" * padding}).status == 200
    assert post(port, {**SEARCH, "text": "x" * (padding + 1)}).status == 413
    assert ask(port, "POST", "/search", b"x" * (4 * MAX_BODY), **JSON).status == 413
    assert ask(port, "POST", "/search", b"", Content_Length="9" * 5000, **JSON).status == 413
    assert ask(port, "POST", "/search", b"", Content_Length="-1", **JSON).status == 411
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "not JSON: "),
        (b"\xff", "not JSON: "),
        (b'{"recipes": ["a"], "filters": ' + b"[" * 500 + b"]" * 500 + b"}", "not sent: "),
        (b"[]", "a mapping is expected"),
        (b"{}", "recipes: missing"),
        (b'{"recipes": []}', "recipes: 1 values or more are expected"),
        (b'{"recipes": ["a", "b", "c"]}', "recipes: 2 values or fewer are expected"),
        (b'{"recipes": [1]}', "recipes.0: Input should be a valid string"),
        (b'{"recipes": ["a"], "reply_to": "t"}', "reply_to: no such key"),
    ],
)
def test_what_is_no_search_is_said(port: int, asked: Asked, body: bytes, said: str) -> None:
    """The answer names the field and what is wrong, and nothing is asked."""
    got = ask(port, "POST", "/search", body, **JSON)
    assert got.status == 400
    assert said in got.json["error"]
    assert asked == []


def test_a_search_is_a_query_for_each_recipe(port: int, asked: Asked) -> None:
    """Both are asked at once, with an explanation and what else the search has; the flow judges the values."""
    post(port, {**SEARCH, "namespace": "python", "limit": "many", "filters": [{"field": "year"}]})
    same = {"text": "harbor", "namespace": "python", "limit": "many", "filters": [{"field": "year"}], "explain": True}
    same |= {"return": {"passages": 1}}
    assert asked == [[{**same, "recipe": "rrf"}, {**same, "recipe": "keyword"}]]


def test_recipes_and_profiles_are_listed(port: int) -> None:
    """Those shipped and those configured, with what is searched by default."""
    listed = ask(port, "GET", "/recipes").json
    assert {"hybrid", "keyword", "mine"} <= set(listed["recipes"])
    assert listed["profiles"]["balanced"] == "hybrid"
    assert listed["defaults"] == {"namespace": "default", "profile": "balanced"}


def too_large() -> FatalDelivery:
    """The error for a query that its topic does not take."""
    error = FatalDelivery("a query is larger than the topic takes")
    error.__cause__ = RecordRefused([], Refusal.MESSAGE_TOO_LARGE)
    return error


@pytest.mark.parametrize(
    ("error", "status"),
    [(Unanswered("no answer"), 504), (FatalDelivery("no broker"), 502), (too_large(), 413), (OSError("no file"), 502)],
)
def test_what_kafka_did_not_do_is_said(error: Exception, status: int) -> None:
    """The status and the words tell a late answer, a broker that is away and a query that is too large apart."""

    def fail(_: Sequence[Mapping[str, Any]]) -> Answers:
        raise error

    with serving(fail) as number:
        got = post(number, SEARCH)
    assert (got.status, got.json) == (status, {"error": str(error)})


def test_silent_connections_do_not_add_up(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that says nothing, or does not go on, is closed."""
    monkeypatch.setattr(console_server._Handler, "timeout", console_server._Handler.timeout / 50)
    for said in (b"", b"POST /search HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"):
        with socket.create_connection(("127.0.0.1", port), WITHIN) as silent:
            silent.sendall(said)
            assert silent.recv(1) == b""


def test_a_browser_that_goes_away_is_not_news(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is printed or logged of one that leaves before its answer."""
    asking, left = threading.Event(), threading.Event()

    def answer(_: Sequence[Mapping[str, Any]]) -> Answers:
        asking.set()
        left.wait(WITHIN)
        return NOTHING

    with serving(answer) as number:
        with socket.create_connection(("127.0.0.1", number), WITHIN) as browser:
            body = orjson.dumps(SEARCH)
            head = f"POST /search HTTP/1.1\r\nHost: 127.0.0.1:{number}\r\nContent-Type: application/json\r\n"
            browser.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            assert asking.wait(WITHIN)
            # Without a farewell: what is written to it fails.
            browser.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        left.set()
        threads = [thread for thread in threading.enumerate() if "process_request_thread" in thread.name]
        for thread in threads:
            thread.join(WITHIN)
    assert threads
    assert caplog.records == []
    assert capfd.readouterr().err == ""


def test_another_failure_is_logged_without_what_was_asked(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Its kind is said in one line, and its message, which may quote a text, is not."""

    def fail(_: Sequence[Mapping[str, Any]]) -> Answers:
        raise KeyError("harbor")

    with serving(fail) as number, pytest.raises(ConnectionError):
        post(number, SEARCH)
    assert [record.getMessage() for record in caplog.records] == ["a request failed: KeyError"]
    assert capfd.readouterr().err == ""


def test_a_taken_port_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the option and the address, before the broker is asked for."""
    command = Command(tmp_path, monkeypatch, {"qdrant": {"url": "http://127.0.0.1:9"}})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = command("console", "--port", str(taken.getsockname()[1]))
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception).startswith("--port: cannot listen on 127.0.0.1:")


def test_a_broker_that_is_away_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ends at once, and promises no page."""
    done = Command(tmp_path, monkeypatch, {"qdrant": {"url": "http://127.0.0.1:9"}})("console", "--port", "0")
    assert isinstance(done.exception, FatalDelivery)
    assert str(done.exception).startswith("no Kafka broker answers at 127.0.0.1:9 ")
    assert done.output == ""
