"""`rankstream console`: a page on loopback that searches by one recipe or two, side by side.

It listens on loopback, and authenticates nobody: a proxy that serves it to others must. A page of another site can
neither read from it nor have it search: requests under another host's name, from another origin or site, or in a form
that browsers send without asking are refused. A link of another site gets the page with its search filled in, and the
user decides whether to search.
"""

import base64
import hashlib
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from importlib.resources import files
from typing import Annotated, Any, Final, NamedTuple, Self

import orjson
import typer
from opentelemetry.trace import Tracer, format_trace_id
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flows.assembly.delivery import connect
from flows.cli.output import SHOWN, Config, out, say
from flows.cli.query_client import Event, QueryClient, Unanswered
from flows.process import logs
from flows.process.http_server import HEAD, BoundedHandler, BoundedServer
from flows.process.signals import StopSignals
from operators.delivery.client import RecordRefused
from operators.telemetry.export import tracer_provider
from schemas.errors import ConfigError, RankstreamError
from schemas.settings import KafkaSettings, Settings, load
from schemas.settings.ranking import BALANCED
from schemas.wording import MAX_WORDED, explain_problem, join_first

HOST: Final = "127.0.0.1"

MAX_BODY: Final = 1024 * 1024
"""Bytes of a request's body."""

_DISCARDED: Final = 16 * MAX_BODY
"""Bytes of a body that is too large which are read all the same: many clients send all before they read the answer."""

_OWN: Final = frozenset({"same-origin", "none"})
"""Sec-Fetch-Site of the page's own requests, and of an address that the user typed."""

_ORIGIN: Final = re.compile(r"https?://[a-z0-9.-]+(:[0-9]+)?")

_JSON: Final = "application/json"
_HTML: Final = "text/html; charset=utf-8"


class Answers(NamedTuple):
    """One result event for each query, in the order of the queries, and the trace that they are in, if there is one."""

    results: list[dict[str, Any]]
    trace_id: str | None


Ask = Callable[[Sequence[Mapping[str, Any]]], Answers]


class Reply(NamedTuple):
    """One HTTP response."""

    status: int
    kind: str
    body: bytes

    @classmethod
    def json(cls, value: object, status: int = HTTPStatus.OK) -> Self:
        """A value as JSON."""
        return cls(status, _JSON, orjson.dumps(value))

    @classmethod
    def error(cls, status: int, reason: str) -> Self:
        """An error in words."""
        return cls.json({"error": reason}, status)


class Search(BaseModel):
    """A search of the page: fields of a query event, which the search flow judges, and one recipe or two.

    The empty recipe is the profile's, as in a query event.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    recipes: Annotated[list[str], Field(min_length=1, max_length=2)]
    text: Any = None
    namespace: Any = None
    profile: Any = None
    limit: Any = None
    filters: Any = None
    explain: Any = True

    def events(self) -> list[dict[str, Any]]:
        """The query events, one for each recipe, without their ids."""
        same = {**self.model_dump(exclude={"recipes"}, exclude_none=True), "return": SHOWN}
        return [{**same, "recipe": recipe} for recipe in self.recipes]


def page() -> str:
    """The page as it is shipped."""
    return (files("flows.cli") / "console.html").read_text(encoding="utf-8")


def policy(html: str) -> str:
    """The Content-Security-Policy under which the page's own script and style run, and nothing else is loaded."""
    hashes = {}
    for tag in ("script", "style"):
        parts = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digests = (base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in parts)
        hashes[tag] = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {hashes['script']}; style-src {hashes['style']}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    )


