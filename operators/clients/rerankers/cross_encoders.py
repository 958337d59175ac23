"""Cross-encoders behind HTTP: one call, over any server's API.

A class for each API says where its calls go (`path`), what they carry (`body`), how many texts they may carry
(`limit`), and how relevance is read from the answer (`relevances`). There are two sorts: a call of a `QueryReranker`
is one query and its texts; a call of a `PairReranker` is pairs of a query and a text, of any number of queries.

- text-embeddings-inference has `POST {base}/rerank`, and `POST {base}/predict` for pairs. It truncates a text that is
  longer than its model's context. Its `max-client-batch-size`, 32 unless it is configured, bounds the texts of a call.
- vLLM has `POST {base}/score` for pairs, and refuses a pair that is longer than its model's context.
- Cohere's API, and Voyage's, have `POST {base}/rerank`. A document that an answer leaves out is judged irrelevant. An
  omission of all of a query's documents is for the rerank stage to judge, which knows all slices of a query.

The first two score every text: a missing score is a bad response. An answer is read whole or not at all: one wrong
entry and nothing of it is used.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from operators.clients.failures import bisect
from operators.clients.http.backend import Backend
from operators.clients.http.dialect import by_index, fit_float32
from operators.clients.rerankers import Capacity, RerankRequest
from operators.query.backend_answers import Scores
from schemas.errors import BackendBadResponse, BackendError
from schemas.fields import MAX_FLOAT32


class HttpReranker(ABC):
    """A Reranker that posts all texts of a call to one backend and reads a relevance for each from its answer."""

    reads: Final = "text"

    path: ClassVar[str]
    limit: ClassVar[int]
    """The most texts of one call where the configuration doesn't say."""

    def __init__(self, backend: Backend, model: str, capacity: Capacity) -> None:
        self.model = model
        self.capacity = capacity
        self._backend = backend

    @property
    def name(self) -> str:
        """The backend's name, for messages."""
        return self._backend.name

    async def aclose(self) -> None:
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

    `documents` is the API's `limit` unless given; 0 `chars` is no bound.
    """

    def __init__(self, backend: Backend, model: str, *, documents: int | None = None, chars: int = 0) -> None:
        super().__init__(backend, model, Capacity(documents=documents or self.limit, chars=chars))

    async def score(self, requests: Sequence[RerankRequest], *, timeout: float) -> list[Scores]:
        return await self._ask(requests, timeout)

    @abstractmethod
    def body(self, query: str, texts: list[str]) -> dict[str, Any]:
        """The call that asks for the relevance of each text to `query`."""

    def _call(self, requests: Sequence[RerankRequest]) -> dict[str, Any]:
        (request,) = requests
        return self.body(request.query, list(request.documents.values()))


class PairReranker(HttpReranker):
    """One that reads pairs of many queries a call, at most `documents` of them and `chars` code points in all.

    `documents` is the API's `limit` unless given; 0 `chars` is no bound. A call never mixes two namespaces' documents
    unless the backend is `trusted`. If a call is refused, say for a pair longer than the model's context, its queries
    are asked apart.
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
        deadline = time.monotonic() + timeout
        return await bisect(requests, lambda some: self._ask(some, deadline - time.monotonic()))

    @abstractmethod
    def body(self, queries: list[str], texts: list[str]) -> dict[str, Any]:
        """The call that asks for the relevance of each text to the query at the same position."""

    def _call(self, requests: Sequence[RerankRequest]) -> dict[str, Any]:
        queries = [request.query for request in requests for _ in request.documents]
        texts = [text for request in requests for text in request.documents.values()]
        return self.body(queries, texts)


class TeiReranker(QueryReranker):
    """A Reranker over TEI's own `/rerank`: [{index, score}] in any order."""

    path = "/rerank"
    limit = 32

    def body(self, query: str, texts: list[str]) -> dict[str, Any]:
        return {"query": query, "texts": texts, "truncate": True}

    def relevances(self, answer: object, count: int) -> dict[int, float]:
        return read_all_scores(answer, "score", count, backend=self.name)


class CohereReranker(QueryReranker):
    """A Reranker over the API that Cohere (v2), Jina, infinity, vLLM and llama-server share.

    Its answers are {results: [{index, relevance_score}]}. Their other fields (documents, usage, model, ids) differ from
    server to server and are not read.
    """

    path = "/rerank"
    limit = 1000

    def body(self, query: str, texts: list[str]) -> dict[str, Any]:
        # A request for all of them makes each omission in the answer the model's decision.
        return {"model": self.model, "query": query, "documents": texts, "top_n": len(texts)}

    def relevances(self, answer: object, count: int) -> dict[int, float]:
        return read_scores(member(answer, "results"), "relevance_score", count, backend=self.name)


