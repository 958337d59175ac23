"""Field uses: the fields that a query names, and the checks of them before a backend is asked. Pure.

A policy may hide a field. A collection of another tool may keep it where no filter reaches it, or have no index of it
that gives an order or tells values apart. Qdrant's strict mode refuses to filter by it without an index.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from enum import Enum
from typing import NamedTuple

from operators.access.filters import on_fields
from operators.access.indexes import Indexed, check_indexes
from operators.query.canonical import Query
from operators.query.facets import within_ranges
from operators.query.field_map import FieldMap
from operators.query.returned import is_hidden
from schemas.document import ACTOR_TYPE, SUBJECT
from schemas.errors import FieldError
from schemas.filters import AnyOf, Exists, FieldFilter


class Purpose(Enum):
    """The purpose for which a query names a field; the value is the problem of a field that has no index for it."""

    FILTER = ""
    ORDER = "nothing to order by"
    GROUP = "nothing to group by: index it as keyword, integer or bool in qdrant.indexes"
    COUNT = "nothing to count by: index it as keyword, integer or bool in qdrant.indexes"


class FieldUse(NamedTuple):
    """A field that a query names at `path` of its event, and the filter on it that Qdrant must be able to answer."""

    path: str
    field: str
    purpose: Purpose = Purpose.FILTER
    filter: FieldFilter | None = None


def uses_of(asked: Query) -> Iterator[FieldUse]:
    """The uses of fields by a query and its plan."""
    event, grouping, order = asked.event, asked.plan.grouping, asked.event.order_by
    for path, each in on_fields(event.filters, "filters"):
        yield FieldUse(path, each.field, filter=each)
    if order is not None and order.geo_distance is None:
        yield FieldUse("order_by.field", order.field, Purpose.ORDER)
    elif order is not None:
        near = asked.centre.within(1.0) if asked.centre is not None else None
        yield FieldUse("order_by.geo_distance.field", order.field, filter=near)
    if grouping is not None:
        # The query's own, its profile's or the default: its values are the keys of the groups.
        yield FieldUse("group_by", grouping.field, Purpose.GROUP, Exists.on(grouping.field))
    for number, facet in enumerate(event.facets or ()):
        counted: FieldFilter = Exists.on(facet.field)
        purpose = Purpose.COUNT
        if facet.ranges is not None:
            purpose, counted = Purpose.FILTER, within_ranges(facet)[0]
        yield FieldUse(f"facets.{number}.field", facet.field, purpose, counted)
    if event.like is not None and event.like.every_id:
        yield FieldUse("like", "id", filter=AnyOf(field="id", op="any_of", value=[*event.like.every_id]))
    if event.subject is not None:
        yield FieldUse(SUBJECT, SUBJECT)
    if event.actor_type is not None:
        yield FieldUse(ACTOR_TYPE, ACTOR_TYPE)


def check_uses(
    uses: Sequence[FieldUse],
    hidden: Collection[str],
    fields: FieldMap,
    able: Mapping[Purpose, Set[str]],
    indexed: Indexed | None,
) -> None:
    """Raise FieldError for the first use that is not allowed or not possible.

    `hidden` are the fields that the source may not see. `able` has the fields with an index for a purpose. `indexed`
    is None where filters need no index.
    """
    for path, field, *_ in uses:
        if is_hidden(field, hidden):
            raise FieldError(path, "the policy of the query's source hides this field", field)
    for path, field, purpose, wanted in uses:
        if wanted is not None and (reason := fields.refusal(wanted)) is not None:
            raise FieldError(path, reason, field)
        if (known := able.get(purpose)) is not None and field not in known:
            no_order = "; no index of the collection gives an order" if purpose is Purpose.ORDER and not known else ""
            raise FieldError(path, f"{purpose.value}{no_order}", field, known)
    if indexed is not None:
        filters = ((use.path, use.filter) for use in uses if use.purpose is Purpose.FILTER)
        check_indexes([(path, wanted) for path, wanted in filters if wanted is not None], indexed)
