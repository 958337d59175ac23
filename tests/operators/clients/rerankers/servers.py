"""Servers of cross-encoders: the shapes that each project documents, extra fields included, and its limits enforced."""

import asyncio
import hashlib
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from aiohttp import web

from tests.operators.clients.http.serving import json_response

Json = dict[str, Any]


def relevance(query: str, text: str) -> float:
    """The score that the servers here give a pair, 0 to 1: one of its own."""
    digest = hashlib.blake2b(f"{query}\0{text}".encode(), digest_size=6).digest()
    return int.from_bytes(digest) / 2**48


class Server(ABC):
    """A server that answers POST on its path alone, refuses whatever its dialect does, and keeps what it was asked.

    Requests stay in hand while `hold` is clear; with `most_at_once` of them `full` is set, and further ones are 429.
    """

    path: ClassVar[str]
    fields: ClassVar[set[str]]
    limit: ClassVar[int] = 1000
    """The most texts of a call."""

    refusal: ClassVar[int]
    """The status of a request that isn't as documented."""

    def __init__(self, most_at_once: int = 64) -> None:
        self.requests: list[Json] = []
        self.most_at_once = most_at_once
        self.hold = asyncio.Event()
        self.hold.set()
        self.full = asyncio.Event()
        self._at_once = 0

    async def __call__(self, request: web.Request) -> web.Response:
        """Check and answer one request."""
        if (request.method, request.path) != ("POST", f"/base{self.path}"):
            return json_response({}, 404)
        body = await request.json()
        self.requests.append(body)
        if self._at_once >= self.most_at_once:
            return json_response(self.error("Model is overloaded", "overloaded"), 429)
        self._at_once += 1
        if self._at_once == self.most_at_once:
            self.full.set()
        try:
            await self.hold.wait()
            if set(body) != self.fields or not self.is_valid(body):
                return json_response(self.error("not as documented", "Validation"), self.refusal)
            if self.is_too_many(body):
                return json_response(self.error("too many", "Validation"), 413)
            return json_response(self.answer(body))
        finally:
            self._at_once -= 1

    def error(self, message: str, kind: str) -> Json:
        """An error's body."""
        return {"message": message}

    def is_too_many(self, body: Json) -> bool:
        """True if `body` carries more than the server takes."""
        return False

    @abstractmethod
    def is_valid(self, body: Json) -> bool:
        """True if the fields hold what is documented."""

    @abstractmethod
    def answer(self, body: Json) -> Any:
        """The right answer to `body`."""

    @abstractmethod
    def entries(self, answer: Any) -> Any:
        """The part of an answer that has an entry a text."""


def are_texts(value: object) -> bool:
    """True if `value` is a list of strings that isn't empty."""
    return isinstance(value, list) and len(value) > 0 and all(isinstance(text, str) for text in value)


def ranked(key: str, query: str, texts: list[str]) -> list[Json]:
    """Entries of index and `key`, best first."""
    entries = [{"index": index, key: relevance(query, text)} for index, text in enumerate(texts)]
    return sorted(entries, key=lambda entry: entry[key], reverse=True)


class Cohere(Server):
    """Cohere's API, version 2."""

    path = "/rerank"
    fields: ClassVar = {"model", "query", "documents", "top_n"}
    refusal = 400

    def is_valid(self, body: Json) -> bool:
        """A query, some documents, and a cut of one at least."""
        return isinstance(body["query"], str) and are_texts(body["documents"]) and body["top_n"] >= 1

    def answer(self, body: Json) -> Any:
        """The `top_n` best, with what was billed."""
        meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1.0}}
        return {"id": "07734bd2-2473-4f07-94e1-0d9f0e6843cf", "results": self.results(body), "meta": meta}

    def results(self, body: Json) -> list[Json]:
        """The `top_n` best."""
        return ranked("relevance_score", body["query"], body["documents"])[: body["top_n"]]

    def entries(self, answer: Any) -> Any:
        """The results."""
        return answer["results"]


class Jina(Cohere):
    """Jina's API, which gives the documents back unless it is told not to."""

    fields: ClassVar = {*Cohere.fields, "return_documents"}
    refusal = 422

    def answer(self, body: Json) -> Any:
        """The `top_n` best, with their texts if these are wanted, and the tokens that were used."""
        results = self.results(body)
        if body.get("return_documents", True):
            results = [entry | {"document": {"text": body["documents"][entry["index"]]}} for entry in results]
        return {"model": body["model"], "object": "list", "usage": {"total_tokens": 815}, "results": results}


class Infinity(Cohere):
    """An infinity server."""

    refusal = 422

    def answer(self, body: Json) -> Any:
        """The `top_n` best, without their texts."""
        results = [entry | {"document": None} for entry in self.results(body)]
        usage = {"prompt_tokens": 44, "total_tokens": 44}
        answer = {"object": "rerank", "results": results, "model": body["model"], "usage": usage}
        return answer | {"id": "infinity-8f3d", "created": 1_790_000_000}


