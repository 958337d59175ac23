"""Section `qdrant.context`: how the indexing flow indexes each document together with its neighbours."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from schemas.filters import FIELD
from schemas.settings.section import Section

Neighbours = Annotated[int, Field(ge=0, le=16)]


class ContextSettings(Section):
    """Which documents are neighbours. They are part of the index: after a change, index again."""

    order_by: str | None = Field(
        default=None,
        description="Payload field by which the documents of a group are ordered, a number or a time, such as turn or"
        " created_at. Default: null, no document is indexed with its neighbours. Set it where a document is hard to"
        " understand without those around it, such as the messages of a conversation.",
    )
    group_by: str | None = Field(
        default=None,
        description="Payload field whose value the documents of a group have in common, such as conversation or"
        " session; only documents of one group are neighbours. Default: null, all documents of a namespace and"
        " destination are one group.",
    )
    before: Neighbours = Field(
        default=2,
        description="Neighbours before a document that are indexed with it. Default: 2. More let a search find a"
        " document by what was said earlier, and make each context less specific.",
    )
    after: Neighbours = Field(
        default=2, description="Neighbours after a document that are indexed with it. Default: 2."
    )

    @property
    def on(self) -> bool:
        """Whether documents are indexed with their neighbours."""
        return self.order_by is not None

    @model_validator(mode="after")
    def _named(self) -> Self:
        for key, name in (("order_by", self.order_by), ("group_by", self.group_by)):
            if name is not None and (not FIELD.fullmatch(name) or name.startswith("_")):
                raise ValueError(f"{key}: {name}: no name of a field")
        if self.order_by is None and self.group_by is not None:
            raise ValueError("group_by: order_by says nothing of the order within a group")
        return self
