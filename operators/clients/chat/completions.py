"""Chat models behind HTTP: one request a completion, in the terms of an API of `operators.clients.chat.apis`.

An answer of another shape speaks against the server. A refusal, and a message without a text, speak against the texts
of the request: they are bad responses, too, but none that the server's breaker counts, or a planted text that models
refuse, or think long about, could shut the server off for all queries.

An answer is whole if its server says so, or says nothing of its end. One that the limit of tokens cut, or that ended
for any other reason, such as an error or a lack of resources, is a bad response: what it would have gone on to say is
not known.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from operators.clients.chat import Form
from operators.clients.chat.apis import Api, ChatMessage, Structured
from operators.clients.http.backend import Backend
from operators.clients.http.transport import CONTROL, Control
from schemas.errors import BackendBadResponse

MAX_TEXT: Final = 400_000
"""Most characters of a text, thoughts included: to read a longer one would hold up all other queries."""

_WHOLE: Final = frozenset(
    {
        "",
        *("stop", "stop_sequence", "stop_string", "stop_token", "eos", "eos_token", "end", "end_turn"),
        *("complete", "completed", "done", "finished"),
        *("tool_calls", "tool_call", "tool_use", "function_call", "function_calls"),
    }
)
"""Reasons to end an answer, in small letters, that a model's own end has with the servers of either API."""

_CUT: Final = frozenset({"length", "max_tokens", "model_length", "model_context_window_exceeded"})
_FILTERED: Final = frozenset({"content_filter", "content_filtered", "refusal", "safety", "sensitive"})
_LONGEST_REASON: Final = 40


class Unanswered(BackendBadResponse):
    """A completion that holds no answer; `cure` is what to do."""

    def __init__(self, backend: str, symptom: str, cure: str) -> None:
        super().__init__(f"{backend}: {symptom}: {cure}")
        self.symptom = symptom
        self.cure = cure


@dataclass(frozen=True, slots=True)
class HttpChat:
    """A ChatModel over one backend, which is asked for at most `max_tokens` tokens.

    `parameters` are further fields of each request; one that is None is left out. A refusal of the model, or of a
    content filter, is BackendBadResponse, and so is an answer that was cut, or has no text.
    """

    backend: Backend
    model: str
    api: Api
    max_tokens: int = 1024
    structured: Structured = "json_schema"
    parameters: Mapping[str, Any] = field(default_factory=dict)

    async def complete(self, system: str, user: str, form: Form, *, timeout: float) -> str:
        message = await self.backend.ask(
            self.api.path,
            self._body(system, user, form),
            self._read,
            timeout=timeout,
            repeatable=True,
            control=Control(self.api.path, self._body(system, CONTROL, form), self._read),
        )
        name, text = self.backend.name, message.text or ""
        if message.refused:
            raise BackendBadResponse(f"{name}: the model refused to answer")
        if message.end in _CUT:
            raise Unanswered(
                name,
                "the answer was cut at the limit of tokens",
                f"raise chat.max_tokens ({self.max_tokens}), or have the model think less by chat.parameters",
            )
        if not text.strip():
            raise Unanswered(
                name,
                "an answer without a text",
                "turn thinking off by chat.parameters, or give the server the reasoning parser of this model",
            )
        if len(text) > MAX_TEXT:
            raise BackendBadResponse(f"{name}: the text is too long")
        return text

    async def aclose(self) -> None:
        await self.backend.aclose()

    def _body(self, system: str, user: str, form: Form) -> dict[str, Any]:
        # The other name of the limit may stand among the parameters.
        limit = {} if self.parameters.get("max_completion_tokens") else {self.api.limit: self.max_tokens}
        body = {
            "model": self.model,
            **self.api.prompt(system, user),
            **limit,
            **self.api.parameters,
            **self.api.structured[self.structured](form),
            **self.parameters,
        }
        return {name: value for name, value in body.items() if value is not None}

    def _read(self, answer: Any) -> ChatMessage:
        """The message in an answer, its end in small letters. Raises BackendBadResponse."""
        message = self.api.read(answer)
        if message is None:
            raise BackendBadResponse(f"{self.backend.name}: no message in the answer")
        reason = message.end
        named = "" if reason is None else reason.lower() if isinstance(reason, str) else "?"
        if message.refused or named in _FILTERED:
            return message._replace(refused=True)
        if named not in _WHOLE | _CUT:
            # A reason of the API is a word; anything else might be a text.
            word = f": {named}" if named.isidentifier() and len(named) <= _LONGEST_REASON else ""
            raise BackendBadResponse(f"{self.backend.name}: the answer was broken off{word}")
        if message.text is None:
            raise BackendBadResponse(f"{self.backend.name}: no text in the answer")
        return message._replace(end=named)