class VllmRerank(Cohere):
    """A vLLM server's `/rerank`."""

    def answer(self, body: Json) -> Any:
        """The `top_n` best with their texts."""
        texts = [{"text": body["documents"][entry["index"]], "multi_modal": None} for entry in self.results(body)]
        results = [entry | {"document": text} for entry, text in zip(self.results(body), texts, strict=True)]
        usage = {"prompt_tokens": 56, "total_tokens": 56}
        return {"id": "rerank-fae51b2b664d4ed38f5969b612edff77", "model": body["model"], "usage": usage} | {
            "results": results
        }


class LlamaServer(Cohere):
    """llama.cpp's server, of a version that leaves the documents in their order."""

    def answer(self, body: Json) -> Any:
        """All documents' logits, not sorted."""
        results = sorted(self.results(body), key=lambda entry: entry["index"])
        usage = {"prompt_tokens": 51, "total_tokens": 51}
        return {"model": body["model"], "object": "list", "usage": usage, "results": results}


class Voyage(Server):
    """Voyage's API."""

    path = "/rerank"
    fields: ClassVar = {"model", "query", "documents", "top_k"}
    refusal = 400

    def error(self, message: str, kind: str) -> Json:
        """An error's body."""
        return {"detail": message}

    def is_valid(self, body: Json) -> bool:
        """A query, 1 to 1,000 documents, and a cut of one at least."""
        return isinstance(body["query"], str) and are_texts(body["documents"]) and body["top_k"] >= 1

    def is_too_many(self, body: Json) -> bool:
        """More than 1,000 documents."""
        return len(body["documents"]) > 1000

    def answer(self, body: Json) -> Any:
        """The `top_k` best."""
        data = ranked("relevance_score", body["query"], body["documents"])[: body["top_k"]]
        return {"object": "list", "data": data, "model": body["model"], "usage": {"total_tokens": 26}}

    def entries(self, answer: Any) -> Any:
        """The data."""
        return answer["data"]


class Tei(Server):
    """A text-embeddings-inference server's `/rerank`, with its default limit of 32 texts."""

    path = "/rerank"
    fields: ClassVar = {"query", "texts", "truncate"}
    limit = 32
    refusal = 422

    def error(self, message: str, kind: str) -> Json:
        """An error's body."""
        return {"error": message, "error_type": kind}

    def is_valid(self, body: Json) -> bool:
        """A query and some texts, to be truncated."""
        return isinstance(body["query"], str) and are_texts(body["texts"]) and body["truncate"] is True

    def is_too_many(self, body: Json) -> bool:
        """More than 32 texts."""
        return len(body["texts"]) > 32

    def answer(self, body: Json) -> Any:
        """All texts' scores, best first."""
        return ranked("score", body["query"], body["texts"])

    def entries(self, answer: Any) -> Any:
        """All of it."""
        return answer


class TeiPredict(Tei):
    """A text-embeddings-inference server's `/predict` over a cross-encoder of one label."""

    path = "/predict"
    fields: ClassVar = {"inputs", "truncate"}

    def is_valid(self, body: Json) -> bool:
        """Some pairs, to be truncated; a flat pair would be one input, not a batch."""
        pairs = body["inputs"]
        nested = isinstance(pairs, list) and len(pairs) > 0 and all(are_texts(pair) for pair in pairs)
        return nested and all(len(pair) == 2 for pair in pairs) and body["truncate"] is True

    def is_too_many(self, body: Json) -> bool:
        """More than 32 pairs."""
        return len(body["inputs"]) > 32

    def answer(self, body: Json) -> Any:
        """Each pair's labels, in the pairs' order."""
        return [[{"score": relevance(query, text), "label": "LABEL_0"}] for query, text in body["inputs"]]


class Xinference(Cohere):
    """An Xinference server, which has no documents in its answer unless they are asked for."""

    refusal = 422

    def answer(self, body: Json) -> Any:
        """The `top_n` best, and what was counted."""
        results = [entry | {"document": None} for entry in self.results(body)]
        counted = {"input_tokens": None, "output_tokens": None}
        meta = {"api_version": None, "billed_units": None, "tokens": counted, "warnings": None}
        return {"id": "51cbb6ba-0000-11f0-8f2e-0242ac110002", "results": results, "meta": meta}


class LocalAi(Jina):
    """A LocalAI server, whose answer has Jina's form; it always gives the documents back."""

    fields = Cohere.fields
    refusal = 400

    def answer(self, body: Json) -> Any:
        """The `top_n` best with their texts."""
        usage = {"total_tokens": 41, "prompt_tokens": 41}
        return super().answer(body) | {"usage": usage}


class SgLang(Server):
    """An SGLang server, whose answer is a list, best first; one of a version that gives the documents back."""

    path = "/rerank"
    fields: ClassVar = {"model", "query", "documents", "top_n", "return_documents"}
    refusal = 400

    def is_valid(self, body: Json) -> bool:
        """A query and some documents."""
        return isinstance(body["query"], str) and are_texts(body["documents"])

    def answer(self, body: Json) -> Any:
        """All documents' scores with their texts."""
        entries = ranked("score", body["query"], body["documents"])
        meta = {"id": "9d1f", "prompt_tokens": 12, "e2e_latency": 0.02}
        return [entry | {"document": body["documents"][entry["index"]], "meta_info": meta} for entry in entries]

    def entries(self, answer: Any) -> Any:
        """All of it."""
        return answer


