"""The legs that a query can be asked of, by their names."""

from typing import Final

VECTOR: Final = "vector"
KEYWORD: Final = "keyword"
STRUCTURED: Final = "structured"

LEGS: Final = (VECTOR, KEYWORD, STRUCTURED)
"""In the order in which ties are broken; others follow by name."""
