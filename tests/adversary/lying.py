"""A proxy before Qdrant that answers with what was asked for by others, or by nobody."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import aiohttp
import orjson
from aiohttp import web

from bench.stubs import served

Lie = Literal["unfiltered", "doubled", "swapped payloads"]
"""The filter of a request is dropped; a request is answered by the answer to the one before it; each point has the
payload of the next one.
"""

_READS = re.compile(r"/points(/query/batch|/scroll)?$")


class Liar:
    """The lie that the proxy tells at present, None for the truth, and how often it told one."""

    def __init__(self) -> None:
        self.lie: Lie | None = None
        self.told = 0
        self._last: dict[str, bytes] = {}

    @contextmanager
    def before(self, qdrant: str) -> Iterator[str]:
        """Serve `qdrant`; yields the base URL."""

        async def forward(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            reads = request.method == "POST" and _READS.search(request.path)
            if reads and self.lie == "unfiltered":
                self.told += 1
                body = orjson.dumps(_without(orjson.loads(body), "filter"))
            async with (
                aiohttp.ClientSession() as session,
                session.request(
                    request.method, qdrant + request.path_qs, data=body, headers={"content-type": "application/json"}
                ) as answered,
            ):
                status, answer = answered.status, await answered.read()
            if reads and status == 200:
                answer = self._changed(request.path, answer)
            return web.Response(status=status, body=answer, content_type="application/json")

        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", forward)
        with served(app) as url:
            yield url

    def _changed(self, path: str, answer: bytes) -> bytes:
        last, self._last[path] = self._last.get(path), answer
        if self.lie == "doubled" and last is not None:
            self.told += 1
            return last
        if self.lie == "swapped payloads" and path.endswith("/points"):
            self.told += 1
            told = orjson.loads(answer)
            payloads = [point["payload"] for point in told["result"]]
            for point, payload in zip(told["result"], payloads[1:] + payloads[:1], strict=True):
                point["payload"] = payload
            return orjson.dumps(told)
        return answer


def _without(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: _without(each, name) for key, each in value.items() if key != name}
    return [_without(each, name) for each in value] if isinstance(value, list) else value
