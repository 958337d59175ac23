"""The post-filter check: finds records that Qdrant returned although the query may not see them.

It finds none as long as Qdrant applies the filter; the stages remove what it finds from the answer and count it.
"""

from collections.abc import Collection, Iterable, Mapping
from operator import itemgetter
from typing import Any, Final

from operators.access.firewall import AccessFilter
from schemas.document import NAMESPACE

Payload = Mapping[str, Any]
"""The payload fields of a record that the access filter reads."""

_NAMESPACE_OF: Final = itemgetter(NAMESPACE)


def forbidden(access_filter: AccessFilter | None, ids: Iterable[str], payloads: Collection[Payload]) -> set[str]:
    """The ids of the records that the query may not see; without an access filter, it may see none.

    `payloads` has one for each of `ids`.
    """
    if access_filter is None:
        return set(ids)
    if access_filter.tiers is None and _all_of(access_filter.namespace, payloads):
        return set()
    permits = access_filter.permits
    return {id_ for id_, payload in zip(ids, payloads, strict=True) if not permits(payload)}


def _all_of(namespace: str, payloads: Iterable[Payload]) -> bool:
    # Nearly always so, and asked for some 200 hits of every query: in C, it costs less than 1 % of what a query does.
    try:
        return {*map(_NAMESPACE_OF, payloads)} <= {namespace}
    except (KeyError, TypeError):
        # One has no namespace, or has a list in its place.
        return False