class Nim(Server):
    """A NIM of NVIDIA's, which answers with logits."""

    path = "/ranking"
    fields: ClassVar = {"model", "query", "passages", "truncate"}
    limit = 512
    refusal = 422

    def error(self, message: str, kind: str) -> Json:
        """An error's body."""
        return {"object": "error", "message": message, "detail": {}, "type": "invalid_request_error"}

    def is_valid(self, body: Json) -> bool:
        """Objects of a text, up to 512, of which the ends are cut."""
        texts = [passage["text"] for passage in body["passages"]]
        return isinstance(body["query"]["text"], str) and are_texts(texts) and body["truncate"] == "END"

    def is_too_many(self, body: Json) -> bool:
        """More than 512 passages."""
        return len(body["passages"]) > 512

    def answer(self, body: Json) -> Any:
        """All passages' logits, best first."""
        texts = [passage["text"] for passage in body["passages"]]
        usage = {"prompt_tokens": 143, "total_tokens": 143}
        return {"rankings": ranked("logit", body["query"]["text"], texts), "usage": usage}

    def entries(self, answer: Any) -> Any:
        """The rankings."""
        return answer["rankings"]


class DashScope(Server):
    """DashScope's API, whose answer is in its `output`."""

    path = "/services/rerank/text-rerank/text-rerank"
    fields: ClassVar = {"model", "input", "parameters"}
    limit = 500
    refusal = 400

    def error(self, message: str, kind: str) -> Json:
        """An error's body."""
        return {"code": "InvalidParameter", "message": message, "request_id": "fb53c4ec-1c12-4fc4-a580-000000000000"}

    def is_valid(self, body: Json) -> bool:
        """A query and some documents, which are not to be given back."""
        given, parameters = body["input"], body["parameters"]
        texts = isinstance(given["query"], str) and are_texts(given["documents"])
        return texts and parameters["top_n"] >= 1 and parameters["return_documents"] is False

    def is_too_many(self, body: Json) -> bool:
        """More than 500 documents."""
        return len(body["input"]["documents"]) > 500

    def answer(self, body: Json) -> Any:
        """The `top_n` best."""
        given = body["input"]
        results = ranked("relevance_score", given["query"], given["documents"])[: body["parameters"]["top_n"]]
        return {
            "output": {"results": results},
            "usage": {"total_tokens": 79},
            "request_id": "85ba5752-1900-47d2-8896-000000000000",
        }

    def entries(self, answer: Any) -> Any:
        """The results."""
        return answer["output"]["results"]


class Mixedbread(Server):
    """Mixedbread's API."""

    path = "/reranking"
    fields: ClassVar = {"model", "query", "input", "top_k", "return_input"}
    refusal = 422

    def is_valid(self, body: Json) -> bool:
        """A query, some texts, and a cut of one at least."""
        return isinstance(body["query"], str) and are_texts(body["input"]) and body["top_k"] >= 1

    def answer(self, body: Json) -> Any:
        """The `top_k` best."""
        data = ranked("score", body["query"], body["input"])[: body["top_k"]]
        usage = {"prompt_tokens": 60, "total_tokens": 60}
        entries = [entry | {"input": None, "object": "rank_result"} for entry in data]
        return {"usage": usage, "model": body["model"], "data": entries, "object": "list", "top_k": len(data)} | {
            "return_input": False
        }

    def entries(self, answer: Any) -> Any:
        """The data."""
        return answer["data"]


class VllmScore(Server):
    """A vLLM server's `/score`."""

    path = "/score"
    fields: ClassVar = {"model", "text_1", "text_2"}
    refusal = 400

    def error(self, message: str, kind: str) -> Json:
        """An error's body."""
        return {"error": {"message": message, "type": "BadRequestError", "param": None, "code": 400}}

    def is_valid(self, body: Json) -> bool:
        """Texts on both sides, as many on one as on the other."""
        return are_texts(body["text_1"]) and are_texts(body["text_2"]) and len(body["text_1"]) == len(body["text_2"])

    def answer(self, body: Json) -> Any:
        """Each pair's score, in the pairs' order."""
        pairs = enumerate(zip(body["text_1"], body["text_2"], strict=True))
        data = [{"index": index, "object": "score", "score": relevance(*pair)} for index, pair in pairs]
        usage = {"prompt_tokens": 34, "total_tokens": 34, "completion_tokens": 0, "prompt_tokens_details": None}
        answer = {"id": "score-90b20ea9b6bb4c5e", "object": "list", "created": 1_790_000_000, "model": body["model"]}
        return answer | {"data": data, "usage": usage}

    def entries(self, answer: Any) -> Any:
        """The data."""
        return answer["data"]
