"""Servers of embedders and rerankers that play manners: the calls that they fail, and the form in which they do."""

import asyncio
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from aiohttp import web

from operators.clients.embedders.bi_encoders import APIS as EMBEDDERS
from operators.clients.embedders.bi_encoders import SPARSE_APIS, BiEncoder, dense, sparse
from operators.clients.http.backend import Backend
from operators.clients.rerankers.cross_encoders import APIS, HttpReranker
from operators.query.backend_answers import Embedding
from operators.text.terms import SparseVector
from tests.operators.clients.http.serving import json_response
from tests.operators.clients.rerankers.dialects import SERVERS

DIMENSION: Final = 8

Role = Literal["embedder", "sparse_encoder", "reranker"]

Outcome = Literal["all answered", "refused alone", "not sent", "waited for"]
"""The outcome for the text that the server cannot digest, or for all of them."""


@dataclass(frozen=True)
class Reply:
    """An answer that is not the right one."""

    status: int
    value: Any
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """The right answer, with `value` as the vector or the score of each text that the server cannot digest."""

    value: Any


@dataclass(frozen=True)
class Call:
    """A call as its server sees it: its texts, the number of spoilt ones, the calls before it, the texts under way."""

    texts: Sequence[str]
    spoilt: int
    number: int
    active: int


Answer = Callable[[Call], Reply | Row | None]
"""The answer to a call; None: the right one."""


@dataclass(frozen=True)
class Manner:
    """The behaviour of `server` in a case, and its `outcome`; `text`: the beginning of texts that spoil a call."""

    server: str
    kind: str
    case: str
    answer: Answer
    outcome: Outcome = "refused alone"
    text: str = "poison"

    @property
    def name(self) -> str:
        """Server and case."""
        return f"{self.server}, {self.kind}: {self.case}"

    def spoils(self, text: str) -> bool:
        """True if the server cannot digest the text."""
        return text == self.text or text.startswith(f"{self.text} ")


class Playing:
    """A server of a kind with some manners, which keeps its calls. While it is `down`, it fails as `outage` says."""

    def __init__(self, role: Role, kind: str, *manners: Manner, seconds: float = 0.0) -> None:
        self.calls: list[Sequence[str]] = []
        self.failed = 0
        self.down = False
        self.outage = Reply(500, {"error": {"message": "the device is lost", "code": 500}})
        speeches: dict[Role, type[Embeddings | Terms | Scores]] = {
            "embedder": Embeddings,
            "sparse_encoder": Terms,
            "reranker": Scores,
        }
        self._speech = speeches[role](kind)
        self._manners = manners
        self._seconds = seconds
        self._active = 0

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Answer one call."""
        body = await request.json()
        texts = self._speech.texts(body)
        number = len(self.calls)
        self.calls.append(texts)
        self._active += len(texts)
        try:
            reply = self.outage if self.down else self._reply(texts, number)
            self.failed += reply is not None
            if isinstance(reply, Reply):
                return _written(reply)
            await asyncio.sleep(self._seconds)
            return json_response(self._right(body, texts, reply))
        finally:
            self._active -= len(texts)

    def _reply(self, texts: Sequence[str], number: int) -> Reply | tuple[Manner, Row] | None:
        for manner in self._manners:
            spoilt = sum(map(manner.spoils, texts))
            reply = manner.answer(Call(texts, spoilt, number, self._active))
            if isinstance(reply, Row):
                return manner, reply
            if reply is not None:
                return reply
        return None

    def _right(self, body: Any, texts: Sequence[str], spoilt: tuple[Manner, Row] | None) -> Any:
        answer = self._speech.answer(body)
        if spoilt is not None:
            manner, row = spoilt
            for index, text in enumerate(texts):
                if manner.spoils(text):
                    self._speech.put(answer, index, row.value)
        return answer


def _written(reply: Reply) -> web.StreamResponse:
    if isinstance(reply.value, str):
        return web.Response(text=reply.value, status=reply.status, content_type="text/html", headers=reply.headers)
    response = json_response(reply.value, reply.status)
    response.headers.update(reply.headers)
    return response


def vector_of(text: str) -> list[float]:
    """The vector that the servers here give a text."""
    return [zlib.crc32(text.encode(), place) / 2**32 + 0.01 for place in range(DIMENSION)]


@dataclass(frozen=True)
class Embeddings:
    """The API of an embedder's server of a kind."""

    kind: str

    def texts(self, body: Any) -> list[str]:
        """The texts of a call."""
        texts: list[str] = body["input" if self.kind == "openai" else "inputs"]
        return texts

    def answer(self, body: Any) -> Any:
        """The right answer."""
        vectors = list(map(vector_of, self.texts(body)))
        if self.kind == "tei":
            return vectors
        data = [{"object": "embedding", "index": index, "embedding": each} for index, each in enumerate(vectors)]
        return {"object": "list", "data": data, "model": body["model"], "usage": {"prompt_tokens": 9}}

    def put(self, answer: Any, index: int, value: Any) -> None:
        """Make `value` a text's vector."""
        if self.kind == "tei":
            answer[index] = value
        else:
            answer["data"][index]["embedding"] = value

    def client(self, backend: Backend) -> BiEncoder[Embedding]:
        """The client of such a server."""
        return BiEncoder(backend, "m", dense(DIMENSION), EMBEDDERS[self.kind], max_batch=32)


