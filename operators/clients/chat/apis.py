"""APIs of chat models by kind of server: where requests go, what they hold, and where an answer holds its text.

Models differ in the parameters that they take. Nothing is learnt of a refusal: the configuration chooses a row of APIS,
and `rankstream check` says whether the server takes it. Where a server differs from its row, `chat.parameters` sets a
parameter, or leaves it out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple

import orjson

from operators.clients.chat import Form

Structured = Literal["none", "json_schema", "tool"]
"""The way in which a model is asked for structured output."""

Fields = Mapping[str, Any]
"""Fields of a request's body."""

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


def _ask_for_nothing(_: Form) -> Fields:
    return {}


def _openai_prompt(system: str, user: str) -> Fields:
    return {"messages": [{"role": "system", "content": system}, {"role": "user", "content": user}]}


def _openai_schema(form: Form) -> Fields:
    schema = {"name": form.name, "strict": True, "schema": form.schema}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _openai_tool(form: Form) -> Fields:
    function = {"name": form.name, "parameters": form.schema}
    choice = {"type": "function", "function": {"name": form.name}}
    return {"tools": [{"type": "function", "function": function}], "tool_choice": choice}


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


def _anthropic_prompt(system: str, user: str) -> Fields:
    return {"system": system, "messages": [{"role": "user", "content": user}]}


def _anthropic_schema(form: Form) -> Fields:
    return {"output_config": {"format": {"type": "json_schema", "schema": form.schema}}}


def _anthropic_tool(form: Form) -> Fields:
    tool = {"name": form.name, "input_schema": form.schema}
    return {"tools": [tool], "tool_choice": {"type": "tool", "name": form.name}}


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
    _openai_prompt,
    {"none": _ask_for_nothing, "json_schema": _openai_schema, "tool": _openai_tool},
    _read_openai,
)
ANTHROPIC: Final = Api(
    "/messages",
    _anthropic_prompt,
    {"none": _ask_for_nothing, "json_schema": _anthropic_schema, "tool": _anthropic_tool},
    _read_anthropic,
)

APIS: Final[Mapping[str, Api]] = {
    "openai": OPENAI,
    "openai_reasoning": replace(OPENAI, limit="max_completion_tokens", parameters={}),
    "deepseek": replace(
        OPENAI,
        structured={**OPENAI.structured, "json_schema": lambda _: {"response_format": {"type": "json_object"}}},
    ),
    "anthropic": ANTHROPIC,
}
"""By kind of server."""
