"""Exchanges with a stand-in, written down in the order in which they ended: tests.qdrant_server.replay reads them.

Each engine has a file of its own, a line an exchange. What the stand-in did because a test told it to carries the
reason: no server would answer so.
"""

import itertools
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self
from weakref import WeakKeyDictionary

import httpx
import orjson

from operators.clients.qdrant_edge.shards import Engine
from tests.qdrant_server.access import Access, Unauthorized
from tests.qdrant_server.behaviour import Behaviour

VARIABLE: Final = "QDRANT_EXCHANGES"
"""The environment's variable with the directory of the files."""

BEFORE: Final = "the directory held collections before"

Reader = Access | str | None
"""Rights that a request had; None without a key, `wrong` with one that isn't known."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer; `began` and `ended` count the beginnings and ends of the engine's requests.

    Without a `status` the caller gave up, and nobody knows how far the request came.
    """

    began: int
    ended: int
    method: str
    path: str
    body: str
    access: Reader
    status: int | None
    answer: Any
    reason: str | None = None

    @classmethod
    def of(cls, line: bytes) -> Self:
        """Read a line of a file."""
        return cls(**orjson.loads(line))


class Exchanges:
    """One engine's file; any thread may write to it."""

    def __init__(self, file: Path, reason: str | None) -> None:
        self._file = file
        self._reason = reason
        self._lock = threading.Lock()
        self._numbers = itertools.count()

    def begin(self) -> int:
        """Count a beginning."""
        return next(self._numbers)

    def end(
        self, began: int, request: httpx.Request, content: bytes, behaviour: Behaviour, answer: httpx.Response | None
    ) -> None:
        """Write an exchange down, without an answer if the caller gave up."""
        with self._lock:
            status = None if answer is None else answer.status_code
            reason = "the test has searches time out" if behaviour.timing_out and status == 500 else self._reason
            line = Exchange(
                began,
                next(self._numbers),
                request.method,
                request.url.raw_path.decode(),
                content.decode("utf-8", "replace"),
                _access(behaviour, request.headers),
                status,
                None if answer is None else _read(answer),
                reason,
            )
            with self._file.open("ab") as stream:
                stream.write(orjson.dumps(asdict(line), option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS))


_open: WeakKeyDictionary[Engine, Exchanges] = WeakKeyDictionary()
_files = itertools.count()
_lock = threading.Lock()


def exchanges_of(engine: Engine) -> Exchanges | None:
    """The engine's file, None where exchanges aren't kept."""
    directory = os.environ.get(VARIABLE)
    if directory is None:
        return None
    with _lock:
        if engine not in _open:
            Path(directory).mkdir(parents=True, exist_ok=True)
            test = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0]
            name = f"{Path(test).stem or 'server'}-{os.getpid()}-{next(_files)}.jsonl"
            _open[engine] = Exchanges(Path(directory) / name, BEFORE if engine.names() else None)
        return _open[engine]


def _access(behaviour: Behaviour, headers: Mapping[str, str]) -> Reader:
    try:
        return behaviour.keys.access(httpx.Headers(headers))
    except Unauthorized as refusal:
        return None if str(refusal).startswith("Must") else "wrong"


def _read(answer: httpx.Response) -> Any:
    if answer.headers.get("content-type") == "application/json":
        return orjson.loads(answer.content)
    return answer.text
