"""A browser's requests to the console, and a console to ask."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from flows.assembly.clients import InProcess
from flows.cli.console.judgements import JudgementFile
from flows.cli.console.overview import Overview
from flows.cli.console.server import TOKEN, Console, ConsoleServer
from flows.cli.console.workbench import Configuration, Searcher, TracedResults, Workbench
from flows.cli.query import refusal
from schemas.settings import Settings, load

WITHIN: Final = 60.0
JSON: Final = {"Content_Type": "application/json"}
SEARCH: Final[Mapping[str, Any]] = {"text": "harbor", "columns": [{"recipe": "rrf"}, {"recipe": "keyword"}], "limit": 5}

Asked = list[Sequence[Mapping[str, Any]]]
"""The searches of each request, as a console was to ask them."""


class Got(NamedTuple):
    """One response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, read."""
        return json.loads(self.body)


def ask(port: int, method: str, path: str, body: bytes | None = None, **headers: str) -> Got:
    """The console's answer; headers are written with `_` for `-`."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=WITHIN)) as connection:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return Got(response.status, dict(response.getheaders()), response.read())


class Served(NamedTuple):
    """A console that is served, and its workbench."""

    server: ConsoleServer
    console: Console
    bench: Workbench

    @property
    def port(self) -> int:
        """Its port."""
        return self.server.port

    def post(self, name: str, body: object, **headers: str) -> Got:
        """The answer to a request of the API, sent as the page does."""
        token = {TOKEN: self.console.token} if self.console.token is not None else {}
        return ask(self.port, "POST", f"/api/{name}", orjson.dumps(body), **{**JSON, **token, **headers})

    def get(self, name: str, **headers: str) -> Got:
        """The same without a body."""
        return ask(self.port, "GET", f"/api/{name}", None, **{TOKEN: self.console.token or "", **headers})


def nothing(searches: Sequence[Mapping[str, Any]]) -> TracedResults:
    """A refusal for each query."""
    return TracedResults([refusal("q", "invalid", "not today") for _ in searches], None)


def workbench(directory: Path, answer: Searcher, settings: Settings | None = None) -> Workbench:
    """A workbench whose searches `answer` answers, with a recipe `mine`; nothing listens at its Qdrant."""
    its = settings or load(
        None,
        {
            "qdrant": {"url": "http://127.0.0.1:9"},
            "embedder": {"kind": "none"},
            "recipes": {"mine": {"stages": ["rrf"]}},
        },
    )
    overview = Overview(its, InProcess(its), own_broker=True)
    return Workbench({"main": Configuration.of("main", its, answer)}, JudgementFile(directory / "j.qrels"), overview)


@contextmanager
def serving(bench: Workbench, origin: str | None = None) -> Iterator[Served]:
    """A console, perhaps behind a proxy."""
    console = Console(bench, origin)
    server = ConsoleServer(console, 0)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield Served(server, console, bench)
    finally:
        server.stop()
        thread.join()
