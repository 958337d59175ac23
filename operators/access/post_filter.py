"""The post-filter check: records that the index's filter returned and that the query may not see.

It finds nothing as long as the filter does what it promises; what it finds is removed from the answer and counted.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from operators.access.firewall import AccessFilter

Record = tuple[str, Mapping[str, Any]]
"""A record's id and the payload fields that the access filter reads."""


def forbidden(access_filter: AccessFilter | None, records: Iterable[Record]) -> set[str]:
    """The ids of the records that the query may not see; none where the firewall is off."""
    if access_filter is None:
        return set()
    return {id_ for id_, payload in records if not access_filter.permits(payload)}
