"""Chat servers that answer in their APIs' recorded shapes and refuse what the APIs refuse."""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from operators.clients.chat.completions import APIS, ChatModel
from operators.clients.http.backend import Resilient
from operators.clients.http.transport import Endpoint
from operators.clients.rerankers.listwise import FORM
from tests.operators.clients.http.serving import Handler, answering, backend

Reply = Callable[[str, str], str]
"""A model's reply to a system text and a user text."""

Make = Callable[[Endpoint], ChatModel]

KEY = "sk-do-not-tell"


class Server(ABC):
    """A chat server that keeps its requests and counts how many of them it had in hand at once.

    It refuses requests with other fields than `fields`: all that its API needs, and what the clients have to say.
    """

    fields: frozenset[str]

    def __init__(self, reply: Reply, latency: float = 0.0) -> None:
        self.requests: list[dict[str, Any]] = []
        self.most_at_once = 0
        self._at_once = 0
        self._reply = reply
        self._latency = latency

    async def __call__(self, request: web.Request) -> web.Response:
        """Check, keep and answer one request after the latency."""
        refusal = self.refusal(request)
        if refusal is not None:
            return refusal
        body = await request.json()
        if set(body) != self.fields:
            return self.invalid(set(body) ^ self.fields)
        self.requests.append(body)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        await asyncio.sleep(self._latency)
        self._at_once -= 1
        return json_response(self.answer(body))

    def say(self, system: str, user: str) -> str:
        """The model's reply."""
        return self._reply(system, user)

    @abstractmethod
    def refusal(self, request: web.Request) -> web.Response | None:
        """The API's answer to a request at another path or without the key."""

    @abstractmethod
    def invalid(self, fields: set[str]) -> web.Response:
        """The API's answer to a request in which `fields` are missing or too many."""

    @abstractmethod
    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """The API's answer to `body`."""


class OpenAI(Server):
    """An OpenAI-compatible server."""

    fields = frozenset({"model", "messages", "max_tokens", "temperature", "response_format"})

    def refusal(self, request: web.Request) -> web.Response | None:
        """404 elsewhere, 401 without the bearer key."""
        if (request.method, request.path) != ("POST", "/v1/chat/completions"):
            return json_response({"detail": "Not Found"}, 404)
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return openai_error("invalid_request_error", "Incorrect API key provided", 401)
        return None

    def invalid(self, fields: set[str]) -> web.Response:
        """400 for any of them."""
        return openai_error("invalid_request_error", f"Unrecognized or missing arguments: {fields}", 400)

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """A completion of the two messages."""
        system, user = body["messages"]
        assert (system["role"], user["role"]) == ("system", "user")
        return openai_answer(self.say(system["content"], user["content"]))


class Anthropic(Server):
    """A server of the Messages API."""

    fields = frozenset({"model", "system", "messages", "max_tokens", "temperature", "output_config"})

    def refusal(self, request: web.Request) -> web.Response | None:
        """404 elsewhere, 401 without the key, 400 without the version."""
        if (request.method, request.path) != ("POST", "/v1/messages"):
            return anthropic_error("not_found_error", "Not Found", 404)
        if request.headers.get("x-api-key") != KEY:
            return anthropic_error("authentication_error", "x-api-key header is required", 401)
        if request.headers.get("anthropic-version") != "2023-06-01":
            return anthropic_error("invalid_request_error", "anthropic-version: header is required", 400)
        return None

    def invalid(self, fields: set[str]) -> web.Response:
        """400 for any of them."""
        return anthropic_error("invalid_request_error", f"{fields}: missing, or extra inputs are not permitted", 400)

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """A message in answer to the one message."""
        (user,) = body["messages"]
        assert user["role"] == "user"
        return anthropic_answer(self.say(body["system"], user["content"]))


def openai_answer(text: object, finish_reason: str = "stop", refusal: str | None = None) -> dict[str, Any]:
    """A recorded answer of OpenAI's, with `text` and `refusal` in their places."""
    message = {"role": "assistant", "content": text, "refusal": refusal, "annotations": []}
    return {
        "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
        "object": "chat.completion",
        "created": 1741569952,
        "model": "gpt-4.1-mini-2025-04-14",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29},
        "service_tier": "default",
        "system_fingerprint": None,
    }


def anthropic_answer(*texts: object, stop_reason: str = "end_turn") -> dict[str, Any]:
    """A recorded answer of Anthropic's, with `texts` as its blocks of text."""
    return {
        "id": "msg_013Zva2CMHLNnXjNJJKqJ2EF",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5-20251001",
        "content": [{"type": "text", "text": text} for text in texts],
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 19, "cache_creation_input_tokens": 0, "output_tokens": 10},
    }


def json_response(value: object, status: int = 200) -> web.Response:
    """`value` as a JSON answer in ASCII, lone surrogates included."""
    return web.Response(body=json.dumps(value).encode(), status=status, content_type="application/json")


def openai_error(kind: str, message: str, status: int) -> web.Response:
    """A recorded error of OpenAI's."""
    return json_response({"error": {"message": message, "type": kind, "param": None, "code": None}}, status)


def anthropic_error(kind: str, message: str, status: int) -> web.Response:
    """A recorded error of Anthropic's."""
    error = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"}
    return json_response(error, status)


def openai(endpoint: Endpoint) -> ChatModel:
    """The OpenAI-compatible chat model."""
    return ChatModel(Resilient(endpoint), "gpt-4.1-mini", APIS["openai"])


def anthropic(endpoint: Endpoint) -> ChatModel:
    """The chat model of the Messages API."""
    return ChatModel(Resilient(endpoint), "claude-haiku-4-5", APIS["anthropic"])


HEADERS: dict[Make, Mapping[str, str]] = {
    openai: {"authorization": f"Bearer {KEY}"},
    anthropic: {"x-api-key": KEY, "anthropic-version": "2023-06-01"},
}


def complete(
    make: Make,
    handler: Handler,
    *,
    user: str = "a question",
    timeout: float = 5.0,
    headers: Mapping[str, str] | None = None,
) -> str:
    """The completion of `make`'s chat model with a server of `handler`, by default with its API's headers."""

    async def scenario() -> str:
        async with (
            answering(handler) as url,
            backend(f"{url}/v1", headers=headers or HEADERS[make]) as endpoint,
        ):
            return await make(endpoint).complete("a rule", user, FORM, timeout=timeout)

    return asyncio.run(scenario())


def always(value: object, status: int = 200) -> Handler:
    """A server that always answers `value`, as it is if it is bytes and else as JSON."""

    async def answer(_: web.Request) -> web.Response:
        if isinstance(value, bytes):
            return web.Response(body=value, status=status, content_type="application/json")
        return json_response(value, status)

    return answer
