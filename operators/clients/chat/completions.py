"""Chat models behind HTTP: OpenAI's chat completions, and Anthropic's Messages API.

An answer of another shape speaks against the server. A refusal, and a thought without an answer, speak against the
texts of the request: they are bad responses, too, but none that the server's breaker counts, or a planted text that
models refuse, or think long about, could shut the server off for all queries.

An answer is whole if its server says so, or says nothing of its end. One that the limit of tokens cut is marked as
truncated. One that ended for any other reason, such as an error or a lack of resources, is a bad response: what it
would have gone on to say is not known.

A text is an answer without the thoughts in it (`reasoning`). A parameter that the model refuses is left out
(`parameters`), within the same call's time.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, NamedTuple

import orjson

from operators.clients.chat import Completion, Form
from operators.clients.chat.parameters import LIMITS, Changes, Parameters, RequestRefused, apply_changes, has_budget
from operators.clients.chat.reasoning import read_answer
from operators.clients.http.backend import Backend
from operators.clients.http.transport import CONTROL, Control
from schemas.errors import BackendBadResponse

Structured = Literal["none", "json_schema", "tool"]
"""The way in which a model is asked for structured output."""

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

_FEW_TOKENS: Final = 16

_TEXTS: Final = frozenset({"text", "output_text"})
_THOUGHTS: Final = ("reasoning_content", "reasoning", "reasoning_details", "thinking")


class Unanswered(BackendBadResponse):
    """A completion that holds no answer; `cure` is what to do."""

    def __init__(self, backend: str, symptom: str, cure: str) -> None:
        super().__init__(f"{backend}: {symptom}: {cure}")
        self.symptom = symptom
        self.cure = cure


class Message(NamedTuple):
    """A model's message as its server gives it. `text` may hold thoughts; `thought`: there are some apart from it."""

    text: str = ""
    truncated: bool = False
    thought: bool = False
    refused: bool = False


@dataclass(frozen=True, slots=True)
class HttpChat(ABC):
    """A ChatModel over one backend, which is asked for at most `max_tokens` tokens.

    `parameters` are further fields of each request; one that is None is left out. A refusal of the model, or of a
    content filter, is BackendBadResponse, and so is a thought without an answer; the text may be empty.
    """

    path: ClassVar[str]
    limits: ClassVar[Mapping[str, str]]

    backend: Backend
    model: str
    max_tokens: int = 1024
    structured: Structured = "none"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    _learnt: Parameters = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # The class is frozen; what is learnt changes within.
        object.__setattr__(self, "_learnt", Parameters(self.limits))

    async def complete(self, system: str, user: str, *, timeout: float, form: Form | None = None) -> Completion:
        asked = form if self.structured != "none" else None
        message = await self._ask(self._body(system, user, asked), asked.name if asked else "", timeout)
        if message.refused:
            raise BackendBadResponse(f"{self.backend.name}: the model refused to answer")
        if len(message.text) > MAX_TEXT:
            raise BackendBadResponse(f"{self.backend.name}: the text is too long")
        said = read_answer(message.text)
        empty = not said.answer.strip()
        thought = said.thought or message.thought
        if said.unfinished or (empty and message.truncated):
            where = "inside a thought" if thought else "before it began"
            raise Unanswered(
                self.backend.name,
                f"the answer was cut {where}",
                f"raise chat.max_tokens ({self.max_tokens}), or have the model think less by chat.parameters",
            )
        if empty and thought:
            raise Unanswered(
                self.backend.name,
                "a thought without an answer",
                "give the server the reasoning parser of this model, or turn thinking off by chat.parameters",
            )
        return Completion(said.answer, message.truncated)

    async def aclose(self) -> None:
        await self.backend.aclose()

    @property
    def refused(self) -> Changes:
        """The parameters that the model has refused, with the name that each is sent under instead, if any."""
        return self._learnt.changes

    def _body(self, system: str, user: str, form: Form | None) -> dict[str, Any]:
        if form is not None:
            system = f"{system}\n{form.instruction}"
        body = {"model": self.model, **self._prompt(system, user), "max_tokens": self.max_tokens, "temperature": 0}
        if form is not None:
            body |= self._structure(form)
        if self.parameters.get("max_completion_tokens") is not None:
            del body["max_tokens"]
        return {name: value for name, value in {**body, **self.parameters}.items() if value is not None}

    def _control(self, made: Changes) -> Control:
        body = self._body("Answer with one word.", CONTROL, None)
        few = {} if has_budget(self.parameters) else {name: _FEW_TOKENS for name in LIMITS if name in body}
        # A refusal may be of a parameter, which the next try leaves out.
        return Control(
            self.path, apply_changes({**body, **few}, made), lambda answer: self._read(answer, ""), refusals=False
        )

    async def _ask(self, body: dict[str, Any], tool: str, timeout: float) -> Message:
        deadline = time.monotonic() + timeout
        made: Changes = self._learnt.changes
        while True:
            sent = apply_changes(body, made)
            left = deadline - time.monotonic()
            try:
                message = await self.backend.ask(
                    self.path,
                    sent,
                    lambda answer: self._read(answer, tool),
                    timeout=left,
                    repeatable=True,
                    control=self._control(made),
                )
            except RequestRefused as error:
                more = self._learnt.change(error, sent, made)
                if more is None or time.monotonic() >= deadline:
                    self._learnt.unlearn(made)
                    raise
                made = more
            else:
                self._learnt.learn(made, self.model)
                return message

    @abstractmethod
    def _prompt(self, system: str, user: str) -> dict[str, Any]: ...

    @abstractmethod
    def _structure(self, form: Form) -> dict[str, Any]:
        """The fields of a request for structured output."""

    @abstractmethod
    def _read(self, answer: Any, tool: str) -> Message:
        """The message in an answer; its text is the input of `tool`, if that was called. Raises BackendBadResponse."""

    def _is_cut(self, reason: object) -> bool:
        """True if the limit of tokens ended an answer. Raises BackendBadResponse if something else cut it short."""
        named = "" if reason is None else reason.lower() if isinstance(reason, str) else "?"
        if named in _WHOLE:
            return False
        if named in _CUT:
            return True
        # A reason of the API is a word; anything else might be a text.
        word = f": {named}" if named.isidentifier() and len(named) <= _LONGEST_REASON else ""
        raise BackendBadResponse(f"{self.backend.name}: the answer was broken off{word}")

    def _texts(self, blocks: list[Any]) -> list[str]:
        texts = []
        for block in blocks:
            match block:
                case {"type": str(kind), "text": str(text)} if kind in _TEXTS:
                    texts.append(text)
                case {"type": str(kind)} if kind not in _TEXTS:
                    # Thinking, for one: no part of the answer.
                    continue
                case _:
                    raise BackendBadResponse(f"{self.backend.name}: a block that is no content")
        return texts


