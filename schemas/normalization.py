"""Unicode normalisation of untrusted texts.

Normalisation sorts every run of combining marks, and the time for that grows with the square of the run's length: a
text of nothing but marks would occupy the worker for minutes. So a text is first brought into the Stream-Safe Text
Format (UAX #15, section 13), in which no run is longer than 30. Words of real languages have far shorter runs.
"""

import re
import unicodedata
from functools import cache
from typing import Final, Literal

_LONGEST: Final = 30
_JOINER: Final = "\u034f"
"""COMBINING GRAPHEME JOINER: invisible, and marks are not sorted across it."""

_PLANES: Final = (0x300, 0x20000)
"""The range of code points that contains all marks."""


def nfc(text: str) -> str:
    """The text in NFC: different encodings of the same characters become one."""
    return _normalized("NFC", text)


def nfkc(text: str) -> str:
    """The text in NFKC: compatible characters become one, too, such as "ﬁ" and "fi"."""
    return _normalized("NFKC", text)


def _normalized(form: Literal["NFC", "NFKC"], text: str) -> str:
    if text.isascii():
        return text
    return unicodedata.normalize(form, _long_run().sub(rf"\g<0>{_JOINER}", text))


@cache
def _long_run() -> re.Pattern[str]:
    """Matches a run of the greatest allowed length that is followed by another mark."""
    points = (chr(point) for point in range(*_PLANES))
    marks = "".join(point for point in points if unicodedata.combining(unicodedata.normalize("NFKD", point)[0]))
    # A class with characters of several planes is slow: a cheaper class with a range rejects most positions first.
    near = "".join(mark for mark in marks if mark <= "\uffff")
    return re.compile(rf"[{near}\U00010000-\U0001ffff](?<=[{marks}])[{marks}]{{{_LONGEST - 1}}}(?=[{marks}])")
