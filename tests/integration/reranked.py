"""Documents of few words, and servers to be reranked by."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from random import Random

from aiohttp import web

from bench import random_bert
from bench.stubs import served
from operators.clients.http.transport import MIB
from tests.integration.deployment import Deployment
from tests.integration.searching import Ask
from tests.operators.clients.http.serving import Handler, json_response
from tests.operators.clients.rerankers.servers import Server

WORDS = random_bert.words(40)
TEXTS: dict[str, dict[str, str]] = {
    namespace: {
        f"{namespace}-{number}": " ".join([WORDS[number + 1], *[WORDS[0]] * (number % 4), *WORDS[number : number + 5]])
        for number in range(first, first + 10)
    }
    for namespace, first in (("red", 1), ("blue", 20))
}
"""Documents by namespace and id; three of four have the first word, once to three times."""

_RANDOM = Random(16)
TEXTS["green"] = {f"green-{number}": " ".join(_RANDOM.choices(WORDS[:12], k=6)) for number in range(40)}

TEXTS["violet"] = {f"violet-{number}": f"{WORDS[0]} {WORDS[number % 40]} violet {number}" for number in range(50)}

QUERY = f"{WORDS[0]} {WORDS[3]}"
CHAT = {"kind": "openai", "model": "stub", "timeout": 20}

Running = Callable[..., AbstractContextManager[tuple[Deployment, Ask]]]


@contextmanager
def hosting(handler: Handler) -> Iterator[str]:
    """Serve every path by `handler` over HTTP. Gives the base URL."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return await handler(request)

    app = web.Application(client_max_size=64 * MIB)
    app.router.add_route("*", "/{path:.*}", handle)
    with served(app) as url:
        yield f"{url}/base"


@contextmanager
def serving(server: Server, down: Callable[[], bool] = lambda: False) -> Iterator[str]:
    """Serve it over HTTP; while it is down it answers 500. Gives the base URL."""

    async def handle(request: web.Request) -> web.StreamResponse:
        if down():
            server.requests.append(await request.json())
            return json_response({}, 500)
        return await server(request)

    with hosting(handle) as url:
        yield url
