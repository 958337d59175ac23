"""Ordered lookups: a page's records by an indexed field, those of one value by id, from wherever a page begins.

Qdrant's ordered scroll can begin at a value only, and the order that it gives to records of one value changes with the
number that is asked for. So they are put in order by id; and if the scroll may have cut them off, those of the last
value are asked for again, in a scroll by id.
"""

import time
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from operators.clients.qdrant.answers import Record
from operators.clients.qdrant.client import QdrantClient
from operators.query import paging
from operators.query.hits import Hits
from operators.query.in_flight import Found
from operators.query.search_bodies import Search
from schemas.errors import BackendError


async def looked_up(qdrant: QdrantClient, collection: str, search: Search, timeout: float) -> Found | BackendError:
    """The records of one lookup, within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    assert search.body is not None
    body, limit = search.body, search.body["limit"]
    try:
        found = await _scroll(qdrant, collection, body, timeout)
        records = [record for _, tied in groupby(found, _value) for record in sorted(tied, key=_by_id)]
        start = paging.cut([_value(record) for record in records], limit) if search.equal is not None else None
        if start is not None and search.equal is not None:
            value = _value(records[start])
            must = [*body["filter"]["must"], search.equal(value)]
            again = {**body, "filter": {**body["filter"], "must": must}, "limit": limit - start, "order_by": None}
            tied = await _scroll(qdrant, collection, again, deadline - time.monotonic())
            records[start:] = [Record(each.id, each.payload, value) for each in tied]
    except BackendError as error:
        return error
    hits = Hits([each.id for each in records], [0.0] * len(records), [each.payload for each in records])
    return Found(hits, [_value(each) for each in records])


async def _scroll(qdrant: QdrantClient, collection: str, body: Mapping[str, Any], timeout: float) -> list[Record]:
    page = await qdrant.scroll(
        collection,
        body["filter"],
        limit=body["limit"],
        fields=body["with_payload"],
        order_by=body["order_by"],
        timeout=timeout,
    )
    return page.records


def _value(record: Record) -> paging.OrderValue:
    return record.order_value


def _by_id(record: Record) -> tuple[bool, int, str]:
    return paging.by_id(record.id)
