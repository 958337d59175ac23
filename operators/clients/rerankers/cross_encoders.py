"""Cross-encoders behind HTTP: one call, over any server's API.

A call of most APIs is one query and its texts; one of an API of `pairs` is pairs of a query and a text, of any number
of queries.

- Most servers have the API of Cohere, version 2. A document that an answer leaves out is for the rerank stage to judge,
  which knows all slices of a query, and whether the server is known to omit (`rerank.omitted`). Asked for all, they
  score each.
- An answer's other fields (documents, usage, model, ids) differ from server to server and are not read.
- An answer is read whole or not at all: one wrong entry and nothing of it is used.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Final

from operators.clients.failures import Chance, bisect
from operators.clients.http.backend import Backend
from operators.clients.http.dialect import by_index, fit_float32
from operators.clients.http.transport import CONTROL, Call
from operators.clients.rerankers import Capacity, Reads, RerankRequest
from operators.query.backend_answers import Scores, SomeScores
from operators.runtime.batching.policy import by_key
from schemas.errors import BackendBadResponse, BackendError, Blame
from schemas.fields import MAX_FLOAT32

Body = Callable[[str, list[str], list[str]], dict[str, Any]]
"""The call for a model's relevance of each text to the query at the same position; one API's all have one query."""


@dataclass(frozen=True, slots=True)
class RerankApi:
    """The API of a server: calls are `body`, posted to `path`.

    An answer has a list of {index, `key`}, which `members` lead to; none of them: the answer is the list. `pairs`: a
    call may carry several queries. `labels`: an entry is a list of one label in place of an index, in the order of the
    texts. `instruction` leads to the member of a call that holds an instruction.
    """

    path: str
    body: Body
    members: tuple[str, ...]
    key: str
    pairs: bool = False
    labels: bool = False
    instruction: tuple[str, ...] = ()


def _list_all(documents: str, most: str, **more: Any) -> Body:
    """The call that has the texts and their number under these names, and other members.

    A request for all of the texts makes each omission in the answer the model's decision.
    """

    def body(model: str, queries: list[str], texts: list[str]) -> dict[str, Any]:
        return {"model": model, "query": queries[0], documents: texts, most: len(texts), **more}

    return body


COHERE: Final = RerankApi("/rerank", _list_all("documents", "top_n"), ("results",), "relevance_score")

# Some servers give the documents back unless they are told not to.
_WITHOUT_DOCUMENTS: Final = _list_all("documents", "top_n", return_documents=False)

APIS: Final[Mapping[str, RerankApi]] = {
    **dict.fromkeys(("cohere", "infinity", "vllm", "llama_server", "xinference", "localai"), COHERE),
    "jina": replace(COHERE, body=_WITHOUT_DOCUMENTS),
    "voyage": RerankApi("/rerank", _list_all("documents", "top_k"), ("data",), "relevance_score"),
    "mixedbread": RerankApi("/reranking", _list_all("input", "top_k", return_input=False), ("data",), "score"),
    "dashscope": RerankApi(
        "/services/rerank/text-rerank/text-rerank",
        lambda model, queries, texts: {
            "model": model,
            "input": {"query": queries[0], "documents": texts},
            "parameters": {"top_n": len(texts), "return_documents": False},
        },
        ("output", "results"),
        "relevance_score",
        instruction=("parameters", "instruct"),
    ),
    "nim": RerankApi(
        "/ranking",
        lambda model, queries, texts: {
            "model": model,
            "query": {"text": queries[0]},
            "passages": [{"text": text} for text in texts],
            "truncate": "END",
        },
        ("rankings",),
        "logit",
    ),
    "sglang": RerankApi("/rerank", _WITHOUT_DOCUMENTS, (), "score", instruction=("instruct",)),
    "tei": RerankApi(
        "/rerank", lambda _, queries, texts: {"query": queries[0], "texts": texts, "truncate": True}, (), "score"
    ),
    "vllm_score": RerankApi(
        "/score",
        lambda model, queries, texts: {"model": model, "text_1": queries, "text_2": texts},
        ("data",),
        "score",
        pairs=True,
    ),
    # For models of one label: its score is that of /rerank, for both leave the activation to the server.
    "tei_predict": RerankApi(
        "/predict",
        # Nested for a single pair too: a flat one would be answered without the outer list.
        lambda _, queries, texts: {
            "inputs": [list(pair) for pair in zip(queries, texts, strict=True)],
            "truncate": True,
        },
        (),
        "score",
        pairs=True,
        labels=True,
    ),
}
"""By `rerank.kind`."""


def _fill(template: str, name: str, text: str) -> str:
    """The template with the text at a name. No text can end it: the mark of chat models' special tokens is parted."""
    return template.replace(name, text.replace("<|", "< |"))


