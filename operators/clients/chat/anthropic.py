"""The chat model of Anthropic's Messages API: `POST {base}/messages`.

An answer of another shape speaks against the server. A refusal speaks against the texts that it was asked about: it is
a bad response, too, but none that the server's breaker counts, or a planted text that models refuse could shut the
server off for all queries.
"""

from dataclasses import dataclass
from typing import Any

from operators.clients.chat import Completion
from operators.clients.http.backend import Backend
from schemas.errors import BackendBadResponse


@dataclass(frozen=True, slots=True)
class AnthropicChat:
    """A ChatModel over the Messages API, whose base URL ends in /v1.

    The endpoint's headers hold `x-api-key` and `anthropic-version: 2023-06-01`.
    """

    backend: Backend
    model: str
    max_tokens: int = 1024

    async def complete(self, system: str, user: str, *, timeout: float) -> Completion:
        """Return the text blocks of the answer, joined, which may be empty, within `timeout` seconds.

        Raises BackendError; a refusal of the model is BackendBadResponse.
        """
        body = {
            "model": self.model,
            "system": system,
            "messages": [{"role": "user", "content": user}],
            "max_tokens": self.max_tokens,
            "temperature": 0,
        }
        completion = await self.backend.ask("/messages", body, self._read, timeout=timeout, repeatable=True)
        if completion is None:
            raise BackendBadResponse(f"{self.backend.name}: the model refused to answer")
        return completion

    async def aclose(self) -> None:
        """Close the backend."""
        await self.backend.aclose()

    def _read(self, answer: Any) -> Completion | None:
        match answer:
            case {"type": "message", "stop_reason": "refusal"}:
                return None
            case {"content": list(blocks)}:
                return Completion("".join(self._texts(blocks)), cut=answer.get("stop_reason") == "max_tokens")
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
