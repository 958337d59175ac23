"""Answers: a result event, and what the cursors of its page are made of. Other queries may be given the same answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from operators.query.cursor import After
from schemas.result import RetrievalStage


@dataclass(frozen=True, slots=True)
class Page:
    """What the cursors of a page are made of.

    `now` is the query's clock in Unix seconds. Of an ordered lookup, `ends` has for each result the position of a page
    that ends with it, and `end` the position of the whole page's end.
    """

    now: float
    ends: Sequence[After] = ()
    end: After | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A result event, but for what is one query's own."""

    event: Mapping[str, Any]
    page: Page


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """An answer that was computed for another query, and the cache that had it; `asked` is the text of that query."""

    stage: RetrievalStage
    answer: Answer
    asked: str | None

    @property
    def served(self) -> Answer:
        """The answer as it is served now."""
        event = {**self.answer.event, "retrieval_stage": self.stage}
        if self.stage is RetrievalStage.SEMANTIC_CACHE:
            event["provenance"] = {**event["provenance"], "asked": self.asked}
        return replace(self.answer, event=event)
