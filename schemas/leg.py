"""The names of the legs, the retrievers of a query."""

from typing import Final

VECTOR: Final = "vector"
KEYWORD: Final = "keyword"
STRUCTURED: Final = "structured"
VECTOR_CONTEXT: Final = "vector_context"
KEYWORD_CONTEXT: Final = "keyword_context"

LEGS: Final = (VECTOR, KEYWORD, STRUCTURED)
"""In the order that breaks ties; other legs follow, by name."""

CONTEXT_LEGS: Final = (KEYWORD_CONTEXT, VECTOR_CONTEXT)
"""The legs that read each document together with its neighbours; asked only where a recipe gives them weight."""
