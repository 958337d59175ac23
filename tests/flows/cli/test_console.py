"""The console: what its page may do, and what its server answers and refuses."""

import re
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import orjson
import pytest

from flows.cli.console import server as console_server
from flows.cli.console.server import MAX_BODY, Console, ConsoleServer
from flows.cli.console.workbench import TracedResults
from flows.cli.query import NoAnswer
from flows.process.http_server import ServedConnection
from operators.delivery.client import RecordRefused
from operators.delivery.error_codes import RefusalCode
from operators.evaluation.metrics import TABLE
from schemas.errors import ConfigError, FatalDelivery
from schemas.result import Status
from tests.flows.cli.browsing import JSON, SEARCH, WITHIN, Asked, Served, ask, nothing, serving, workbench
from tests.flows.cli.running import Command
from tests.integration.deployment import wait_until

VALUES = {metric: {"q": 0.5} for metric in TABLE}


class Elements(HTMLParser):
    """The elements of a page: each tag with its attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.found.append((tag, dict(attrs)))


def scripts() -> Mapping[str, str]:
    """The page's scripts by their names."""
    page = (files("flows.cli.console") / "page").iterdir()
    return {file.name: file.read_text(encoding="utf-8") for file in page if file.name.endswith(".js")}


def test_only_the_pages_own_files_run(served: Served) -> None:
    """The policy allows files of this server alone: no script or style within the page, no other host, no frame."""
    got = ask(served.port, "GET", "/")
    policy = dict(part.strip().split(" ", 1) for part in got.headers["content-security-policy"].split(";"))
    assert (policy["default-src"], policy["connect-src"]) == ("'none'", "'self'")
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    elements = Elements(got.body.decode()).found
    attributes = [(name, value) for _, each in elements for name, value in each.items()]
    assert not [name for name, _ in attributes if name.startswith("on") or name == "style"]
    addresses = [str(value) for name, value in attributes if name in {"href", "src"}]
    assert all(re.match(r"/page/|#|data:,$", each) for each in addresses), addresses
    for path in (each for each in addresses if each.startswith("/page/")):
        assert ask(served.port, "GET", path).status == 200


def test_texts_are_never_html() -> None:
    """No script reads a text as HTML or as code, or names an address of another host."""
    forbidden = (
        r"innerHTML|outerHTML\s*=|insertAdjacent|document\.write|createContextual|\beval\b|new Function|https?://"
    )
    assert {name: found for name, text in scripts().items() if (found := re.findall(forbidden, text))} == {}


def test_the_page_says_what_every_status_means() -> None:
    """Each status has a sentence, and there are no others."""
    [listed] = re.findall(r"const STATUSES = \{(.*?)\};", scripts()["cards.js"], re.DOTALL)
    assert set(re.findall(r"(?m)^  (\w+): \"[^\"]+\.\",$", listed)) == set(Status)


def test_every_field_has_a_label() -> None:
    """Each input of the first page has a label, which a screen reader reads."""
    found = Elements((files("flows.cli.console") / "index.html").read_text(encoding="utf-8")).found
    fields = {attributes["id"] for tag, attributes in found if tag in {"input", "select"}}
    assert fields == {"text", "namespace", "limit"}
    assert {attributes["for"] for tag, attributes in found if tag == "label"} == fields


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 200),
        ("GET", "/x", 404),
        ("GET", "/page/index.html", 404),
        ("GET", "/page/..%2Fserver.py", 404),
        ("PUT", "/", 405),
        ("POST", "/api/search", 401),
    ],
)
def test_every_answer_is_guarded(served: Served, method: str, path: str, status: int) -> None:
    """Refusals too: nothing is sniffed, kept, or read by another site, and no address is passed on."""
    got = ask(served.port, method, path)
    headers = {name.lower(): value for name, value in got.headers.items()}
    assert got.status == status
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == headers["cross-origin-opener-policy"] == "same-origin"
    assert not [name for name in headers if name.startswith("access-control")]


def test_only_this_machine_is_listened_to(tmp_path: Path) -> None:
    """The server's address is loopback's."""
    server = ConsoleServer(Console(workbench(tmp_path, nothing)), 0)
    with server._socket as listening:
        assert listening.getsockname()[0] == "127.0.0.1"


def test_a_grade_is_given_replaced_and_taken_back(served: Served) -> None:
    """Each answer is the grade before; the grades that stay are in the set."""
    asked = {"text": "harbor", "namespace": "default", "id": "a"}
    answers = [served.post("judge", {**asked, "grade": grade}) for grade in (2, 3, None, 1)]
    assert [(each.status, each.json) for each in answers] == [(200, {"before": each}) for each in (None, 2, 3, None)]
    assert served.get("set").json["judged"] == 1


