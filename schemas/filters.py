"""Structured filters, and the paths of fields.

A filter is `{field, op, value}`; `op` decides the type of `value`. Its field may name a list of objects by brackets,
`variants[].size`: any of them. A group `{any_of: [...]}`, `{all_of: [...]}` or
`{none_of: [...]}` may stand for a filter anywhere. operators.access.filters defines what they match.
"""

import math
import re
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache, reduce
from itertools import islice
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    Tag,
    model_serializer,
    model_validator,
)

from schemas.fields import Strict, Timestamp
from schemas.geo import GeoBox, GeoCircle, GeoPolygon

MAX_FILTERS: Final = 64
"""Conditions of a query, those in groups counted one by one."""

MAX_LEVELS: Final = 8
"""Groups and nested filters within each other."""

MAX_VALUES: Final = 1000

FIELD: Final = re.compile(r"[\w-]+(?:\.[\w-]+)*")
"""A field name that Qdrant's path syntax needs no quotes or brackets for."""

_NAME: Final = r'(?:[\w-]+|"[^"\\\x00-\x1f]+")'
KEY: Final = re.compile(rf"{_NAME}(?:\.{_NAME})*")
"""A field, in whose path any name may stand in double quotes."""

INDEXABLE: Final = re.compile(rf"{_NAME}(?:(?:\[\])?\.{_NAME})*")
"""A field, or one of the objects in an array, such as variants[].colour."""

_STEP: Final = re.compile(rf"({_NAME})((?:\[\])?)")

EXACT: Final = 2**53
"""Doubles tell integers apart below it."""

_INT64: Final = 2**63


# Hundreds of payloads are read by the same path.
@lru_cache(1024)
def names_of(path: str) -> tuple[str, ...]:
    """The names on the way to a field, without their quotes."""
    return tuple(name.strip('"') for name in re.findall(_NAME, path))


def value_at(payload: object, path: str) -> Any:
    """The value of a field, through objects and not through arrays; None if it is not there."""
    value = payload
    for name in names_of(path):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


# Each filter of a query, and the check of each record by those of a policy, follows the same few paths.
@lru_cache(1024)
def spellings(path: str) -> tuple[str, ...]:
    """The paths that the field of a filter stands for: as it is written, and with the list of any one dot in brackets.

    So `a.b` is `b` in the object `a`, or in any object of the list `a`.
    """
    dots = [found.end() for found in re.finditer(_NAME, path) if path[found.end() :].startswith(".")]
    return (path, *(f"{path[:dot]}[]{path[dot:]}" for dot in dots))


@lru_cache(1024)
def _steps(path: str) -> tuple[tuple[str, str], ...]:
    return tuple((name.strip('"'), brackets) for name, brackets in _STEP.findall(path))


def find_values(payload: object, path: str) -> list[Any]:
    """The values at a path, with those of each object of the lists that it names; [] if there are none."""
    values = [payload]
    for name, brackets in _steps(path):
        values = [value[name] for value in values if isinstance(value, Mapping) and name in value]
        if brackets:
            values = [each for value in values if isinstance(value, list) for each in value]
    return values


def rename(path: str, names: Mapping[str, str]) -> str:
    """The path with its longest beginning that has another name in `names` by that name."""
    if path in names:
        return names[path]
    way = names_of(path)
    known = [each for each in names if way[: len(names_of(each))] == names_of(each)]
    if not known:
        return path
    longest = max(known, key=lambda each: len(names_of(each)))
    *_, last = islice(re.finditer(_NAME, path), len(names_of(longest)))
    return names[longest] + path[last.end() :]


def _plain_path(path: str, known: re.Pattern[str] = KEY) -> str:
    if not known.fullmatch(path):
        raise ValueError(
            "letters, digits, _ and - are expected, dots between the names of nested objects, and double quotes around"
            " any other name"
        )
    if names_of(path)[0].startswith("_"):
        raise ValueError("names that start with an underscore are the index's own")
    # One field has one spelling.
    return re.sub(_NAME, lambda found: _unquote(found[0]), path)


