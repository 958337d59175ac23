"""Chat models behind HTTP: OpenAI's chat completions, and Anthropic's Messages API.

An answer of another shape speaks against the server. A refusal speaks against the texts of the request: it is a bad
response, too, but none that the server's breaker counts, or a planted text that models refuse could shut the server off
for all queries.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from operators.clients.chat import Completion
from operators.clients.http.backend import Backend
from schemas.errors import BackendBadResponse


@dataclass(frozen=True, slots=True)
class HttpChat(ABC):
    """A ChatModel over one backend, which is asked for at most `max_tokens` tokens.

    A refusal of the model, or of a content filter, is BackendBadResponse; the text may be empty.
    """

    path: ClassVar[str]

    backend: Backend
    model: str
    max_tokens: int = 1024

    async def complete(self, system: str, user: str, *, timeout: float) -> Completion:
        body = {"model": self.model, **self._prompt(system, user), "max_tokens": self.max_tokens, "temperature": 0}
        completion = await self.backend.ask(self.path, body, self._read, timeout=timeout, repeatable=True)
        if completion is None:
            raise BackendBadResponse(f"{self.backend.name}: the model refused to answer")
        return completion

    async def aclose(self) -> None:
        await self.backend.aclose()

    @abstractmethod
    def _prompt(self, system: str, user: str) -> dict[str, Any]: ...

    @abstractmethod
    def _read(self, answer: Any) -> Completion | None:
        """The completion in an answer, None for a refusal. Raises BackendBadResponse."""


class OpenAIChat(HttpChat):
    """A chat model over OpenAI's API, which vLLM, llama-server and most gateways share: `POST {base}/chat/completions`.

    The key is the endpoint's header `authorization: Bearer <key>`.
    """

    path = "/chat/completions"

    def _prompt(self, system: str, user: str) -> dict[str, Any]:
        return {"messages": [{"role": "system", "content": system}, {"role": "user", "content": user}]}

    def _read(self, answer: Any) -> Completion | None:
        match answer:
            case {"choices": [{"finish_reason": "content_filter"}, *_]}:
                return None
            case {"choices": [{"message": {"refusal": str(refusal)}}, *_]} if refusal:
                return None
            case {"choices": [{"message": {"content": str(text)}} as choice, *_]}:
                return Completion(text, truncated=choice.get("finish_reason") == "length")
        raise BackendBadResponse(f"{self.backend.name}: no first choice with a text")


class AnthropicChat(HttpChat):
    """A chat model over the Messages API, whose base URL ends in /v1: `POST {base}/messages`.

    The endpoint's headers hold `x-api-key` and `anthropic-version: 2023-06-01`. An answer's text blocks are joined.
    """

    path = "/messages"

    def _prompt(self, system: str, user: str) -> dict[str, Any]:
        return {"system": system, "messages": [{"role": "user", "content": user}]}

    def _read(self, answer: Any) -> Completion | None:
        match answer:
            case {"type": "message", "stop_reason": "refusal"}:
                return None
            case {"content": list(blocks)}:
                return Completion("".join(self._texts(blocks)), truncated=answer.get("stop_reason") == "max_tokens")
        raise BackendBadResponse(f"{self.backend.name}: no text in the answer")

    def _texts(self, blocks: list[Any]) -> list[str]:
        texts = []
        for block in blocks:
            match block:
                case {"type": "text", "text": str(text)}:
                    texts.append(text)
                case {"type": str(kind)} if kind != "text":
                    # Thinking, for one: no part of the answer.
                    continue
                case _:
                    raise BackendBadResponse(f"{self.backend.name}: a block that is no content")
        if not texts:
            raise BackendBadResponse(f"{self.backend.name}: no text in the answer")
        return texts
