"""Wishes: the conditions and the order that a query says in words, as results report them and queries may send them.

Promises
--------
- A result's wishes may be sent back as they are, or changed.
- A wish's `words` are taken away from the text that is searched, wherever it comes from.
"""

from typing import Annotated, Final, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from schemas.fields import Strict
from schemas.filters import FieldName

MAX_WISHES: Final = 16
MAX_ABOUT: Final = 8

_Words = Annotated[str, StringConstraints(max_length=512)]
_Name = Annotated[str, StringConstraints(min_length=1, max_length=64)]
_Number = Annotated[float, Field(allow_inf_nan=False)]

_WORDS: Final = "Words of the text that say it; they are taken away from what is searched. Empty: none are."
_FIELD: Final = (
    "Payload field by which candidates are judged. In a query: the field that is read first; missing or null: the"
    " candidates decide. In a result: the field that was read; null: their texts decided, or nothing."
)


class Limit(Strict):
    """A limit on a number, a date or a size: bounds, or one `value`."""

    kind: Literal["limit"] = "limit"
    words: _Words = Field(default="", description=_WORDS)
    gt: _Number | None = Field(default=None, description="More than this.")
    gte: _Number | None = Field(default=None, description="This or more.")
    lt: _Number | None = Field(default=None, description="Less than this.")
    lte: _Number | None = Field(default=None, description="This or less.")
    value: _Name | None = Field(default=None, description="Exactly this, such as the size 42 or XL.")
    unit: _Name | None = Field(default=None, description="Unit of the bounds, such as EUR, GB, cm or year.")
    about: Annotated[list[_Name], Field(max_length=MAX_ABOUT)] = Field(default=[])
    """Subject of the limit, such as price, width or players."""
    field: FieldName | None = Field(default=None, description=_FIELD)

    @model_validator(mode="after")
    def _bounds_something(self) -> Self:
        if self.value is None and all(each is None for each in (self.gt, self.gte, self.lt, self.lte)):
            raise ValueError("gt, gte, lt, lte or value must be given")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"the lower bound {self.low:g} is above the upper bound {self.high:g}")
        return self

    @property
    def low(self) -> float | None:
        """The lower bound."""
        return self.gt if self.gte is None else self.gte

    @property
    def high(self) -> float | None:
        """The upper bound."""
        return self.lt if self.lte is None else self.lte

    def holds(self, number: float) -> bool:
        """True if the number is within the bounds."""
        above = (self.gt is None or number > self.gt) and (self.gte is None or number >= self.gte)
        return above and (self.lt is None or number < self.lt) and (self.lte is None or number <= self.lte)


class Exclusion(Strict):
    """Something that is not wanted."""

    kind: Literal["exclusion"] = "exclusion"
    words: _Words = Field(default="", description=_WORDS)
    without: Annotated[str, StringConstraints(min_length=1, max_length=256)] = Field(
        description="What is not wanted: documents that name all of these words fail."
    )


class Order(Strict):
    """An order by a field: the cheapest, the newest."""

    kind: Literal["order"] = "order"
    words: _Words = Field(default="", description=_WORDS)
    about: Annotated[list[_Name], Field(min_length=1, max_length=MAX_ABOUT)]
    """Subject of the order, such as price, date or weight."""
    direction: Literal["asc", "desc"] = "asc"
    field: FieldName | None = Field(default=None, description=_FIELD)


Wish = Annotated[Limit | Exclusion | Order, Field(discriminator="kind")]

Understood = Annotated[list[Wish], Field(max_length=MAX_WISHES)]
