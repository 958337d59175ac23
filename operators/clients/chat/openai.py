"""The OpenAI-compatible chat model: `POST {base}/chat/completions`.

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
class OpenAIChat:
    """A ChatModel over the API that OpenAI, vLLM, llama-server and most gateways share.

    The key is the endpoint's header `authorization: Bearer <key>`.
    """

    backend: Backend
    model: str
    max_tokens: int = 1024

    async def complete(self, system: str, user: str, *, timeout: float) -> Completion:
        """Return the first choice's text, which may be empty, within `timeout` seconds.

        Raises BackendError; a refusal of the model or of a content filter is BackendBadResponse.
        """
        body = {
            "model": self.model,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
            "max_tokens": self.max_tokens,
            "temperature": 0,
        }
        completion = await self.backend.ask("/chat/completions", body, self._read, timeout=timeout, repeatable=True)
        if completion is None:
            raise BackendBadResponse(f"{self.backend.name}: the model refused to answer")
        return completion

    async def aclose(self) -> None:
        """Close the backend."""
        await self.backend.aclose()

    def _read(self, answer: Any) -> Completion | None:
        match answer:
            case {"choices": [{"finish_reason": "content_filter"}, *_]}:
                return None
            case {"choices": [{"message": {"refusal": str(refusal)}}, *_]} if refusal:
                return None
            case {"choices": [{"message": {"content": str(text)}} as choice, *_]}:
                return Completion(text, cut=choice.get("finish_reason") == "length")
        raise BackendBadResponse(f"{self.backend.name}: no first choice with a text")
