"""The finder of a query's words in texts, as `admit` gives it to a query."""

from collections.abc import Callable
from functools import cache, partial

from operators.collections.analysers import CURRENT, Bm25
from operators.text.analysis import analyse
from operators.text.passages import Matcher


def matching(text: str) -> Callable[[], Matcher]:
    """Of an English query."""
    return cache(partial(Matcher, analyse(text, query=True), Bm25(analysis=CURRENT).terms_of))
