"""Texts of others on a terminal: nothing in them moves its cursor, hides or reorders what is shown, or ends a line.

A terminal obeys control characters, and shows what bidirectional overrides put before it in another order. Both may be
in a document, a query, a header, or an error that quotes one of them.
"""

import json
import unicodedata
from typing import Any, Final

import orjson

_JOINERS: Final = "\u200c\u200d"
"""Words of Persian and Hindi are spelled with them, and emoji; they reorder and hide nothing."""


def printable(text: str, kept: str = "") -> str:
    """The text with U+FFFD for each character that a terminal may obey or hide; those in `kept` are our own.

    Control and format characters, line and paragraph separators, lone surrogates, and characters without a meaning in
    Unicode are replaced. Spaces of all widths stay.
    """
    if text.isprintable():
        return text
    return "".join(each if _harmless(each) or each in kept else "\N{REPLACEMENT CHARACTER}" for each in text)


def json_line(value: Any) -> str:
    """The value as one line of JSON that decodes to it; what `printable` would replace is escaped."""
    try:
        text = orjson.dumps(value).decode()
    except TypeError:
        # Half of a surrogate pair, as in a file's name that isn't UTF-8.
        text = json.dumps(value)
    return text if text.isprintable() else "".join(each if _harmless(each) else json.dumps(each)[1:-1] for each in text)


def _harmless(character: str) -> bool:
    return character.isprintable() or character in _JOINERS or unicodedata.category(character) == "Zs"
