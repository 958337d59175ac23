"""Chat models: a system text and a user text in, one completion's text out. Texts of strangers are quoted."""

import json
import re
from typing import Final, NamedTuple, Protocol

_TEMPLATE_TOKEN: Final = re.compile(r"[<\[]")


class Completion(NamedTuple):
    """A model's text; `truncated`: the limit of tokens ended it, not the model."""

    text: str
    truncated: bool = False


class ChatModel(Protocol):
    """A model that completes one prompt a call."""

    @property
    def model(self) -> str:
        """The model's name, as provenance reports it."""
        ...

    async def complete(self, system: str, user: str, *, timeout: float) -> Completion:
        """Return one completion within `timeout` seconds; raises BackendError."""
        ...

    async def aclose(self) -> None:
        """Release connections."""
        ...


def quote(text: str) -> str:
    """Write `text` as a JSON string that it can't end: one line, every character of it printable.

    Line separators, invisible characters and lone surrogates are escaped, as are quotes; letters of any script are not.
    Neither `<` nor `[` stands in it, with which the tokens of chat templates begin: many servers take those for the
    end of a message wherever they stand.
    """
    literal = _TEMPLATE_TOKEN.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))
    if literal.isprintable():
        return literal
    return "".join(character if character.isprintable() else json.dumps(character).strip('"') for character in literal)