class VoyageReranker(QueryReranker):
    """A Reranker over Voyage's API: {data: [{index, relevance_score}]}."""

    path = "/rerank"
    limit = 1000

    def body(self, query: str, texts: list[str]) -> dict[str, Any]:
        return {"model": self.model, "query": query, "documents": texts, "top_k": len(texts)}

    def relevances(self, answer: object, count: int) -> dict[int, float]:
        return read_scores(member(answer, "data"), "relevance_score", count, backend=self.name)


class TeiPairReranker(PairReranker):
    """A Reranker over TEI's `/predict`, for models of one label: that label's score is the relevance.

    It is the score that `/rerank` gives the same pair, for both leave the activation to the server. Its answers are
    [[{label, score}]] in the pairs' order.
    """

    path = "/predict"
    limit = 32

    def body(self, queries: list[str], texts: list[str]) -> dict[str, Any]:
        # Nested for a single pair too: a flat one would be answered without the outer list.
        return {"inputs": [list(pair) for pair in zip(queries, texts, strict=True)], "truncate": True}

    def relevances(self, answer: object, count: int) -> dict[int, float]:
        if not isinstance(answer, list):
            raise BackendBadResponse(f"{self.name}: the predictions are not a list")
        if len(answer) != count:
            raise BackendBadResponse(f"{self.name}: {len(answer)} predictions for {count} pairs")
        return {position: self._only_score(labels) for position, labels in enumerate(answer)}

    def _only_score(self, labels: object) -> float:
        if not isinstance(labels, list) or not all(isinstance(label, dict) for label in labels):
            raise BackendBadResponse(f"{self.name}: a prediction that is not a list of labels")
        if len(labels) != 1:
            raise BackendBadResponse(f"{self.name}: {len(labels)} labels for a pair: not a cross-encoder of one label")
        return _relevance(labels[0].get("score"), backend=self.name)


class VllmPairReranker(PairReranker):
    """A Reranker over vLLM's `/score`: {data: [{index, score}]}."""

    path = "/score"
    limit = 1000

    def body(self, queries: list[str], texts: list[str]) -> dict[str, Any]:
        return {"model": self.model, "text_1": queries, "text_2": texts}

    def relevances(self, answer: object, count: int) -> dict[int, float]:
        return read_all_scores(member(answer, "data"), "score", count, backend=self.name)


def member(answer: object, name: str) -> Any:
    """The member `name` of an answer that is an object; None without one, or if the answer is no object."""
    return answer.get(name) if isinstance(answer, dict) else None


def read_scores(entries: object, key: str, count: int, *, backend: str) -> dict[int, float]:
    """Read a list of {index, `key`} as index -> relevance; documents may be left out.

    Raises BackendBadResponse, for the whole list, if a score isn't a finite number of 32 bits (a boolean isn't one) or
    an index repeats or isn't one of 0..`count` - 1.
    """
    scores = by_index(entries, key, count, backend=backend)
    values = scores.values()
    if set(map(type, values)) <= {float} and fit_float32(values):
        return scores
    return {index: _relevance(score, backend=backend) for index, score in scores.items()}


def read_all_scores(entries: object, key: str, count: int, *, backend: str) -> dict[int, float]:
    """Like `read_scores`, of a server that scores every text: BackendBadResponse if one is left out."""
    found = read_scores(entries, key, count, backend=backend)
    if len(found) != count:
        raise BackendBadResponse(f"{backend}: {len(found)} scores for {count} texts")
    return found


def _relevance(score: object, *, backend: str) -> float:
    if type(score) is int or type(score) is float:
        try:
            number = float(score)
        except OverflowError:
            number = math.inf
        if abs(number) <= MAX_FLOAT32:
            return number
    raise BackendBadResponse(f"{backend}: a score that is not a finite number of 32 bits")


def _by_request(requests: Sequence[RerankRequest], found: Mapping[int, float]) -> list[Scores]:
    outcomes: list[Scores] = []
    start = 0
    for request in requests:
        positions = enumerate(request.documents, start)
        outcomes.append({point: found[position] for position, point in positions if position in found})
        start += len(request.documents)
    return outcomes