def test_a_body_over_1_mib_is_refused(served: Served, asked: Asked) -> None:
    """A client that sends more hears so, and one that sends as much is served."""
    padding = MAX_BODY - len(orjson.dumps({**SEARCH, "text": ""}))
    assert served.post("search", {**SEARCH, "text": "x" * padding}).status == 200
    assert served.post("search", {**SEARCH, "text": "x" * (padding + 1)}).status == 413
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "not JSON: "),
        (b"\xff", "not JSON: "),
        (b'{"columns": [{}], "filters": ' + b"[" * 500 + b"]" * 500 + b"}", "not sent: "),
        (b"[]", "a mapping is expected"),
        (b"{}", "columns: missing"),
        (b'{"columns": []}', "columns: 1 values or more are expected"),
        (b'{"columns": [{}, {}, {}, {}]}', "columns: 3 values or fewer are expected"),
        (b'{"columns": [{"recipe": 1}]}', "columns.0.recipe: Input should be a valid string"),
        (b'{"columns": [{}], "reply_to": "t"}', "reply_to: no such key"),
        (b'{"columns": [{"config": "other"}]}', "config: there are main ('other')"),
    ],
)
def test_what_is_no_search_is_said(served: Served, asked: Asked, body: bytes, said: str) -> None:
    """The answer names the field and what is wrong, and nothing is asked."""
    token = {console_server.TOKEN: served.console.token or ""}
    got = ask(served.port, "POST", "/api/search", body, **JSON, **token)
    assert got.status == 400
    assert said in got.json["error"]
    assert asked == []


def test_a_search_is_a_query_for_each_column(served: Served, asked: Asked) -> None:
    """All are asked at once, with what a column says and what else the search has; the flow judges the values."""
    columns = [
        {"recipe": "rrf", "overrides": {"rrf": {"k": 3}}},
        {"profile": "deep", "rerank": False, "min_relevance": 0.2},
    ]
    served.post("search", {"text": "harbor", "limit": "many", "filters": [{"field": "year"}], "columns": columns})
    same = {"text": "harbor", "limit": "many", "filters": [{"field": "year"}], "explain": True, "debug": True}
    same |= {"record": True, "return": {"passages": 2, "text": 300}}
    assert asked == [
        [
            {**same, "recipe": "rrf", "overrides": {"rrf": {"k": 3}}},
            {**same, "profile": "deep", "rerank": False, "min_relevance": 0.2},
        ]
    ]


@pytest.mark.parametrize(
    "own",
    [
        {"text": "moon", "namespace": "sea", "filters": [{"field": "year", "op": "eq", "value": 1}]},
        {"text": "moon", "group_by": "page", "group_size": 2, "group_score": "sum"},
        {"vector": [0.5, 0.5], "destination": "d", "collection": "c", "source": "s"},
        {"text": "moon", "now": "2024-01-01T00:00:00Z", "current_cycle": 5, "reflection_boost": 2.0},
        {"subject": "x", "actor_type": "y", "order_by": {"field": "year"}},
        {"text": "moon", "post": False, "include_reflections": False, "reflections_only": True},
    ],
)
def test_runs_and_tuning_ask_the_queries_of_the_set(served: Served, asked: Asked, own: dict[str, Any]) -> None:
    """All fields of the event reach the flow but those that the column says or leaves empty, as with `evaluate`; the
    answer comes to the console, from the first result on.
    """
    columns = {"profile": "deep", "recipe": "rrf", "overrides": {}, "rerank": False, "min_relevance": 0.5}
    unasked = {"reply_to": "t", "cursor": "c", "timeout_ms": 1, "limit": 3, "record": True, "explain": True}
    judgements = served.bench.judgements
    judgements.set |= {each: {"query_id": each, **own, **columns, **unasked, "kind": "wish"} for each in ("q1", "q2")}
    judgements.grades |= {"q1": {"a": 1}, "q2": {"a": 1}}
    bare = {"return": {"fields": [], "text": "none"}}
    served.post("run", {"columns": [{"recipe": "keyword"}], "queries": ["q1"]})
    assert asked == [[{**own, "metadata": {"kind": "wish"}, "limit": 100, **bare, "recipe": "keyword"}]]
    asked.clear()
    assert served.post("tune", {"column": {"recipe": "hybrid"}, "wanted": ["fuse"]}).status == 200
    wait_until(lambda: served.get("tuning").json["state"] == "failed")
    for query, event in zip(("q1", "q2"), asked[0], strict=True):
        assert event == {
            **own,
            "metadata": {"kind": "wish"},
            "limit": 100,
            "record": True,
            **bare,
            "recipe": "hybrid",
            "query_id": query,
        }


def test_recipes_and_profiles_are_listed(served: Served) -> None:
    """Those shipped and those configured, with what is searched by default."""
    [listed] = served.get("begin").json["configurations"]
    assert {"hybrid", "keyword", "mine"} <= set(listed["recipes"])
    assert listed["profiles"]["balanced"] == "hybrid"
    assert served.get("begin").json["defaults"] == {"namespace": "default", "profile": "balanced"}
    assert served.get("begin").json["experiments"] is False
    assert served.get("experiments").json == {"reports": []}


