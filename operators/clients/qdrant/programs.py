"""Runs many searches' programs on one collection: their first searches go in one request.

Each program goes on by itself after that. One whose request fails, or which meets a defect, leaves the others.
"""

import asyncio
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final

from operators.clients.failures import attempt
from operators.clients.qdrant.client import QdrantClient
from operators.query.backend_answers import Hits
from operators.query.search import Count, Found, Program, QueryBatch, Request, Scroll, Search, Words
from operators.runtime.dispatcher import defect_of_call
from operators.runtime.turns import Turns
from schemas.errors import BackendError

_FACETS: Final = 16
"""Counts of words under way at once."""

Step = Request | Found | BackendError


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs programs; counts of words take turns by namespace, so that those of one take nothing from the others."""

    client: QdrantClient
    facets: Turns = field(default_factory=lambda: Turns(_FACETS))

    async def run(self, collection: str, searches: Sequence[Search], timeout: float) -> list[Found | BackendError]:
        """The outcome of each search, within `timeout` seconds."""
        deadline = monotonic() + timeout
        programs = [search.start() for search in searches]
        first = [_advance(program, None) for program in programs]
        bodies = [body for step in first if isinstance(step, QueryBatch) for body in step.bodies]
        hits = iter(await self.client.query_batch(collection, bodies, timeout=timeout) if bodies else ())
        steps = [
            _advance(program, _take(hits, step)) if isinstance(step, QueryBatch) else step
            for program, step in zip(programs, first, strict=True)
        ]
        outcomes = [step for step in steps if isinstance(step, Found | BackendError)]
        if len(outcomes) == len(steps):
            # Nearly always so: no tasks for it.
            return outcomes
        run = zip(searches, programs, steps, strict=True)
        ended = await asyncio.gather(
            *(self._finish(collection, search.alone, program, step, deadline) for search, program, step in run),
            return_exceptions=True,
        )
        return [each if isinstance(each, Found | BackendError) else defect_of_call(each) for each in ended]

    async def _finish(
        self, collection: str, tenant: Hashable, program: Program, step: Step, deadline: float
    ) -> Found | BackendError:
        while not isinstance(step, Found | BackendError):
            step = _advance(program, await attempt(self._ask(collection, tenant, step, deadline)))
        return step

    async def _ask(self, collection: str, tenant: Hashable, request: Request, deadline: float) -> Any:
        client = self.client

        async def count_words(key: str, where: Any, limit: int) -> Any:
            async with self.facets.turn(tenant):
                return await client.facet(collection, key, where, limit=limit, timeout=deadline - monotonic())

        left = max(0.0, deadline - monotonic())
        match request:
            case QueryBatch(bodies):
                return _take(iter(await client.query_batch(collection, bodies, timeout=left)), request)
            case Count(where):
                return await client.count(collection, where, timeout=left)
            case Words(fields, limit):
                return await asyncio.gather(*(count_words(key, where, limit) for key, where in fields))
            case Scroll(where, limit, fields, order_by, offset):
                return await client.scroll(
                    collection, where, limit=limit, fields=fields, order_by=order_by, offset=offset, timeout=left
                )


def _take(hits: Iterator[Hits | BackendError], request: QueryBatch) -> Sequence[Hits | BackendError] | BackendError:
    """The answers to a request, or the first error among them."""
    taken = [next(hits) for _ in request.bodies]
    return next((each for each in taken if isinstance(each, BackendError)), taken)


def _advance(program: Program, answer: Any) -> Step:
    """Give a program the answer to its request, None at its start: its next request, or its outcome."""
    try:
        return program.throw(answer) if isinstance(answer, BackendError) else program.send(answer)
    except StopIteration as end:
        found: Found = end.value
        return found
    except BackendError as error:
        return error
