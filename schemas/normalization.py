"""Unicode normalisation of texts that anybody may have written.

To normalise is to sort every run of combining marks, in a time that grows with the square of its length: a message of
marks alone would hold a worker for minutes. So a text is first brought into the Stream-Safe Text Format (UAX #15,
section 13): no run is longer than 30, which no word of any language comes near to.
"""

import re
import unicodedata
from functools import cache
from typing import Final, Literal

_LONGEST: Final = 30
_JOINER: Final = "\u034f"
"""COMBINING GRAPHEME JOINER, which can't be seen, and which nothing is sorted across."""

_PLANES: Final = (0x300, 0x20000)
"""The code points among which the marks are."""


def nfc(text: str) -> str:
    """The text composed (NFC): two spellings of the same characters are one."""
    return _normalized("NFC", text)


def nfkc(text: str) -> str:
    """The text composed, with compatible characters as one (NFKC): "ﬁ" is "fi"."""
    return _normalized("NFKC", text)


def _normalized(form: Literal["NFC", "NFKC"], text: str) -> str:
    if text.isascii():
        return text
    return unicodedata.normalize(form, _long_run().sub(rf"\g<0>{_JOINER}", text))


@cache
def _long_run() -> re.Pattern[str]:
    """As many marks as a run may have, before one more."""
    points = (chr(point) for point in range(*_PLANES))
    marks = "".join(point for point in points if unicodedata.combining(unicodedata.normalize("NFKD", point)[0]))
    # A class with characters of several planes is slow: most positions are passed by a first one that has a range.
    near = "".join(mark for mark in marks if mark <= "\uffff")
    return re.compile(rf"[{near}\U00010000-\U0001ffff](?<=[{marks}])[{marks}]{{{_LONGEST - 1}}}(?=[{marks}])")
