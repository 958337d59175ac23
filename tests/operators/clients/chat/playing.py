"""Servers that play the manner of a chat server: its forms of thoughts and answers, its refusals."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from aiohttp import web

from operators.clients.chat.completions import AnthropicChat, HttpChat, OpenAIChat, Structured
from operators.clients.chat.parameters import CHAT
from operators.clients.http.backend import resilient
from operators.clients.http.transport import Endpoint, http_transport
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

ANSWER: Final = "3, 1"
ORDER: Final = [3, 1]

Outcome = Literal["ranked", "raise chat.max_tokens", "reasoning parser", "refused", "bad answer"]
"""The outcome: the order of the answer, or a failure, by words of what is said of it."""


@dataclass(frozen=True)
class Manner:
    """The behaviour of `server` in a case: the `outcome`, after `calls`, and the parameters left out afterwards."""

    server: str
    case: str
    answer: Callable[[Body], Answer]
    outcome: Outcome = "ranked"
    calls: int = 1
    refused: Mapping[str, str | None] = field(default_factory=dict)
    api: Literal["openai", "anthropic"] = "openai"
    structured: Structured = "none"
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Server and case."""
        return f"{self.server}: {self.case}"

    def chat(self, url: str) -> HttpChat:
        """The client of a server with this manner at `url`."""
        made, headers = (OpenAIChat, HEADERS[openai]) if self.api == "openai" else (AnthropicChat, HEADERS[anthropic])
        endpoint = Endpoint("chat", f"{url}/v1", http_transport(), headers, dialect=CHAT)
        return made(resilient(endpoint), "m", structured=self.structured, parameters=self.parameters)


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


def in_turn(*steps: Callable[[Body], Answer | None], then: Callable[[Body], Answer]) -> Callable[[Body], Answer]:
    """The answer of the first step that has one, else that of `then`."""

    def answer(body: Body) -> Answer:
        return next((found for step in steps if (found := step(body)) is not None), None) or then(body)

    return answer


def if_holds(name: str, error: Any, status: int = 400) -> Callable[[Body], Answer | None]:
    """`error` to a request that holds the parameter."""
    return lambda body: (status, error) if name in body else None


STRUCTURED: Final = '{"ranking": [3, 1]}'


def structured(body: Body) -> Answer:
    """A completion in the form that the request asks for."""
    if "tools" in body:
        name = body["tools"][0]["function"]["name"]
        assert body["tool_choice"] == {"type": "function", "function": {"name": name}}
        call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": STRUCTURED}}
        return said(None, "tool_calls", tool_calls=[call])(body)
    assert body["response_format"]["json_schema"]["schema"]["required"] == ["ranking"]
    return said(STRUCTURED)(body)


def anthropic_structured(body: Body) -> Answer:
    """A message in the form that the request asks for."""
    if "tools" in body:
        name = body["tools"][0]["name"]
        return blocks(
            {"type": "tool_use", "id": "toolu_1", "name": name, "input": {"ranking": [3, 1]}}, stop="tool_use"
        )(body)
    assert body["output_config"]["format"]["type"] == "json_schema"
    return blocks({"type": "text", "text": STRUCTURED})(body)
