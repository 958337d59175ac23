"""The chat model of Anthropic's Messages API: `POST {base}/messages`."""

from dataclasses import dataclass

from operators.clients.transport import Endpoint
from schemas.errors import BackendBadResponse


@dataclass(frozen=True, slots=True)
class AnthropicChat:
    """A ChatModel over the Messages API, whose base URL ends in /v1.

    The endpoint's headers hold `x-api-key` and `anthropic-version: 2023-06-01`.
    """

    endpoint: Endpoint
    model: str
    max_tokens: int = 256

    async def complete(self, system: str, user: str, *, timeout: float) -> str:
        """Return the text blocks of the answer, joined, within `timeout` seconds; raises BackendError."""
        body = {
            "model": self.model,
            "system": system,
            "messages": [{"role": "user", "content": user}],
            "max_tokens": self.max_tokens,
            "temperature": 0,
        }
        answer = await self.endpoint.call("POST", "/messages", body, timeout=timeout)
        blocks = answer.get("content") if isinstance(answer, dict) else None
        return "".join(self._texts(blocks))

    async def aclose(self) -> None:
        """Close the endpoint."""
        await self.endpoint.aclose()

    def _texts(self, blocks: object) -> list[str]:
        texts = []
        for block in blocks if isinstance(blocks, list) else []:
            match block:
                case {"type": "text", "text": str(text)}:
                    texts.append(text)
                case {"type": str(kind)} if kind != "text":
                    # Thinking, for one: no part of the answer.
                    continue
                case _:
                    raise BackendBadResponse(f"{self.endpoint.name}: a block that is no content")
        if not texts:
            raise BackendBadResponse(f"{self.endpoint.name}: no text in the answer")
        return texts
