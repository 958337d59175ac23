"""From a cross-encoder's JSON to scores, and from calls to outcomes: what every HTTP dialect shares."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence

from operators.clients.indexed import indexed
from operators.clients.rerankers import RerankRequest, Scores
from schemas.errors import BackendBadResponse, BackendError
from schemas.query import MAX_FLOAT32


def judgements(entries: object, key: str, count: int, *, backend: str) -> dict[int, float]:
    """Read a list of {index, `key`} as index -> relevance; documents may be left out, but not all of them.

    Raises BackendBadResponse, for the whole list, if a score isn't a finite number (a boolean isn't one) or an index
    repeats or isn't one of 0..`count` - 1.
    """
    scores = indexed(entries, key, count, backend=backend)
    if not scores:
        raise BackendBadResponse(f"{backend}: no results")
    return {index: _finite(score, backend) for index, score in scores.items()}


async def outcomes(
    requests: Sequence[RerankRequest], score: Callable[[RerankRequest, float], Awaitable[Scores]], *, timeout: float
) -> list[Scores | BackendError]:
    """Score all requests at once; `score` gets a request and the loop time by which it must end.

    What `score` raises as BackendError is that request's outcome. One candidate or none needs no call: it scores 1.
    """
    deadline = asyncio.get_running_loop().time() + timeout

    async def outcome(request: RerankRequest) -> Scores | BackendError:
        if len(request.documents) < 2:
            return dict.fromkeys(request.documents, 1.0)
        try:
            return await score(request, deadline)
        except BackendError as error:
            return error

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(outcome(request)) for request in requests]
    return [task.result() for task in tasks]


def _finite(score: object, backend: str) -> float:
    if type(score) is int or type(score) is float:
        try:
            number = float(score)
        except OverflowError:
            number = math.inf
        if abs(number) <= MAX_FLOAT32:
            return number
    raise BackendBadResponse(f"{backend}: a score that is not a finite number of 32 bits")
