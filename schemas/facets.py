"""Facets: the values of a field among all that a query matches, each with its number of documents."""

from typing import Annotated, Final, Literal, Self

from pydantic import Discriminator, Field, StringConstraints, Tag, model_validator

from schemas.fields import Documented, Strict
from schemas.filters import Bounds, DateBounds, FilterField

MAX_FACETS: Final = 16
MAX_FACET_VALUES: Final = 200
MAX_FACET_RANGES: Final = 32


def _tag(bounds: object) -> str:
    given = bounds.values() if isinstance(bounds, dict) else ()
    return "times" if isinstance(bounds, DateBounds) or any(isinstance(each, str) for each in given) else "numbers"


_Range = Annotated[Annotated[Bounds, Tag("numbers")] | Annotated[DateBounds, Tag("times")], Discriminator(_tag)]


class Facet(Strict):
    """One facet: the values of an indexed field, or its numbers or times by ranges."""

    field: FilterField
    limit: Annotated[int, Field(ge=1, le=MAX_FACET_VALUES)] = 10
    """Values at most."""
    order: Literal["count", "value"] = "count"
    """count: the commonest values first; value: numbers, then strings, in ascending order."""
    prefix: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    """Only strings that begin so, in small letters or capitals."""
    ranges: Annotated[list[_Range], Field(min_length=1, max_length=MAX_FACET_RANGES)] | None = None
    """Ranges in place of values: of numbers, or of times where the bounds are RFC 3339. They may overlap."""
    exclude_own: bool = True
    """Leave out the query's filters on this field alone, so that the values beside the chosen one have counts, too."""

    @model_validator(mode="after")
    def _values_or_ranges(self) -> Self:
        if self.ranges is not None and self.prefix is not None:
            raise ValueError("prefix and ranges: a range has no beginning")
        return self


Facets = Annotated[list[Facet], Field(max_length=MAX_FACETS)]


class FacetValue(Documented):
    """A value, and the number of documents that have it."""

    value: str | bool | int
    count: Annotated[int, Field(ge=1)]


class FacetRange(Documented):
    """A range, and the number of documents within it."""

    bounds: dict[str, float | str] = Field(description="As asked for; times as RFC 3339 in UTC.")
    count: Annotated[int, Field(ge=0)]


class FacetCounts(Documented):
    """The counts of one facet."""

    field: str
    values: list[FacetValue] | None = Field(default=None, description="Missing where ranges were asked for.")
    ranges: list[FacetRange] | None = None
    """In the order in which they were asked for; missing without ranges."""
    more: bool = Field(description="There are further values.")
    exact: bool
    """false: the counts are of the best documents by keywords alone, or the server's estimate."""
