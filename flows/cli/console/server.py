"""`rankstream console`: a page on loopback on which ranking is searched, compared, explained, changed and judged.

Starlette on uvicorn serves a user who has the link that the command prints.

- Requests need the token of that link, unless a proxy serves the page, which authenticates whoever comes.
- A page of another site can neither read from it nor have it search: requests under another host's name, from another
  origin or site, or in a form that browsers send without asking are refused. A link of another site gets the page with
  its search filled in, and the user decides whether to search.
- The page's files are the package's own. No other script, style or address is loaded, and none stands within the page.
- A request has PATIENCE seconds to arrive.
"""

import asyncio
import hmac
import logging
import re
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import orjson
import typer
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel, Field, ValidationError
from rich.console import Console as RichConsole
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from flows.assembly.clients import InProcess
from flows.assembly.delivery import connect
from flows.cli.config import begin
from flows.cli.console.columns import Column, ConsoleSearch
from flows.cli.console.judgements import JudgementFile
from flows.cli.console.overview import Overview
from flows.cli.console.runs import BatchRun, Compared, Tuner, Tuning, compare_runs, measure_batch
from flows.cli.console.waterfall import trace_spans
from flows.cli.console.workbench import Configuration, TracedResults, Workbench, searcher
from flows.cli.experiment import report_configured
from flows.cli.output import Config, input_file, out, say
from flows.cli.query import NoAnswer
from flows.cli.rules import RuleBook, WrittenRule
from flows.process.embedded import Embedded
from flows.process.http_server import PATIENCE, HttpServer
from flows.process.supervision import StopSignals
from operators.delivery.client import RecordRefused
from operators.telemetry.export import tracer_provider
from schemas.errors import ConfigError, DeadLetterClass, InputError, RankstreamError, explain_errors
from schemas.fields import Name, Strict
from schemas.settings import KafkaSettings, load

log = logging.getLogger(__name__)

HOST: Final = "127.0.0.1"

MAX_BODY: Final = 1024 * 1024
"""Bytes of a request's body."""

TOKEN: Final = "x-rankstream-token"  # noqa: S105  the name of a header

_OWN: Final = frozenset({"same-origin", "none"})
"""Sec-Fetch-Site of the page's own requests, and of an address that the user typed."""

_JSON: Final = "application/json"
MAX_JUDGED: Final = 8_192
"""Characters of a text, and of a document's id, that are judged."""

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)

_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    # A page that opened this one must not lead it to another search afterwards.
    "Cross-Origin-Opener-Policy": "same-origin",
}

Body = TypeVar("Body", bound=BaseModel)


class Keyed(Strict):
    """A search of the page, and a document."""

    key: str
    id: str = ""


class RankRequest(Strict):
    """A search of the page, ranked again by another column."""

    key: str
    column: Column


class Keys(Strict):
    """Searches of the page."""

    keys: list[str]


class Writing(Strict):
    """A column and its search, to be written."""

    column: Column
    search: dict[str, Any] = Field(default_factory=dict)


class Grade(Strict):
    """The grade of a document for a text; None takes it back."""

    text: Annotated[str, Field(max_length=MAX_JUDGED)]
    namespace: Name
    id: Annotated[str, Field(max_length=MAX_JUDGED)]
    grade: int | None


def refuse(status: int, reason: str) -> Response:
    """An error in words."""
    return Response(orjson.dumps({"error": reason}), status, media_type=_JSON)


