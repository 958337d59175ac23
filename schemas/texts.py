"""Texts of others: their Unicode normalisation, what a terminal may be shown of them, and bytes that come back as text.

Normalisation sorts every run of combining marks, and the time for that grows with the square of the run's length: a
text of nothing but marks would occupy the worker for minutes. So a text is first brought into the Stream-Safe Text
Format (UAX #15, section 13), in which no run is longer than 30. Words of real languages have far shorter runs.

A terminal obeys control characters, and shows what bidirectional overrides put before it in another order. Both may be
in a document, a query, a header, or an error that quotes one of them. `printable` leaves nothing that moves the cursor,
hides or reorders what is shown, or ends a line.
"""

import base64
import json
import re
import unicodedata
from functools import cache
from typing import Any, Final, Literal

import orjson

_LONGEST: Final = 30
_GRAPHEME_JOINER: Final = "\u034f"
"""COMBINING GRAPHEME JOINER: invisible, and marks are not sorted across it."""

_PLANES: Final = (0x300, 0x20000)
"""The range of code points that contains all marks."""


def write_urlsafe(content: bytes) -> str:
    """The bytes in URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode("ascii")


def read_urlsafe(text: str) -> bytes:
    """The bytes that `write_urlsafe` spelled so; raises ValueError for every other text."""
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
    except ValueError:
        raise ValueError("not URL-safe base64") from None
    if write_urlsafe(content) != text:
        raise ValueError("not the one spelling of its bytes")
    return content


def nfc(text: str) -> str:
    """The text in NFC: different encodings of the same characters become one."""
    return _normalize("NFC", text)


def nfd(text: str) -> str:
    """The text in NFD: letters and their marks apart."""
    return _normalize("NFD", text)


def nfkc(text: str) -> str:
    """The text in NFKC: compatible characters become one, too, such as "ﬁ" and "fi"."""
    return _normalize("NFKC", text)


def _normalize(form: Literal["NFC", "NFD", "NFKC"], text: str) -> str:
    if text.isascii():
        return text
    return unicodedata.normalize(form, _long_run().sub(rf"\g<0>{_GRAPHEME_JOINER}", text))


@cache
def _long_run() -> re.Pattern[str]:
    """Matches a run of the greatest allowed length that is followed by another mark."""
    points = (chr(point) for point in range(*_PLANES))
    marks = "".join(point for point in points if unicodedata.combining(unicodedata.normalize("NFKD", point)[0]))
    # A class with characters of several planes is slow: a cheaper class with a range rejects most positions first.
    near = "".join(mark for mark in marks if mark <= "\uffff")
    return re.compile(rf"[{near}\U00010000-\U0001ffff](?<=[{marks}])[{marks}]{{{_LONGEST - 1}}}(?=[{marks}])")


_JOINERS: Final = "\u200c\u200d"
"""Words of Persian and Hindi are spelled with them, and emoji; they reorder and hide nothing."""


def printable(text: str, allowed: str = "") -> str:
    """The text with U+FFFD for each character that a terminal may obey or hide; those in `allowed` are our own.

    Control and format characters, line and paragraph separators, lone surrogates, and characters without a meaning in
    Unicode are replaced. Spaces of all widths stay.
    """
    if text.isprintable():
        return text
    return "".join(each if _harmless(each) or each in allowed else "\N{REPLACEMENT CHARACTER}" for each in text)


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