def terms_of(text: str) -> dict[int, float]:
    """The terms that the servers here give a text: one for each of its words."""
    return {zlib.crc32(word.encode()): 0.5 + len(word) / 8 for word in text.lower().split()}


@dataclass(frozen=True)
class Terms:
    """The API of a sparse encoder's server of a kind."""

    kind: str

    def texts(self, body: Any) -> list[str]:
        """The texts of a call."""
        texts: list[str] = body[SPARSE_APIS[self.kind].texts]
        return texts

    def answer(self, body: Any) -> Any:
        """The right answer."""
        rows = list(map(terms_of, self.texts(body)))
        if self.kind == "tei":
            return [[{"index": index, "value": value} for index, value in row.items()] for row in rows]
        named = [{str(index): value for index, value in row.items()} for row in rows]
        return {"object": "list", "data": [{"index": place, "embedding": row} for place, row in enumerate(named)]}

    def put(self, answer: Any, index: int, value: Any) -> None:
        """Make `value` a text's vector."""
        if self.kind == "tei":
            answer[index] = value
        else:
            answer["data"][index]["embedding"] = value

    def client(self, backend: Backend) -> BiEncoder[SparseVector]:
        """The client of such a server."""
        return BiEncoder(backend, "m", sparse, SPARSE_APIS[self.kind], max_batch=32)


@dataclass(frozen=True)
class Scores:
    """The API of a reranker's server of a kind."""

    kind: str

    def texts(self, body: Any) -> list[str]:
        """The texts of a call."""
        match body:
            case {"input": {"documents": list(texts)}} | {"input": list(texts)} | {"documents": list(texts)}:
                return texts
            case {"texts": list(texts)} | {"text_2": list(texts)}:
                return texts
            case {"passages": list(passages)}:
                return [passage["text"] for passage in passages]
        return [text for _, text in body["inputs"]]

    def answer(self, body: Any) -> Any:
        """The right answer."""
        return SERVERS[self.kind]().answer(body)

    def put(self, answer: Any, index: int, value: Any) -> None:
        """Make `value` a text's score."""
        entries = SERVERS[self.kind]().entries(answer)
        entry = entries[index][0] if self.kind == "tei_predict" else next(e for e in entries if e["index"] == index)
        entry[APIS[self.kind].key] = value

    def client(self, backend: Backend) -> HttpReranker:
        """The client of such a server."""
        return HttpReranker(backend, "m", APIS[self.kind])


def to_spoilt(reply: Reply | Row) -> Answer:
    """This answer to each call that a text spoils."""
    return lambda call: reply if call.spoilt else None


def to_more_than(texts: int, reply: Reply) -> Answer:
    """This answer to calls of more texts."""
    return lambda call: reply if len(call.texts) > texts else None


def beyond(permits: int, reply: Reply) -> Answer:
    """This answer while so many texts are under way."""
    return lambda call: reply if call.active > permits else None


def at_first(calls: int, reply: Reply) -> Answer:
    """This answer to the first calls."""
    return lambda call: reply if call.number < calls else None


def always(reply: Reply) -> Answer:
    """This answer to every call."""
    return lambda _: reply
