"""Texts of strangers in a prompt."""

import json
import re
from typing import Final

_OPENING: Final = re.compile(r"[<\[]")


def quoted(text: str) -> str:
    """Write `text` as a JSON string that it can't end: one line, every character of it printable.

    Line separators, invisible characters and lone surrogates are escaped, as are quotes; letters of any script are not.
    Neither `<` nor `[` stands in it, with which the tokens of chat templates begin: many servers take those for the
    end of a message wherever they stand.
    """
    literal = _OPENING.sub(_escape, json.dumps(text, ensure_ascii=False))
    if literal.isprintable():
        return literal
    return "".join(character if character.isprintable() else json.dumps(character).strip('"') for character in literal)


def _escape(opening: re.Match[str]) -> str:
    return f"\\u{ord(opening[0]):04x}"
