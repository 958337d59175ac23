"""Chat models: a system text and a user text in, the text of one answer out. Texts of strangers are quoted."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

_TEMPLATE_TOKEN: Final = re.compile(r"[<\[◁]")


@dataclass(frozen=True, slots=True)
class Form:
    """The form of an answer: a JSON object of `schema`. The system text asks for it, too: not every server can."""

    name: str
    schema: Mapping[str, Any]


class ChatModel(Protocol):
    """A model that completes one prompt a call."""

    @property
    def model(self) -> str:
        """The model's name, as provenance reports it."""
        ...

    async def complete(self, system: str, user: str, form: Form, *, timeout: float) -> str:
        """Return the text of one whole answer within `timeout` seconds; raises BackendError.

        The text should hold JSON of `form`, but may hold anything.
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
