"""Chat models behind HTTP: a system text and a user text in, the text of one answer out. Texts of strangers are quoted.

Models differ in the parameters that they take: the configuration chooses a row of APIS, `chat.parameters` changes it,
and `rankstream check` says whether the server takes it.

An answer of another shape speaks against the server. A refusal, and a message without a text, speak against the texts
of the request: they are bad responses, too, but none that the server's breaker counts, or a planted text that models
refuse, or think long about, could shut the server off for all queries.

An answer is whole if its server says so, or says nothing of its end. One that ended for another reason, such as the
limit of tokens or an error, is a bad response: what it would have gone on to say is not known.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple

import orjson

from operators.clients.http.backend import Backend
from operators.clients.http.transport import CONTROL, Call
from schemas.errors import BackendBadResponse

Structured = Literal["none", "json_schema", "tool"]
"""The way in which a model is asked for structured output."""

Fields = Mapping[str, Any]

_TEMPLATE_TOKEN: Final = re.compile(r"[<\[◁]")


@dataclass(frozen=True, slots=True)
class Form:
    """The form of an answer: a JSON object of these properties. The system text asks for it, too."""

    name: str
    properties: Mapping[str, Any]

    @property
    def schema(self) -> Mapping[str, Any]:
        required = list(self.properties)
        return {"type": "object", "properties": self.properties, "required": required, "additionalProperties": False}


def quote(text: str) -> str:
    """Write `text` as a JSON string that it can't end: one line, every character of it printable.

    Line separators, invisible characters and lone surrogates are escaped, as are quotes; letters of any script are not.
    Neither `<`, `[` nor `◁` stands in it, with which the tokens of chat templates and the tags of thoughts begin: many
    servers take those for the end of a message wherever they stand.
    """
    literal = _TEMPLATE_TOKEN.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))
    if literal.isprintable():
        return literal
    return "".join(character if character.isprintable() else json.dumps(character).strip('"') for character in literal)


_TEXTS: Final = frozenset({"text", "output_text"})


class ChatMessage(NamedTuple):
    """A model's message: its text with the input of a called tool, the reason for its end, and True if it refuses.

    `text` is None where the content has another shape. Thoughts in fields or blocks of their own are no part of it.
    """

    text: str | None
    end: object = None
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Api:
    """An API: its path, the name of its limit of tokens, and what a request has beside its prompt.

    `structured` gives the fields that ask for structured output, by the way. `read` finds the message in an answer.
    """

    path: str
    prompt: Callable[[str, str], Fields]
    structured: Mapping[Structured, Callable[[Form], Fields]]
    read: Callable[[Any], ChatMessage | None]
    limit: str = "max_tokens"
    parameters: Fields = field(default_factory=lambda: {"temperature": 0})


def _read_openai(answer: Any) -> ChatMessage | None:
    match answer:
        case {"choices": [dict(choice), *_]}:
            end = "error" if choice.get("error") else choice.get("finish_reason")
            match choice.get("message"):
                case {"refusal": str(refusal)} if refusal:
                    return ChatMessage("", end, refused=True)
                case {"tool_calls": [{"function": {"arguments": str(arguments)}}, *_]}:
                    return ChatMessage(arguments, end)
                case {"content": str(text)}:
                    return ChatMessage(text, end)
                case {"content": None}:
                    return ChatMessage("", end)
                case {"content": list(blocks)}:
                    return ChatMessage(_join(blocks), end)
            return ChatMessage(None, end)
    return None


def _read_anthropic(answer: Any) -> ChatMessage | None:
    match answer:
        case {"content": list(blocks)}:
            return ChatMessage(_join(blocks), answer.get("stop_reason"))
    return None


def _join(blocks: list[Any]) -> str | None:
    """Join the blocks' texts and tools' inputs; blocks of other types, such as thoughts, are left out.

    None if one of them is no block.
    """
    texts: list[str] = []
    for block in blocks:
        match block:
            case {"type": str(kind), "text": str(text)} if kind in _TEXTS:
                texts.append(text)
            case {"type": "tool_use", "input": dict(given)}:
                texts.append(orjson.dumps(given).decode())
            case {"type": str(kind)} if kind not in _TEXTS:
                continue
            case _:
                return None
    return "".join(texts)


OPENAI: Final = Api(
    "/chat/completions",
    lambda system, user: {"messages": [{"role": "system", "content": system}, {"role": "user", "content": user}]},
    {
        "none": lambda _: {},
        "json_schema": lambda form: {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": form.name, "strict": True, "schema": form.schema},
            }
        },
        "tool": lambda form: {
            "tools": [{"type": "function", "function": {"name": form.name, "parameters": form.schema}}],
            "tool_choice": {"type": "function", "function": {"name": form.name}},
        },
    },
    _read_openai,
)
ANTHROPIC: Final = Api(
    "/messages",
    lambda system, user: {"system": system, "messages": [{"role": "user", "content": user}]},
    {
        "none": lambda _: {},
        "json_schema": lambda form: {"output_config": {"format": {"type": "json_schema", "schema": form.schema}}},
        "tool": lambda form: {
            "tools": [{"name": form.name, "input_schema": form.schema}],
            "tool_choice": {"type": "tool", "name": form.name},
        },
    },
    _read_anthropic,
)

APIS: Final[Mapping[str, Api]] = {
    "openai": OPENAI,
    "openai_reasoning": replace(OPENAI, limit="max_completion_tokens", parameters={}),
    "deepseek": replace(
        OPENAI, structured={**OPENAI.structured, "json_schema": lambda _: {"response_format": {"type": "json_object"}}}
    ),
    "anthropic": ANTHROPIC,
}
"""By kind of server."""

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


class NoCompletion(BackendBadResponse):
    """A completion that holds no answer; `cure` is what to do."""

    def __init__(self, backend: str, symptom: str, cure: str) -> None:
        super().__init__(f"{backend}: {symptom}: {cure}")
        self.symptom = symptom
        self.cure = cure


@dataclass(frozen=True, slots=True)
class ChatModel:
    """A model behind one backend, which is asked for at most `max_tokens` tokens.

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
        """Return the text of one whole answer within `timeout` seconds; raises BackendError.

        The text should hold JSON of `form`, but may hold anything.
        """
        control = Call(self.api.path, self._body(system, CONTROL, form), self._read)
        body = self._body(system, user, form)
        call = Call(self.api.path, body, self._read, repeatable=True, control=control)
        message = await self.backend.ask(call, timeout=timeout)
        name, text = self.backend.name, message.text or ""
        if message.refused:
            raise BackendBadResponse(f"{name}: the model refused to answer")
        if message.end in _CUT:
            cure = f"raise chat.max_tokens ({self.max_tokens}), or have the model think less by chat.parameters"
            raise NoCompletion(name, "the answer was cut at the limit of tokens", cure)
        if not text.strip():
            cure = "turn thinking off by chat.parameters, or give the server the reasoning parser of this model"
            raise NoCompletion(name, "an answer without a text", cure)
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
            word = f": {named}" if named.isidentifier() and len(named) <= 40 else ""
            raise BackendBadResponse(f"{self.backend.name}: the answer was broken off{word}")
        if message.text is None:
            raise BackendBadResponse(f"{self.backend.name}: no text in the answer")
        return message._replace(end=named)
