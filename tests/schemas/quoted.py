"""The quote of a wrong value in an error."""

import json
from typing import Any


def quoted(value: Any) -> str:
    """A string in quotes, so that it can be told from a number; anything else as JSON; of either 80 characters."""
    return f"({value[:80]!r})" if isinstance(value, str) else f"({json.dumps(value, default=str)[:80]})"
