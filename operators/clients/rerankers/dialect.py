"""A cross-encoder behind HTTP: one call, whatever the dialect.

A dialect is a class that says where its calls go (`path`), what they carry (`body`), how many texts they may carry
(`limit`), and how relevance is read from the answer (`relevances`). There are two sorts: a call of a `QueryReranker`
is one query and its texts; a call of a `PairReranker` is pairs of a query and a text, of as many queries as there are.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from operators.clients.http.backend import Backend
from operators.clients.http.bisection import bisected
from operators.clients.rerankers import Capacity, RerankRequest
from operators.query.backend_answers import Scores
from schemas.errors import BackendError


class HttpReranker(ABC):
    """A Reranker that posts all texts of a call to one backend and reads a relevance for each from its answer."""

    reads: Final = "text"

    path: ClassVar[str]
    limit: ClassVar[int]
    """How many texts one call may carry where the configuration doesn't say."""

    def __init__(self, backend: Backend, model: str, capacity: Capacity) -> None:
        self.model = model
        self.capacity = capacity
        self._backend = backend

    @property
    def name(self) -> str:
        """The backend's name, for messages."""
        return self._backend.name

    async def aclose(self) -> None:
        """Close the backend's connections."""
        await self._backend.aclose()

    @abstractmethod
    def relevances(self, answer: object, count: int) -> dict[int, float]:
        """Read the parsed answer to a call of `count` texts as position -> relevance.

        A position left out was judged irrelevant. Raises BackendBadResponse.
        """

    @abstractmethod
    def _call(self, requests: Sequence[RerankRequest]) -> dict[str, Any]: ...

    async def _ask(self, requests: Sequence[RerankRequest], timeout: float) -> list[Scores]:
        """One call: all scores or none. Raises BackendError."""
        count = sum(len(request.documents) for request in requests)

        def read(answer: Any) -> list[Scores]:
            return _by_request(requests, self.relevances(answer, count))

        return await self._backend.ask(self.path, self._call(requests), read, timeout=timeout, repeatable=True)


class QueryReranker(HttpReranker):
    """One that reads one query a call, with at most `documents` texts and `chars` code points in all.

    `documents` is the dialect's `limit` unless given; 0 `chars` is no bound.
    """

    def __init__(self, backend: Backend, model: str, *, documents: int | None = None, chars: int = 0) -> None:
        super().__init__(backend, model, Capacity(documents=documents or self.limit, chars=chars))

    async def score(self, requests: Sequence[RerankRequest], *, timeout: float) -> list[Scores]:
        """Score the one request's documents in one call within `timeout` seconds; raises BackendError."""
        return await self._ask(requests, timeout)

    @abstractmethod
    def body(self, query: str, texts: list[str]) -> dict[str, Any]:
        """The call that asks for the relevance of each text to `query`."""

    def _call(self, requests: Sequence[RerankRequest]) -> dict[str, Any]:
        (request,) = requests
        return self.body(request.query, list(request.documents.values()))


class PairReranker(HttpReranker):
    """One that reads pairs of many queries a call, at most `documents` of them and `chars` code points in all.

    `documents` is the dialect's `limit` unless given; 0 `chars` is no bound. A call never mixes two namespaces'
    documents unless the backend is `trusted`. If a call is refused, say for a pair longer than the model's context,
    its queries are asked apart.
    """

    def __init__(
        self,
        backend: Backend,
        model: str,
        *,
        documents: int | None = None,
        chars: int = 0,
        trusted: bool = False,
    ) -> None:
        most = documents or self.limit
        never_mixed: Final = None if trusted else "namespace"
        # Queries have no bound of their own: each has a document at least.
        super().__init__(backend, model, Capacity(queries=most, documents=most, chars=chars, apart=never_mixed))

    async def score(self, requests: Sequence[RerankRequest], *, timeout: float) -> list[Scores | BackendError]:
        """Score each request's documents within `timeout` seconds, one outcome a request, in their order.

        `requests` are within `capacity`, and each has a document. Raises BackendError when the whole call failed.
        """
        deadline = time.monotonic() + timeout
        return await bisected(requests, lambda some: self._ask(some, deadline - time.monotonic()))

    @abstractmethod
    def body(self, queries: list[str], texts: list[str]) -> dict[str, Any]:
        """The call that asks for the relevance of each text to the query in the same place."""

    def _call(self, requests: Sequence[RerankRequest]) -> dict[str, Any]:
        queries = [request.query for request in requests for _ in request.documents]
        texts = [text for request in requests for text in request.documents.values()]
        return self.body(queries, texts)


def _by_request(requests: Sequence[RerankRequest], found: Mapping[int, float]) -> list[Scores]:
    outcomes: list[Scores] = []
    start = 0
    for request in requests:
        positions = enumerate(request.documents, start)
        outcomes.append({point: found[position] for position, point in positions if position in found})
        start += len(request.documents)
    return outcomes