class OpenAIChat(HttpChat):
    """A chat model over OpenAI's API, which vLLM, llama-server and most gateways share: `POST {base}/chat/completions`.

    The key is the endpoint's header `authorization: Bearer <key>`.
    """

    path = "/chat/completions"
    limits = LIMITS

    def _prompt(self, system: str, user: str) -> dict[str, Any]:
        return {"messages": [{"role": "system", "content": system}, {"role": "user", "content": user}]}

    def _structure(self, form: Form) -> dict[str, Any]:
        if self.structured == "json_schema":
            schema = {"name": form.name, "strict": True, "schema": form.schema}
            return {"response_format": {"type": "json_schema", "json_schema": schema}}
        function = {"name": form.name, "description": form.instruction, "parameters": form.schema}
        return {
            "tools": [{"type": "function", "function": function}],
            "tool_choice": {"type": "function", "function": {"name": form.name}},
        }

    def _read(self, answer: Any, tool: str) -> Message:
        match answer:
            case {"choices": [{"finish_reason": str(reason)}, *_]} if reason.lower() in _FILTERED:
                return Message(refused=True)
            case {"choices": [{"message": {"refusal": str(refusal)}}, *_]} if refusal:
                return Message(refused=True)
            case {"choices": [{"message": dict(message)} as choice, *_]}:
                truncated = self._is_cut("error" if choice.get("error") else choice.get("finish_reason"))
                thought = any(message.get(name) for name in _THOUGHTS)
                match message:
                    case {"tool_calls": [{"function": {"name": str(name), "arguments": str(text)}}, *_]} if (
                        tool and name == tool
                    ):
                        return Message(text, truncated, thought)
                    case {"content": str(text)}:
                        return Message(text, truncated, thought)
                    case {"content": [*_, {"type": "refusal"}]}:
                        return Message(refused=True)
                    case {"content": list(blocks)} if blocks:
                        texts = self._texts(blocks)
                        return Message("".join(texts), truncated, thought or len(texts) < len(blocks))
                    case _ if message.get("content") is None and (thought or truncated):
                        return Message(truncated=truncated, thought=thought)
        raise BackendBadResponse(f"{self.backend.name}: no first choice with a text")


class AnthropicChat(HttpChat):
    """A chat model over the Messages API, whose base URL ends in /v1: `POST {base}/messages`.

    The endpoint's headers hold `x-api-key` and `anthropic-version: 2023-06-01`. An answer's text blocks are joined.
    """

    path = "/messages"
    limits: ClassVar[Mapping[str, str]] = {}

    def _prompt(self, system: str, user: str) -> dict[str, Any]:
        return {"system": system, "messages": [{"role": "user", "content": user}]}

    def _structure(self, form: Form) -> dict[str, Any]:
        if self.structured == "json_schema":
            return {"output_config": {"format": {"type": "json_schema", "schema": form.schema}}}
        return {
            "tools": [{"name": form.name, "description": form.instruction, "input_schema": form.schema}],
            "tool_choice": {"type": "tool", "name": form.name},
        }

    def _read(self, answer: Any, tool: str) -> Message:
        match answer:
            case {"type": "message", "stop_reason": str(reason)} if reason.lower() in _FILTERED:
                return Message(refused=True)
            case {"content": list(blocks)}:
                truncated = self._is_cut(answer.get("stop_reason"))
                texts = self._texts(blocks)
                for block in blocks:
                    if tool and block.get("name") == tool and isinstance(block.get("input"), dict):
                        return Message(orjson.dumps(block["input"]).decode(), truncated)
                if texts or blocks or truncated:
                    return Message("".join(texts), truncated, thought=len(texts) < len(blocks))
        raise BackendBadResponse(f"{self.backend.name}: no text in the answer")
