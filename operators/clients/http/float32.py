"""Numbers as Qdrant and models hold them: finite, and of 32 bits."""

import math
from collections.abc import Collection

from schemas.fields import MAX_FLOAT32


def fit(numbers: Collection[float]) -> bool:
    """Whether all of them, each an int or a float, are finite numbers of 32 bits."""
    return not numbers or (not any(map(math.isnan, numbers)) and max(max(numbers), -min(numbers)) <= MAX_FLOAT32)
