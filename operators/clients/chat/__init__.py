"""Chat models: a system text and a user text in, one completion's text out. Texts of strangers are quoted."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

_TEMPLATE_TOKEN: Final = re.compile(r"[<\[◁]")


class Completion(NamedTuple):
    """A model's answer, without its thoughts; `truncated`: the limit of tokens ended it, not the model."""

    text: str
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """The form of an answer for models that are asked for structured output: a JSON object of `schema`.

    `instruction` tells the model to write it. A model that is not asked for it writes a text.
    """

    name: str
    instruction: str
    schema: Mapping[str, Any]


class ChatModel(Protocol):
    """A model that completes one prompt a call."""

    @property
    def model(self) -> str:
        """The model's name, as provenance reports it."""
        ...

    async def complete(self, system: str, user: str, *, timeout: float, form: Form | None = None) -> Completion:
        """Return one completion within `timeout` seconds; raises BackendError.

        `form`: the structured output that a server is asked for, if the model is to ask for it.
        """
        ...

    async def aclose(self) -> None:
        """Release connections."""
        ...


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
