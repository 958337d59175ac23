"""The OpenAI-compatible chat model: `POST {base}/chat/completions`."""

from dataclasses import dataclass

from operators.clients.transport import Endpoint
from schemas.errors import BackendBadResponse


@dataclass(frozen=True, slots=True)
class OpenAIChat:
    """A ChatModel over the API that OpenAI, vLLM, llama-server and most gateways share.

    The key is the endpoint's header `authorization: Bearer <key>`.
    """

    endpoint: Endpoint
    model: str
    max_tokens: int = 256

    async def complete(self, system: str, user: str, *, timeout: float) -> str:
        """Return the first choice's text within `timeout` seconds; raises BackendError."""
        body = {
            "model": self.model,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
            "max_tokens": self.max_tokens,
            "temperature": 0,
        }
        answer = await self.endpoint.call("POST", "/chat/completions", body, timeout=timeout)
        match answer:
            case {"choices": [{"message": {"content": str(text)}}, *_]}:
                return text
        raise BackendBadResponse(f"{self.endpoint.name}: no first choice with a text")

    async def aclose(self) -> None:
        """Close the endpoint."""
        await self.endpoint.aclose()
