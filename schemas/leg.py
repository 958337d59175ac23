"""The names of the legs, the retrievers of a query."""

from typing import Final

VECTOR: Final = "vector"
KEYWORD: Final = "keyword"
STRUCTURED: Final = "structured"

LEGS: Final = (VECTOR, KEYWORD, STRUCTURED)
"""In the order that breaks ties; other legs follow, by name."""