class ConsoleServer(BoundedServer):
    """Serves the page, and has `ask` called for its searches, each on a thread of its own."""

    def __init__(self, port: int, choices: Mapping[str, Any], ask: Ask, origin: str | None = None) -> None:
        """Listen on `port` of 127.0.0.1, 0 for any free one; a proxy may serve the page at `origin`.

        Raises ConfigError if that is not possible.
        """
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            why = f"--port: cannot listen on {HOST}:{port} ({error.strerror})"
            raise ConfigError(f"{why}; name another one, or 0 for any that is free") from None
        self.port: int = self.server_address[1]
        """The port on which it listens."""
        html = page()
        self.policy = policy(html)
        self.replies = {"/": Reply(HTTPStatus.OK, _HTML, html.encode()), "/recipes": Reply.json(choices)}
        self.linked = Reply(HTTPStatus.OK, _HTML, html.replace("<body>", "<body data-linked>", 1).encode())
        """The page as a link of another site opens it: it asks nothing by itself."""
        named = {f"{name}:{self.port}" for name in (HOST, "localhost")}
        # Browsers leave out the port that HTTP has by default.
        self.hosts = named | ({HOST, "localhost"} if self.port == 80 else set())
        self.origin = origin
        if origin is not None:
            self.hosts.add(origin.partition("://")[2])
        self._ask = ask

    def search(self, body: bytes) -> Reply:
        """The answer to a search."""
        try:
            asked = orjson.loads(body)
            # What is nested more deeply than it can be written again could not be sent.
            orjson.dumps(asked)
            events = Search.model_validate(asked).events()
        except orjson.JSONDecodeError as error:
            return Reply.error(HTTPStatus.BAD_REQUEST, f"not JSON: {error.msg}")
        except orjson.JSONEncodeError as error:
            return Reply.error(HTTPStatus.BAD_REQUEST, f"not sent: {error}")
        except ValidationError as error:
            found = error.errors()
            problems = ((".".join(map(str, item["loc"])), explain_problem(item, Search)) for item in found[:MAX_WORDED])
            lines = (": ".join(filter(None, each)) for each in problems)
            return Reply.error(HTTPStatus.BAD_REQUEST, join_first(lines, len(found[MAX_WORDED:])))
        try:
            return Reply.json(self._ask(events)._asdict())
        except (RankstreamError, OSError) as error:
            return Reply.error(_status(error), str(error))


def _status(error: Exception) -> HTTPStatus:
    """The HTTP status that tells who failed."""
    if isinstance(error, Unanswered):
        return HTTPStatus.GATEWAY_TIMEOUT
    cause = error.__cause__
    too_large = isinstance(cause, RecordRefused) and cause.refusal.of_size
    return HTTPStatus.REQUEST_ENTITY_TOO_LARGE if too_large else HTTPStatus.BAD_GATEWAY