class Console:
    """The application: `bench` answers, `origin` is where a proxy serves the page, `port` where it is reached."""

    def __init__(self, bench: Workbench, origin: str | None = None) -> None:
        self.token = secrets.token_urlsafe(24) if origin is None else None
        self.port = 0
        self._bench = bench
        self._origin = origin
        self._html = (files("flows.cli.console") / "index.html").read_bytes()
        tuner, book, judge = Tuner(bench), RuleBook(bench.main.settings), bench.judgements.judge
        posts: list[tuple[str, type[BaseModel], Callable[[Any], Any]]] = [
            ("search", ConsoleSearch, bench.search),
            ("rank", RankRequest, lambda asked: bench.rank(asked.key, asked.column)),
            ("compare", Keys, lambda asked: bench.compare(asked.keys)),
            ("explain", Keyed, lambda asked: bench.explain(asked.key, asked.id)),
            ("lost", Keyed, lambda asked: bench.lost(asked.key)),
            ("why", Keyed, lambda asked: bench.why(asked.key, asked.id)),
            ("time", Keyed, lambda asked: bench.time(asked.key)),
            ("parameters", Column, bench.parameters),
            ("write", Writing, lambda asked: bench.write(asked.column, asked.search)),
            ("judge", Grade, lambda asked: {"before": judge(asked.text, asked.namespace, asked.id, asked.grade)}),
            ("run", BatchRun, lambda asked: {"columns": measure_batch(bench, asked)}),
            ("compare-runs", Compared, compare_runs),
            ("tune", Tuning, tuner.start),
            ("check-rule", WrittenRule, book.check),
            ("put-rule", WrittenRule, book.put),
        ]
        gets: dict[str, Callable[[], Any]] = {
            "begin": bench.begin,
            "overview": bench.overview.describe,
            "health": lambda: {"backends": bench.overview.health()},
            "set": bench.judgements.to_view,
            "tuning": tuner.progress,
            "rules": book.to_view,
            "experiments": lambda: {"reports": report_configured(bench.main.settings)},
        }
        self._app = Starlette(
            routes=[
                Route("/", self._page),
                Mount("/page", StaticFiles(packages=[("flows.cli.console", "page")])),
                *(Route(f"/api/{name}", self._post(kind, work), methods=["POST"]) for name, kind, work in posts),
                *(Route(f"/api/{name}", self._get(work)) for name, work in gets.items()),
            ],
            exception_handlers={HTTPException: _refuse_route},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request (ASGI), or refuse it, always under the same headers."""

        async def send_guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *own]
            await send(message)

        answer = next(self._refusals(Request(scope)), self._app)
        # A browser that went away is not news.
        with suppress(ClientDisconnect):
            await answer(scope, receive, send_guarded)

    @property
    def _hosts(self) -> set[str]:
        named = {f"{name}:{self.port}" for name in (HOST, "localhost")}
        # Browsers leave out the port that HTTP has by default.
        hosts = named | ({HOST, "localhost"} if self.port == 80 else set())
        return hosts | ({self._origin.partition("://")[2]} if self._origin is not None else set())

    def _refusals(self, request: Request) -> Iterator[Response]:
        """The reasons not to answer a request, each of which holds only if those before it do not."""
        # A site that has its name lead here must not become this one's origin.
        named = request.headers.getlist("host")
        if len(named) != 1 or named[0].lower() not in self._hosts:
            yield refuse(HTTPStatus.MISDIRECTED_REQUEST, f"Host: {' or '.join(sorted(self._hosts))} is expected")
        # A page of another site may send it. Its link may open the page.
        if _crosses(request) and request.url.path != "/":
            yield refuse(HTTPStatus.FORBIDDEN, "Sec-Fetch-Site: requests of other sites are refused")
        ours = {f"http://{named[0].lower()}", self._origin}
        if not ours.issuperset(request.headers.getlist("origin")):
            yield refuse(HTTPStatus.FORBIDDEN, "Origin: requests of other sites are refused")
        # The page's files hold nothing of anybody's.
        if self.token is not None and request.url.path.startswith("/api/"):
            given = request.headers.get(TOKEN, "")
            if not hmac.compare_digest(given.encode(), self.token.encode()):
                why = "the link is of another start of the console: open the one that it printed"
                yield refuse(HTTPStatus.UNAUTHORIZED, why)

    async def _page(self, request: Request) -> Response:
        # It asks nothing by itself where another site led here.
        html = self._html.replace(b"<body>", b"<body data-linked>", 1) if _crosses(request) else self._html
        return Response(html, media_type="text/html")

    def _get(self, work: Callable[[], Any]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(_: Request) -> Response:
            return await _attempt(work)

        return answer

    def _post(self, kind: type[Body], work: Callable[[Body], Any]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            # Browsers ask before they send JSON to another site; nothing here answers that they may.
            if request.headers.get("content-type", "").partition(";")[0].strip() != _JSON:
                return refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Type: {_JSON} is expected")
            try:
                body = await asyncio.wait_for(_read(request), PATIENCE)
            except TimeoutError:
                return refuse(HTTPStatus.REQUEST_TIMEOUT, f"the request did not arrive within {PATIENCE:g} s")
            if body is None:
                return refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MAX_BODY} bytes are expected")
            return await _attempt(lambda: work(parse_body(kind, body)))

        return answer


def parse_body(kind: type[Body], body: bytes) -> Body:
    """The request's body. Raises InputError that names what is wrong."""
    try:
        given = orjson.loads(body)
        # What is nested more deeply than it can be written again could not be sent.
        orjson.dumps(given)
        return kind.model_validate(given)
    except orjson.JSONDecodeError as error:
        raise InputError(DeadLetterClass.NOT_JSON, f"not JSON: {error.msg}") from error
    except orjson.JSONEncodeError as error:
        raise InputError(DeadLetterClass.INVALID, f"not sent: {error}") from error
    except ValidationError as error:
        raise InputError(DeadLetterClass.INVALID, explain_errors(error, kind)) from error


async def _read(request: Request) -> bytes | None:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            return None
    return bytes(body)


async def _attempt(work: Callable[[], Any]) -> Response:
    """The answer of work on a thread, or its error in words."""
    try:
        return Response(orjson.dumps(await run_in_threadpool(work)), media_type=_JSON)
    except InputError as error:
        return refuse(HTTPStatus.BAD_REQUEST, str(error))
    except (RankstreamError, OSError) as error:
        return refuse(_status(error), str(error))
    except Exception as error:  # noqa: BLE001  its kind is logged: a message may quote a text
        log.error("a request failed: %s", type(error).__name__)
        return refuse(HTTPStatus.INTERNAL_SERVER_ERROR, f"the console failed: {type(error).__name__}")


def _status(error: Exception) -> HTTPStatus:
    """The HTTP status that tells who failed."""
    if isinstance(error, NoAnswer):
        return HTTPStatus.GATEWAY_TIMEOUT
    cause = error.__cause__
    too_large = isinstance(cause, RecordRefused) and cause.refusal.of_size
    return HTTPStatus.REQUEST_ENTITY_TOO_LARGE if too_large else HTTPStatus.BAD_GATEWAY


def _crosses(request: Request) -> bool:
    """True if a page of another site, or of another server on this machine, led here. Old browsers don't say."""
    return not _OWN.issuperset(request.headers.getlist("sec-fetch-site"))


def _refuse_route(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return refuse(error.status_code, f"there is no such {'page' if error.status_code == 404 else 'request'}")


class ConsoleServer(HttpServer):
    """Serves a console until it is stopped. It listens from its making on, so that its port is known."""

    def __init__(self, console: Console, port: int) -> None:
        """Listen on `port` of 127.0.0.1, 0 for any free one. Raises ConfigError if that is not possible."""
        try:
            listening = socket.create_server((HOST, port), reuse_port=False)
        except OSError as error:
            why = f"--port: cannot listen on {HOST}:{port} ({error.strerror})"
            raise ConfigError(f"{why}; name another one, or 0 for any that is free") from None
        console.port = listening.getsockname()[1]
        super().__init__(console, listening)
        self._console = console

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return self._console.port

    @property
    def link(self) -> str:
        """The address of the page, with the token in its fragment, which browsers send to nobody."""
        token = f"#token={self._console.token}" if self._console.token is not None else ""
        return f"http://{HOST}:{self.port}/{token}"


QRELS: Final = Path("judgements.qrels")

_ORIGIN: Final = re.compile(r"https?://[a-z0-9.-]+(:[0-9]+)?")


def console(
    config: Config = None,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port of the page on 127.0.0.1; 0: any that is free.")
    ] = 8082,
    origin: Annotated[
        str | None,
        typer.Option(help="Address at which a proxy on this machine serves the page: https://console.example.com."),
    ] = None,
    other: Annotated[
        list[Path] | None,
        input_file(
            "Another YAML configuration to compare with; may be repeated. One of the same topics ranks the same"
            " candidates in this process.",
            once=True,
        ),
    ] = None,
    judgements: Annotated[
        Path, typer.Option(dir_okay=False, help="File for judgements in TREC format (qrels), which `evaluate` reads.")
    ] = QRELS,
    queries: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="JSON Lines file of a query set, or of results with pools; judged queries are added to it. Default:"
            " next to the judgements.",
        ),
    ] = None,
) -> None:
    """Serve a page on which to search, compare, explain, change and judge rankings, until Ctrl-C.

    Only browsers on this machine reach it, by the printed link, or a proxy. A search is one query a column, through
    Kafka.
    """
    if origin is not None and not _ORIGIN.fullmatch(origin):
        raise ConfigError("--origin: expected a scheme and a host in lower case, such as https://console.example.com")
    settings = begin(config)
    tracer = tracer_provider().get_tracer("rankstream.console")
    name = config.stem if config is not None else "default"
    configurations = {name: Configuration.of(name, settings, searcher(settings.kafka, tracer))}
    for path in other or ():
        if path.stem in configurations:
            raise ConfigError(f"--other: {path}: a configuration is called {path.stem} already")
        its = load(path)
        ask = None if _same_flow(settings.kafka, its.kafka) else searcher(its.kafka, tracer)
        configurations[path.stem] = Configuration.of(path.stem, its, ask)
    with closing(InProcess(settings)) as in_process:
        bench = Workbench(configurations, JudgementFile(judgements, queries), Overview(settings, in_process))
        server = ConsoleServer(Console(bench, origin), port)
        connect(settings.kafka)
        _serve(server, out)


