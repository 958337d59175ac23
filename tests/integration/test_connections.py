"""Backends in working order that close their connections cost no query a part of its answer."""

import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from weakref import WeakSet

from aiohttp import web
from aiohttp.typedefs import Handler

from bench.kafka.broker import Broker
from bench.stubs import DIMENSION, embed_app, qdrant_app, rerank_app, served
from tests.integration.deployment import Deployment, assert_each_once

QUERIES = 300


class Closings:
    """Closes one in three connections that come back, as their next request arrives."""

    def __init__(self, app: web.Application) -> None:
        self.app = app
        self.closed = 0
        at_random = random.Random(3)
        answered: WeakSet[object] = WeakSet()

        @web.middleware
        async def closing(request: web.Request, handler: Handler) -> web.StreamResponse:
            transport = request.transport
            assert transport is not None
            if transport in answered and at_random.random() < 1 / 3:
                self.closed += 1
                transport.abort()
                return web.Response()
            answered.add(transport)
            return await handler(request)

        app.middlewares.append(closing)


def test_connections_that_close_cost_no_part_of_an_answer(
    broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]
) -> None:
    """Qdrant, the embedder and the reranker close connections all the time: 300 queries, none degraded."""
    backends = [Closings(app(0.0)) for app in (qdrant_app, embed_app, rerank_app)]
    with contextlib.ExitStack() as stack:
        qdrant, embed, rerank = (stack.enter_context(served(each.app)) for each in backends)
        sections = {
            "qdrant": {"url": qdrant, "timeout": 20, "dimension": DIMENSION},
            "embedder": {"kind": "openai", "url": embed, "timeout": 20},
            "rerank": {"kind": "cohere", "url": rerank, "timeout": 20},
            "limits": {"timeout": 60},
        }
        running = stack.enter_context(Deployment.on(broker, tmp_path, topic_names, sections))
        flow = running.start()
        for start in range(0, QUERIES, 10):
            running.ask([{"query_id": f"q{n}", "text": f"blue lantern {n}"} for n in range(start, start + 10)])
            running.output_records(start + 10, settled=False)
        records = running.output_records(QUERIES)
        assert_each_once(running, records)
        assert flow.terminate() == 0
    assert {(record.value["status"], len(record.value["degraded"])) for record in records} == {("ok", 0)}
    assert all(backend.closed > 5 for backend in backends)
