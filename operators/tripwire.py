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
    for name, leg in query.legs.items():
        ranks = [rank for rank, payload in enumerate(leg.payloads) if guard.permits(payload)]
        if len(ranks) < len(leg.ids):
            query.legs[name] = leg.at(ranks)
            query.removed.update(set(leg.ids).difference(query.legs[name].ids))


def fetched(query: InFlight, payloads: Payloads) -> Payloads:
    """The payloads that the query may see: a document may have changed since the legs saw it."""
    guard = query.guard
    if guard is None:
        return payloads
    permitted = {id_: payload for id_, payload in payloads.items() if guard.permits(payload)}
    if len(permitted) < len(payloads):
        query.removed.update(payloads.keys() - permitted.keys())
        for name, leg in query.legs.items():
            query.legs[name] = leg.at([rank for rank, id_ in enumerate(leg.ids) if id_ not in query.removed])
    return permitted
