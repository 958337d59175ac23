"""Servers that play the manner of a chat server: its forms of thoughts and answers, its refusals."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from aiohttp import web

from operators.clients.chat.completions import APIS, ChatModel, Structured
from operators.clients.http.backend import Resilient
from operators.clients.http.dialect import MODEL
from operators.clients.http.transport import CONTROL, Endpoint, http_transport
from tests.operators.clients.chat.servers import (
    HEADERS,
    anthropic,
    anthropic_answer,
    json_response,
    openai,
    openai_answer,
)

Body = dict[str, Any]
Answer = tuple[int, Any]
"""Status and JSON."""

THOUGHT: Final = "Document 2 has 5 words; 4 of 9 fit. So 2, 4 or 1?"
"""Full of numbers that are no document's place."""

ANSWER: Final = '{"ranking": [3, 1]}'
ORDER: Final = [3, 1]

Outcome = Literal["ranked", "raise chat.max_tokens", "thinking off", "refused", "bad answer"]
"""The outcome: the order of the answer, or a failure, by words of what is said of it."""


@dataclass(frozen=True)
class Manner:
    """The behaviour of `server` in a case, and the `outcome` with these settings."""

    server: str
    case: str
    answer: Callable[[Body], Answer]
    outcome: Outcome = "ranked"
    kind: Literal["openai", "openai_reasoning", "deepseek", "anthropic"] = "openai"
    structured: Structured = "json_schema"
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Server and case."""
        return f"{self.server}: {self.case}"

    def chat(self, url: str) -> ChatModel:
        """The client of a server with this manner at `url`."""
        headers = HEADERS[anthropic if self.kind == "anthropic" else openai]
        endpoint = Endpoint("chat", f"{url}/v1", http_transport(), headers, dialect=MODEL)
        backend = Resilient(endpoint)
        return ChatModel(backend, "m", APIS[self.kind], structured=self.structured, parameters=self.parameters)


class Playing:
    """A server with one manner, which keeps its requests."""

    def __init__(self, manner: Manner) -> None:
        self.requests: list[Body] = []
        self._manner = manner

    async def __call__(self, request: web.Request) -> web.Response:
        """Answer one request."""
        body = await request.json()
        self.requests.append(body)
        status, value = self._manner.answer(body)
        return json_response(value, status)


def said(text: object, finish: str = "stop", **fields: Any) -> Callable[[Body], Answer]:
    """A completion of OpenAI's form with this content, and further fields of the message."""
    answer = openai_answer(text, finish)
    answer["choices"][0]["message"] |= fields
    return lambda _: (200, answer)


def blocks(*content: Any, stop: str = "end_turn") -> Callable[[Body], Answer]:
    """A message of Anthropic's form with these blocks."""
    return lambda _: (200, {**anthropic_answer(stop_reason=stop), "content": list(content)})


def refusing(
    parameters: str | tuple[str, ...], error: Any, then: Callable[[Body], Answer] | None = None, status: int = 400
) -> Callable[[Body], Answer]:
    """A server that answers `error` to requests that hold any of the parameters."""
    refused = {parameters} if isinstance(parameters, str) else set(parameters)
    answered = then or said(ANSWER)
    return lambda body: (status, error) if refused & body.keys() else answered(body)


def openai_refusal(message: str, param: str | None = None, code: str | None = None) -> Body:
    """An error of OpenAI's form."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def anthropic_refusal(message: str) -> Body:
    """An error of Anthropic's form."""
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}, "request_id": "req_1"}


def for_texts(error: Any, status: int = 400) -> Callable[[Body], Answer]:
    """A server that answers `error` to each prompt but the control request's."""
    return lambda body: said(ANSWER)(body) if body["messages"][-1]["content"] == CONTROL else (status, error)


def structured(body: Body) -> Answer:
    """A completion in the form that the request asks for."""
    if "tools" in body:
        name = body["tools"][0]["function"]["name"]
        assert body["tool_choice"] == {"type": "function", "function": {"name": name}}
        call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": ANSWER}}
        return said(None, "tool_calls", tool_calls=[call])(body)
    assert body["response_format"]["json_schema"]["schema"]["required"] == ["ranking"]
    return said(ANSWER)(body)


def anthropic_structured(body: Body) -> Answer:
    """A message in the form that the request asks for."""
    if "tools" in body:
        name = body["tools"][0]["name"]
        return blocks(
            {"type": "tool_use", "id": "toolu_1", "name": name, "input": {"ranking": [3, 1]}}, stop="tool_use"
        )(body)
    assert body["output_config"]["format"]["type"] == "json_schema"
    return blocks({"type": "text", "text": ANSWER})(body)