def _same_flow(one: KafkaSettings, other: KafkaSettings) -> bool:
    """True if a query of the one is answered by the flow of the other."""
    return (one.bootstrap_servers, one.topics.queries) == (other.bootstrap_servers, other.topics.queries)


def _serve(server: ConsoleServer, console: RichConsole) -> None:
    StopSignals(server.stop)
    say(console, f"console: {server.link}")
    server.serve()


def serve_embedded(
    running: Embedded, provider: TracerProvider, spans: InMemorySpanExporter, judgements: Path, console: RichConsole
) -> None:
    """Serve the console of a broker and a flow in this process until a signal; it keeps the last queries' spans."""
    settings = running.settings
    ask = searcher(settings.kafka, provider.get_tracer("rankstream.console"))

    def ask_alone(searches: Sequence[Mapping[str, Any]]) -> TracedResults:
        spans.clear()
        return ask(searches)

    def spans_of(trace_id: str) -> Sequence[ReadableSpan]:
        return trace_spans(spans.get_finished_spans(), trace_id)

    overview = Overview(settings, running.in_process, own_broker=True)
    configurations = {"demo": Configuration.of("demo", settings, ask_alone)}
    bench = Workbench(configurations, JudgementFile(judgements), overview, spans_of)
    _serve(ConsoleServer(Console(bench), 0), console)