class _Handler(BoundedHandler):
    """One request; `server` is the ConsoleServer."""

    server: ConsoleServer
    longest = HEAD + _DISCARDED
    server_version = "rankstream"
    sys_version = ""

    def do_GET(self) -> None:  # noqa: N802  the name is the library's
        """The page, or the names that a search can have."""
        # The fragment of a link, which holds a search, is not sent: only the page can leave it unasked.
        linked = self.server.linked if self._crossing() and self.path == "/" else None
        refused = self._refuse_other_host() or linked or self._foreign_site()
        self._answer(refused or self.server.replies.get(self.path) or _nothing())

    def do_POST(self) -> None:  # noqa: N802  the name is the library's
        """A search."""
        stated = self.headers.get("content-length", "")
        # Python takes no number of thousands of digits.
        length = int(stated[:20]) if stated.isascii() and stated.isdigit() else None
        if length is None:
            self._answer(Reply.error(HTTPStatus.LENGTH_REQUIRED, "Content-Length: the number of bytes is expected"))
        elif length > MAX_BODY:
            reason = f"at most {MAX_BODY} bytes are expected"
            self._answer(Reply.error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason))
            self._discard(length)
        else:
            # Before it is judged: a connection that ends with bytes unread may lose its answer.
            body = self.rfile.read(length)
            self._answer(self._refuse_other_host() or self._foreign() or self._search(body))

    def _search(self, body: bytes) -> Reply:
        return self.server.search(body) if self.path == "/search" else _nothing()

    def _refuse_other_host(self) -> Reply | None:
        """The refusal of another host's name: a site that has its name lead here must not become this one's origin."""
        named = self.headers.get_all("host", [])
        if len(named) == 1 and named[0].lower() in self.server.hosts:
            return None
        wanted = " or ".join(sorted(self.server.hosts))
        return Reply.error(HTTPStatus.MISDIRECTED_REQUEST, f"Host: {wanted} is expected")

    def _foreign(self) -> Reply | None:
        """The refusal of a request that a page of another site may send."""
        if refused := self._foreign_site():
            return refused
        ours = {f"http://{self.headers['host'].lower()}", self.server.origin}
        if not ours.issuperset(self.headers.get_all("origin", [])):
            return Reply.error(HTTPStatus.FORBIDDEN, "Origin: searches of other sites are refused")
        # Browsers ask before they send JSON to another site; nothing here answers that they may.
        if self.headers.get_content_type() != _JSON:
            return Reply.error(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Type: {_JSON} is expected")
        return None

    def _crossing(self) -> bool:
        """True if a page of another site, or of another server on this machine, led here. Old browsers don't say."""
        return not _OWN.issuperset(self.headers.get_all("sec-fetch-site", []))

    def _foreign_site(self) -> Reply | None:
        refused = Reply.error(HTTPStatus.FORBIDDEN, "Sec-Fetch-Site: requests of other sites are refused")
        return refused if self._crossing() else None

    def _discard(self, length: int) -> None:
        left = min(length, _DISCARDED)
        while left > 0 and (read := len(self.rfile.read(min(left, MAX_BODY)))):
            left -= read

    def _answer(self, reply: Reply) -> None:
        self.send_response(reply.status)
        headers = {
            "Content-Type": reply.kind,
            "Content-Length": str(len(reply.body)),
            "Content-Security-Policy": self.server.policy,
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            # A page that opened this one must not lead it to another search afterwards.
            "Cross-Origin-Opener-Policy": "same-origin",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Answer an invalid request under the same headers, too."""
        self._answer(Reply.error(code, message or HTTPStatus(code).phrase))


def _nothing() -> Reply:
    return Reply.error(HTTPStatus.NOT_FOUND, "there is no such page")


_TIMEOUT: Final = 30.0
"""Seconds to wait for an answer, as `rankstream query` does by default."""


def console(
    config: Config = None,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port of the page on 127.0.0.1; 0: any that is free.")
    ] = 8082,
    origin: Annotated[
        str | None,
        typer.Option(help="Address at which a proxy on this machine serves the page: https://console.example.com."),
    ] = None,
) -> None:
    """Serve a page on which to search, and to compare the results of two recipes, until Ctrl-C.

    Only browsers on this machine reach it, or a proxy on it. Each search is a query event for each recipe, through
    Kafka.
    """
    if origin is not None and not _ORIGIN.fullmatch(origin):
        raise ConfigError("--origin: expected a scheme and a host in lower case, such as https://console.example.com")
    settings = load(config)
    logs.configure(settings.telemetry)
    tracer = tracer_provider().get_tracer("rankstream.console")
    with ConsoleServer(port, choices(settings), searcher(settings.kafka, tracer), origin) as server:
        connect(settings.kafka)
        StopSignals(server.shutdown)
        say(out, f"console: http://127.0.0.1:{server.port}")
        server.serve_forever()


def choices(settings: Settings) -> dict[str, Any]:
    """The recipes and profiles that a search may name, and the default search."""
    return {
        "recipes": sorted(settings.recipes),
        "profiles": {name: profile.recipe for name, profile in settings.profiles.items()},
        "defaults": {"namespace": settings.defaults.namespace, "profile": BALANCED},
    }


def searcher(
    settings: KafkaSettings, tracer: Tracer, timeout: float = _TIMEOUT
) -> Callable[[Sequence[Mapping[str, Any]]], Answers]:
    """A function that asks queries side by side, and returns their results in the same order, on any thread."""

    def ask(searches: Sequence[Mapping[str, Any]]) -> Answers:
        events: list[Event] = [{"query_id": f"console-{uuid.uuid4()}", **search} for search in searches]
        # Each search has a query client of its own. So a client is used by one thread, and no search waits for another.
        # A client that was kept would have to read all that others were answered in the meantime, too.
        with (
            tracer.start_as_current_span("search") as span,
            QueryClient.connect(connect(settings), settings.topics, tracer) as query_client,
        ):
            found = {result["query_id"]: result for result in query_client.ask(events, timeout)}
        context = span.get_span_context()
        trace_id = format_trace_id(context.trace_id) if context.is_valid else None
        return Answers([found[event["query_id"]] for event in events], trace_id)

    return ask
