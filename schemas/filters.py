"""Structured filters of a query, and the order of a lookup.

A filter is `{field, op, value}`; `op` decides the type of `value`. operators.query.filters defines what it matches.
"""

import math
import re
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from schemas.fields import Strict, Timestamp

MAX_FILTERS: Final = 64
MAX_VALUES: Final = 1000

FIELD: Final = re.compile(r"[\w-]+(?:\.[\w-]+)*")
_INT64: Final = 2**63


def _plain_path(name: str) -> str:
    if not FIELD.fullmatch(name):
        raise ValueError("letters, digits, _ and - are expected, and dots between the names of nested objects")
    if name.startswith("_"):
        raise ValueError("names that start with an underscore are the index's own")
    return name


FieldName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=256),
    AfterValidator(_plain_path),
    Field(description="A payload field, or a dotted path into nested objects: letters, digits, _ and -."),
]
"""A field name that Qdrant's path syntax needs no quotes or brackets for."""


def _discrete(value: object) -> object:
    if isinstance(value, str | bool) or (isinstance(value, int) and -_INT64 <= value < _INT64):
        return value
    raise ValueError("a string, a boolean or an integer of 64 bits is expected")


def _scalar(value: object) -> object:
    if isinstance(value, float) and math.isfinite(value):
        return value
    try:
        return _discrete(value)
    except ValueError:
        raise ValueError("a string, a boolean, an integer of 64 bits or a finite number is expected") from None


# A plain union would report one message per member for a single problem.
Discrete = Annotated[str | bool | int, BeforeValidator(_discrete)]
Scalar = Annotated[str | bool | int | float, BeforeValidator(_scalar)]
Values = Annotated[list[Discrete], Field(min_length=1, max_length=MAX_VALUES, fail_fast=True)]
Number = Annotated[float, Field(allow_inf_nan=False)]


class _Bounds(Strict):
    """At least one bound, and at most one of each side."""

    names: ClassVar = ("gt", "gte", "lt", "lte")

    @property
    def given(self) -> dict[str, float]:
        """The given bounds, by name."""
        return {name: bound for name in self.names if (bound := getattr(self, name)) is not None}

    @model_validator(mode="after")
    def _one_of_each_side(self) -> Self:
        if not self.given:
            raise ValueError("one of gt, gte, lt and lte must be given")
        for exclusive, inclusive in (("gt", "gte"), ("lt", "lte")):
            if {exclusive, inclusive} <= self.given.keys():
                raise ValueError(f"{exclusive} and {inclusive} are both given")
        return self


class Bounds(_Bounds):
    """Bounds on a number."""

    gt: Number | None = None
    gte: Number | None = None
    lt: Number | None = None
    lte: Number | None = None


class DateBounds(_Bounds):
    """Bounds on a time, given as RFC 3339 with an offset or as Unix seconds, and held as Unix seconds."""

    gt: Timestamp | None = None
    gte: Timestamp | None = None
    lt: Timestamp | None = None
    lte: Timestamp | None = None


class _OnField(Strict):
    field: FieldName


class Eq(_OnField):
    """The field equals this value."""

    op: Literal["eq"]
    value: Scalar


class AnyOf(_OnField):
    """The field equals one of these values."""

    op: Literal["any_of"]
    value: Values


class NoneOf(_OnField):
    """The field equals none of these values, or is missing."""

    op: Literal["none_of"]
    value: Values


class Range(_OnField):
    """The field is a number within these bounds."""

    op: Literal["range"]
    value: Bounds


class DateRange(_OnField):
    """The field is a time within these bounds."""

    op: Literal["date_range"]
    value: DateBounds


class Exists(_OnField):
    """The field is present (true), or missing (false)."""

    op: Literal["exists"]
    value: bool


class Prefix(_OnField):
    """The field is a string that begins with this value."""

    op: Literal["prefix"]
    value: Annotated[str, StringConstraints(min_length=1)]


AnyFilter = Eq | AnyOf | NoneOf | Range | DateRange | Exists | Prefix
Filter = Annotated[AnyFilter, Field(discriminator="op")]
Filters = Annotated[list[Filter], Field(max_length=MAX_FILTERS)]
"""Filters, all of which a document must match."""


class OrderBy(Strict):
    """The order of a lookup: by one indexed field."""

    field: FieldName
    direction: Literal["asc", "desc"] = "asc"
