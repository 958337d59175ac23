"""A browser's requests to the console, and a console to ask."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import Any, Final, NamedTuple

import orjson

from flows.cli.console import Answers, ConsoleServer, choices
from schemas.settings import load

WITHIN: Final = 60.0
JSON: Final = {"Content_Type": "application/json"}
SEARCH: Final[Mapping[str, Any]] = {"text": "harbor", "recipes": ["rrf", "keyword"], "limit": 5}


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


def post(port: int, search: object, **headers: str) -> Got:
    """The console's answer to a search, sent as the page does."""
    return ask(port, "POST", "/search", orjson.dumps(search), **{**JSON, **headers})


@contextmanager
def serving(answer: Callable[[Sequence[Mapping[str, Any]]], Answers], origin: str | None = None) -> Iterator[int]:
    """A console whose searches `answer` answers, with a recipe `mine`, perhaps behind a proxy; its port."""
    settings = load(None, {"qdrant": {"url": "http://localhost:6333"}, "recipes": {"mine": {"stages": ["rrf"]}}})
    with ConsoleServer(0, choices(settings), answer, origin) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.port
        finally:
            server.shutdown()
            thread.join()