@dataclass(frozen=True, eq=False)
class HttpReranker:
    """A Reranker that posts all texts of a call to one backend and reads a relevance for each from its answer.

    A call has at most `documents` texts and `chars` code points; 0 `chars` is no bound. One of pairs never mixes two
    namespaces' documents unless the backend is `trusted`. If a call is refused, say for a pair longer than the model's
    context, its documents are asked apart; one that is refused alone has no score. `templates` surround the queries,
    in place of {query}, and the documents, in place of {document}.
    """

    backend: Backend
    model: str
    api: RerankApi
    documents: int = 1000
    chars: int = 0
    trusted: bool = False
    templates: tuple[str, str] | None = None
    instruction: str | None = None
    _chance: Chance = field(default_factory=Chance, init=False)

    reads: ClassVar[Reads] = "text"

    @cached_property
    def capacity(self) -> Capacity:
        # Queries have no bound of their own: each has a document at least.
        queries = self.documents if self.api.pairs else 1
        apart: Final = "namespace" if self.api.pairs and not self.trusted else None
        return Capacity(queries, self.documents, self.chars, apart=apart)

    @cached_property
    def _control(self) -> Call[list[Scores]]:
        return self._call([RerankRequest(CONTROL, {"": CONTROL}, "", "")])

    async def score(self, requests: Sequence[RerankRequest], *, timeout: float) -> Sequence[Scores | BackendError]:
        deadline = time.monotonic() + timeout
        documents = [(request, id_) for request in requests for id_ in request.documents]
        whole: list[Scores] = []

        async def ask(some: Sequence[tuple[RerankRequest, str]]) -> list[float | None]:
            if len(some) == len(documents):
                # Nearly always this is all: the scores need not be taken apart.
                scores = await self.backend.ask(self._call(requests, self._control), timeout=timeout)
                whole.extend(scores)
                return [None] * len(documents)
            asked = by_key(some, lambda each: id(each[0])).values()
            parts = [replace(of[0][0], documents={id_: each.documents[id_] for each, id_ in of}) for of in asked]
            left = deadline - time.monotonic()
            found = await self.backend.ask(self._call(parts, self._control), timeout=left)
            return [scores.get(id_) for part, scores in zip(parts, found, strict=True) for id_ in part.documents]

        try:
            answers = iter(await bisect(documents, ask, chance=self._chance))
        except BackendError as error:
            if len(documents) > 1 or error.blame is not Blame.REQUEST:
                raise
            answers = iter([error])
        if whole:
            return whole
        return [_outcome({id_: next(answers) for id_ in request.documents}) for request in requests]

    async def aclose(self) -> None:
        await self.backend.aclose()

    def _call(self, requests: Sequence[RerankRequest], control: Call[list[Scores]] | None = None) -> Call[list[Scores]]:
        queries = [request.query for request in requests for _ in request.documents]
        texts = [text for request in requests for text in request.documents.values()]
        if self.templates is not None:
            of_query, of_document = self.templates
            queries = [_fill(of_query, "{query}", text) for text in queries]
            texts = [_fill(of_document, "{document}", text) for text in texts]
        body = self.api.body(self.model, queries, texts)
        if self.instruction is not None and self.api.instruction:
            *members, last = self.api.instruction
            place = body
            for name in members:
                place = place[name]
            place[last] = self.instruction

        def read(answer: Any) -> list[Scores]:
            return _by_request(requests, read_scores(self.api, answer, len(texts), backend=self.backend.name))

        return Call(self.api.path, body, read, repeatable=True, control=control)


def read_scores(api: RerankApi, answer: object, count: int, *, backend: str) -> dict[int, float]:
    """Read the parsed answer to a call of `count` texts as position -> relevance.

    Raises BackendBadResponse, for the whole answer, if a score isn't a finite number of 32 bits (a boolean isn't one),
    an index repeats or isn't one of 0..`count` - 1, or if an API of `pairs` left one out.
    """
    for name in api.members:
        answer = answer.get(name) if isinstance(answer, dict) else None
    scores = _by_label(answer, api.key, backend) if api.labels else by_index(answer, api.key, count, backend=backend)
    if len(scores) != count and api.pairs:
        raise BackendBadResponse(f"{backend}: {len(scores)} scores for {count} texts")
    values = scores.values()
    if set(map(type, values)) <= {float} and fit_float32(values):
        return scores
    return {index: _relevance(score, backend=backend) for index, score in scores.items()}


def _by_label(entries: object, key: str, backend: str) -> dict[int, Any]:
    if not isinstance(entries, list):
        raise BackendBadResponse(f"{backend}: the predictions are not a list")
    for labels in entries:
        if not isinstance(labels, list) or not all(isinstance(label, dict) for label in labels):
            raise BackendBadResponse(f"{backend}: a prediction that is not a list of labels")
        if len(labels) != 1:
            raise BackendBadResponse(f"{backend}: {len(labels)} labels for a pair: not a cross-encoder of one label")
    return {position: label.get(key) for position, (label,) in enumerate(entries)}


def _relevance(score: object, *, backend: str) -> float:
    if type(score) is int or type(score) is float:
        try:
            number = float(score)
        except OverflowError:
            number = math.inf
        if abs(number) <= MAX_FLOAT32:
            return number
    raise BackendBadResponse(f"{backend}: a score that is not a finite number of 32 bits")


def _outcome(answers: Mapping[str, float | BackendError | None]) -> Scores | BackendError:
    """The scores of a query's documents, each asked apart; those that failed have none.

    Without any score it is the error of one that was not refused, if there is one.
    """
    errors = {id_: answer for id_, answer in answers.items() if isinstance(answer, BackendError)}
    scores = {id_: answer for id_, answer in answers.items() if isinstance(answer, float | int)}
    failed = next((error for error in errors.values() if error.blame is not Blame.REQUEST), None)
    if failed is not None and not scores:
        return failed
    return SomeScores(scores, frozenset(errors)) if errors else scores


def _by_request(requests: Sequence[RerankRequest], found: Mapping[int, float]) -> list[Scores]:
    outcomes: list[Scores] = []
    start = 0
    for request in requests:
        positions = enumerate(request.documents, start)
        outcomes.append({point: found[position] for position, point in positions if position in found})
        start += len(request.documents)
    return outcomes