def too_large() -> FatalDelivery:
    """The error for a query that its topic does not take."""
    error = FatalDelivery("a query is larger than the topic takes")
    error.__cause__ = RecordRefused([], RefusalCode.MESSAGE_TOO_LARGE)
    return error


@pytest.mark.parametrize(
    ("error", "status"),
    [(NoAnswer("no answer"), 504), (FatalDelivery("no broker"), 502), (too_large(), 413), (OSError("no file"), 502)],
)
def test_what_kafka_did_not_do_is_said(tmp_path: Path, error: Exception, status: int) -> None:
    """The status and the words tell a late answer, a broker that is away and a query that is too large apart."""

    def fail(_: Sequence[Mapping[str, Any]]) -> TracedResults:
        raise error

    with serving(workbench(tmp_path, fail)) as served:
        got = served.post("search", SEARCH)
    assert (got.status, got.json) == (status, {"error": str(error)})


def test_a_key_that_is_not_known_is_said(served: Served) -> None:
    """A page of an earlier start hears that it is to search again."""
    for name in ("lost", "time", "why", "explain"):
        got = served.post(name, {"key": "x", "id": "a"})
        assert (got.status, got.json["error"]) == (400, "key: this search is too long ago: search again")


def test_silent_connections_do_not_add_up(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that says nothing, or does not go on, is closed or answered, and the others are served."""
    monkeypatch.setattr(ServedConnection, "patience", 0.1)
    monkeypatch.setattr(console_server, "PATIENCE", 0.1)
    token = f"{console_server.TOKEN}: {served.console.token}\r\nContent-Type: application/json\r\n"
    head = f"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n{token}Content-Length: 9\r\n\r\n{{"
    for said, answer in ((b"", b""), (b"GET / HT", b""), (head.encode(), b"HTTP/1.1 408")):
        with socket.create_connection(("127.0.0.1", served.port), WITHIN) as silent:
            silent.sendall(said)
            assert silent.recv(12) == answer
    assert ask(served.port, "GET", "/").status == 200


@pytest.mark.parametrize("begun", ["nothing", "head", "body"])
def test_half_sent_requests_keep_nobody_out(served: Served, begun: str) -> None:
    """However many connections do not go on, and come again when they are closed, the others are served."""
    token = f"{console_server.TOKEN}: {served.console.token}\r\nContent-Type: application/json\r\n"
    body = f"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n{token}Content-Length: 9\r\n\r\n{{"
    said = {"nothing": b"", "head": b"GET / HT", "body": body.encode()}[begun]
    with ExitStack() as stack:
        for _ in range(200):
            silent = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), WITHIN))
            silent.sendall(said)
        assert [ask(served.port, "GET", "/").status for _ in range(5)] == [200] * 5


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("compare-runs", {}),
        ("compare-runs", {"first": {}, "second": {}}),
        ("compare-runs", {"first": VALUES, "second": {**VALUES, "nDCG@10": {}}}),
        ("compare-runs", {"first": VALUES, "second": {**VALUES, "nDCG@10": {"other": 0.5}}}),
        ("compare-runs", {"first": VALUES, "second": VALUES, "metric": "x"}),
        ("judge", {"text": "t" * 900_000, "namespace": "n", "id": "a", "grade": 1}),
        ("judge", {"text": "t", "namespace": "n" * 900_000, "id": "a", "grade": 1}),
        ("judge", {"text": "t", "namespace": "n", "id": "a" * 900_000, "grade": 1}),
    ],
)
def test_bad_input_is_no_failure(served: Served, name: str, body: dict[str, Any]) -> None:
    """The answer says what is wrong in a request, and nothing is written."""
    got = served.post(name, body)
    assert got.status == 400
    assert 0 < len(got.json["error"]) < 1_000


def test_another_failure_is_logged_without_what_was_asked(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Its kind is said in one line and in the answer, and its message, which may quote a text, is not."""

    def fail(_: Sequence[Mapping[str, Any]]) -> TracedResults:
        raise KeyError("harbor")

    with serving(workbench(tmp_path, fail)) as served:
        got = served.post("search", SEARCH)
    assert (got.status, got.json) == (500, {"error": "the console failed: KeyError"})
    assert [record.getMessage() for record in caplog.records] == ["a request failed: KeyError"]
    assert capfd.readouterr().err == ""


def test_a_taken_port_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the option and the address, before the broker is asked for."""
    monkeypatch.chdir(tmp_path)
    command = Command(tmp_path, monkeypatch, {"qdrant": {"url": "http://127.0.0.1:9"}})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = command("console", "--port", str(taken.getsockname()[1]))
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception).startswith("--port: cannot listen on 127.0.0.1:")


def test_a_broker_that_is_away_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ends at once, and promises no page."""
    monkeypatch.chdir(tmp_path)
    done = Command(tmp_path, monkeypatch, {"qdrant": {"url": "http://127.0.0.1:9"}})("console", "--port", "0")
    assert isinstance(done.exception, FatalDelivery)
    assert str(done.exception).startswith("no Kafka broker answers at 127.0.0.1:9 ")
    assert done.output == ""
