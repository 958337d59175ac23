"""A query that ends is freed with all that it held: nothing waits for the garbage collector."""

import asyncio
import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import ref

from aiohttp import web

from operators.clients.failures import bisect
from operators.clients.http.connection import HttpAnswer
from operators.query.in_flight import InFlight
from operators.stages.fuse import Fusion
from schemas.errors import BackendBadResponse, BackendError, Blame
from tests.operators.clients.http.serving import answering, backend, json_response
from tests.operators.stages.test_fuse import joined, leg, searched


@contextmanager
def no_more_of(kind: type) -> Iterator[None]:
    """Fail if there are more objects of this kind behind the block than before, without the collector."""
    gc.collect()
    gc.disable()
    try:
        before = _count(kind)
        yield
        assert _count(kind) == before
    finally:
        gc.enable()


def _count(kind: type) -> int:
    return sum(type(each) is kind for each in gc.get_objects())


def test_a_query_is_freed_when_it_ends() -> None:
    """Its searches, which read it when they begin, do not keep it."""
    with no_more_of(InFlight):
        each = searched(0, text="parse a date")
        logic = Fusion()
        for name in list(each.retrieval.searches or ()):
            [*out] = joined(logic, leg(name).on_result(each, BackendBadResponse("lost")))
        assert out == [each]
        del each, out, logic


def test_an_answer_is_freed_when_its_call_ends() -> None:
    """Its parser, which calls it, does not keep it."""

    async def answer(_: web.Request) -> web.Response:
        return json_response({"a": 1})

    async def call() -> None:
        async with answering(answer) as url, backend(url) as endpoint:
            assert await endpoint.call("POST", "/", {}, timeout=30) == {"a": 1}

    asyncio.run(call())
    with no_more_of(HttpAnswer):
        asyncio.run(call())


def test_the_parts_of_a_call_are_freed_when_it_ends() -> None:
    """It may have been divided, or not."""

    class Item:
        """Something to ask for."""

    async def ask(part: Sequence[Item]) -> list[int]:
        if len(part) > 2:
            raise BackendBadResponse("refused", suspect=Blame.REQUEST)
        return [1] * len(part)

    async def whole(count: int) -> tuple[list[int | BackendError], list[ref[Any]]]:
        items = [Item() for _ in range(count)]
        return await bisect(items, ask), [*map(ref, items)]

    for count in (2, 8):
        answers, items = asyncio.run(whole(count))
        assert answers == [1] * count
        assert [each() for each in items] == [None] * count
