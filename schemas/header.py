"""Names of headers, compared as HTTP compares its own: the case of ASCII's letters doesn't count.

Unicode's case is another thing: the Kelvin sign has `k` as its lower case. Who is kept from setting a header must not
set it by a name that only looks the same to us.
"""

from string import ascii_lowercase, ascii_uppercase
from typing import Final

_LOWER: Final = str.maketrans(ascii_uppercase, ascii_lowercase)


def folded(name: str) -> str:
    """The name with ASCII's letters in lower case, and all others as they are."""
    return name.lower() if name.isascii() else name.translate(_LOWER)