def _unquote(name: str) -> str:
    plain = name.strip('"')
    return plain if FIELD.fullmatch(plain) and "." not in plain else name


def _filtered_path(path: str) -> str:
    # Each element of a list counts, with brackets behind it and without them.
    return _plain_path(path.removesuffix("[]"), INDEXABLE)


FieldName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=256),
    AfterValidator(_plain_path),
    Field(
        description="A payload field, or a dotted path into nested objects: letters, digits, _ and -; a name with"
        ' others stands in double quotes, such as metadata."page number".'
    ),
]


FilterField = Annotated[
    str,
    StringConstraints(min_length=1, max_length=256),
    AfterValidator(_filtered_path),
    Field(
        description="A payload field, or a dotted path into nested objects, and with brackets into each object of a"
        " list: variants[].size; a name with other characters than letters, digits, _ and - stands in double quotes."
    ),
]


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
DiscreteValues = Annotated[list[Discrete], Field(min_length=1, max_length=MAX_VALUES, fail_fast=True)]
Number = Annotated[float, Field(allow_inf_nan=False)]


def _bound(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("Input should be a valid number")
    if type(value) is int and EXACT <= abs(value) < _INT64:
        # As a double, it may be another one.
        return value
    if not abs(value) <= sys.float_info.max:
        raise ValueError("Input should be a finite number")
    return float(value)


Bound = Annotated[int | float, BeforeValidator(_bound, json_schema_input_type=float)]


class _Bounds(Strict):
    """At least one bound, and at most one of each side."""

    @property
    def given(self) -> dict[str, float]:
        """The given bounds, by name."""
        return {name: bound for name, bound in self if bound is not None}

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

    gt: Bound | None = None
    gte: Bound | None = None
    lt: Bound | None = None
    lte: Bound | None = None


class DateBounds(_Bounds):
    """Bounds on a time, given as RFC 3339 with an offset or as Unix seconds, and held as Unix seconds."""

    gt: Timestamp | None = None
    gte: Timestamp | None = None
    lt: Timestamp | None = None
    lte: Timestamp | None = None


class _OnField(Strict):
    field: FilterField


class Eq(_OnField):
    """The field equals this value."""

    op: Literal["eq"]
    value: Scalar


class AnyOf(_OnField):
    """The field equals one of these values."""

    op: Literal["any_of"]
    value: DiscreteValues


class NoneOf(_OnField):
    """The field equals none of these values, or is missing."""

    op: Literal["none_of"]
    value: DiscreteValues


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

    @classmethod
    def on(cls, field: str) -> Self:
        """The filter of the documents that have the field."""
        return cls(field=field, op="exists", value=True)


class IsEmpty(_OnField):
    """The field is missing, null or [] (true, as if it were left out), or none of them (false)."""

    op: Literal["is_empty"]
    value: bool = True


class IsNull(_OnField):
    """The field is null or has null as an element (true, as if it were left out), or has no null (false)."""

    op: Literal["is_null"]
    value: bool = True


class Prefix(_OnField):
    """The field is a string that begins with this value."""

    op: Literal["prefix"]
    value: Annotated[str, StringConstraints(min_length=1)]


class InCircle(_OnField):
    """The field is a point within this distance of another."""

    op: Literal["geo_radius"]
    value: GeoCircle


class InBox(_OnField):
    """The field is a point between these latitudes and longitudes."""

    op: Literal["geo_box"]
    value: GeoBox


class InPolygon(_OnField):
    """The field is a point within this polygon."""

    op: Literal["geo_polygon"]
    value: GeoPolygon


class Nested(_OnField):
    """One object of the array in the field passes all of these filters, whose fields are the object's."""

    op: Literal["nested"]
    value: "Members"


class Group(Strict):
    """At least one of these filters holds, or all do, or none does: one of the three is given."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    any_of: "Members" = Field(default_factory=list)
    all_of: "Members" = Field(default_factory=list)
    none_of: "Members" = Field(default_factory=list)

    @model_serializer(mode="wrap")
    def _dump_given(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # The empty lists of the other two would be refused.
        return {self.kind: dump(self)[self.kind]}

    @property
    def kind(self) -> str:
        """The name of what is given."""
        return next(iter(self.model_fields_set))

    @property
    def filters(self) -> Sequence["AnyFilter"]:
        return self.any_of or self.all_of or self.none_of

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError("one of any_of, all_of and none_of is expected")
        return self


InArea = InCircle | InBox | InPolygon
FieldFilter = Eq | AnyOf | NoneOf | Range | DateRange | Exists | IsEmpty | IsNull | Prefix | InArea | Nested
AnyFilter = FieldFilter | Group

_GROUP: Final = "group"


def _tag(value: object) -> object:
    """The `op` of a filter; `group` for one of these, None for neither."""
    if isinstance(value, dict):
        return value.get("op", None if Group.model_fields.keys().isdisjoint(value) else _GROUP)
    return getattr(value, "op", _GROUP)


_BY_OP: Final = {get_args(each.model_fields["op"].annotation)[0]: each for each in get_args(FieldFilter)}
*_FIRST, _LAST = _BY_OP

# To a type checker a union that is computed is none.
if TYPE_CHECKING:
    Filter = AnyFilter
else:
    Filter = Annotated[
        reduce(or_, (Annotated[kind, Tag(op)] for op, kind in {**_BY_OP, _GROUP: Group}.items())),
        Discriminator(
            _tag,
            custom_error_type="filter",
            custom_error_message=f"one of {', '.join(_FIRST)} and {_LAST} is expected as op, or a group: any_of,"
            " all_of or none_of with a list of filters",
        ),
    ]


def _check_bounds(filters: list[AnyFilter]) -> list[AnyFilter]:
    # From inside out: the list that is refused is the innermost one with too much in it.
    if (conditions := sum(map(_size, filters))) > MAX_FILTERS:
        raise ValueError(f"{conditions} conditions in groups, expected at most {MAX_FILTERS}")
    if (levels := max(map(_levels, filters), default=0)) > MAX_LEVELS:
        raise ValueError(f"{levels} levels of groups, expected at most {MAX_LEVELS}")
    return filters


def inner(wanted: AnyFilter) -> Sequence[AnyFilter] | None:
    """The filters in a group, or in a nested filter; None for a filter on a field's own value."""
    match wanted:
        case Group(filters=filters) | Nested(value=filters):
            return filters
    return None


def _size(wanted: AnyFilter) -> int:
    filters = inner(wanted)
    return 1 if filters is None else sum(map(_size, filters))


def _levels(wanted: AnyFilter) -> int:
    filters = inner(wanted)
    return 0 if filters is None else 1 + max(map(_levels, filters))


Filters = Annotated[list[Filter], Field(max_length=MAX_FILTERS), AfterValidator(_check_bounds)]
"""Filters, all of which a document must match."""

Members = Annotated[Filters, Field(min_length=1)]


def _spell_ids(filters: list[AnyFilter]) -> list[AnyFilter]:
    """Filters on ids, which are texts, by the digits of whole numbers; objects in arrays have ids of their own."""
    return [_spell_id(each) for each in filters]


def _spell_id(wanted: AnyFilter) -> AnyFilter:
    match wanted:
        case Group(kind=kind, filters=filters):
            return wanted.model_copy(update={kind: list(map(_spell_id, filters))})
        case Eq(field="id", value=int(value)) if not isinstance(value, bool):
            return wanted.model_copy(update={"value": str(value)})
        case AnyOf(field="id", value=values) | NoneOf(field="id", value=values):
            return wanted.model_copy(update={"value": [str(each) if type(each) is int else each for each in values]})
    return wanted


DocumentFilters = Annotated[Filters, AfterValidator(_spell_ids)]
"""The same on documents: whole numbers are ids, too."""

Nested.model_rebuild()
Group.model_rebuild()
