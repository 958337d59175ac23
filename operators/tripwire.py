"""Tripwire: records that the index's filter let through and the query may not see are out, before anybody reads them.

It finds nothing as long as the filter does what it says, and counts what it finds.
"""

from collections.abc import Mapping
from typing import Any

from operators.inflight import InFlight

Payloads = Mapping[str, Mapping[str, Any]]


def found(query: InFlight) -> None:
    """Take what the query may not see out of what the legs found, as if it weren't there."""
    guard = query.guard
    if guard is None:
        return
    legs = query.legs.values()
    hits = ((id_, payload) for leg in legs for id_, payload in zip(leg.ids, leg.payloads, strict=True))
    _remove(query, {id_ for id_, payload in hits if not guard.permits(payload)})


def fetched(query: InFlight, payloads: Payloads) -> Payloads:
    """The payloads that the query may see: a document may have changed since the legs saw it."""
    guard = query.guard
    if guard is None:
        return payloads
    _remove(query, {id_ for id_, payload in payloads.items() if not guard.permits(payload)})
    return {id_: payload for id_, payload in payloads.items() if id_ not in query.removed}


def _remove(query: InFlight, forbidden: set[str]) -> None:
    if not forbidden:
        return
    query.removed |= forbidden
    for name, leg in query.legs.items():
        query.legs[name] = leg.at([rank for rank, id_ in enumerate(leg.ids) if id_ not in forbidden])
