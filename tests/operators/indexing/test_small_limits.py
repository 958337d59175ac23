"""Indexing where strict mode allows a few records a request: the same contexts, counts and deletions."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from operators.clients.http.transport import Endpoint, http_transport
from operators.clients.qdrant.server import ServerClient
from operators.collections import reindexing
from operators.collections.catalogue import Catalogue
from operators.collections.making import ensure
from operators.indexing.apply import Writer
from operators.indexing.context import ContextWriter
from schemas.settings import QdrantSettings
from tests import qdrant_server
from tests.operators.indexing.documents import in_flight
from tests.operators.indexing.neighbours import Event, contexts
from tests.operators.samples import DIMENSION

pytestmark = pytest.mark.slow

TIMEOUT: Final = 30.0
EVENTS: Final = [
    {
        "id": f"d{number}",
        "namespace": f"n{number % 5}",
        "session": 1,
        # Many of one place.
        "turn": number // 7,
        "text": "harbour lantern",
        "labels": ["a"] if number % 2 else ["b"],
        "updated_at": 1.0,
        "vector": [1.0, 2.0, 3.0],
    }
    for number in range(60)
]
FORGET: Final[Event] = {
    "op": "delete_where",
    "namespace": "n1",
    "updated_at": 2.0,
    "filters": [{"field": "labels", "op": "any_of", "value": ["a"]}],
}


async def _indexed(url: str, strict: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
    """The contexts of the documents in the index, and their number by namespace, as reindexing counts them."""
    given = {"url": url, "dimension": DIMENSION, "context": {"order_by": "turn", "group_by": "session"}}
    settings = QdrantSettings.model_validate(given)
    client = ServerClient(Endpoint("qdrant", url, http_transport()))
    try:
        await ensure(client, settings, TIMEOUT)
        place = f"{url}/collections/documents"
        async with httpx.AsyncClient(timeout=TIMEOUT) as http:
            (await http.patch(place, json={"strict_mode_config": {"enabled": True, **strict}})).raise_for_status()
        catalogue = Catalogue(client, settings)
        assert not await catalogue.refresh(TIMEOUT)
        contexts_of = ContextWriter(client, settings.vectors, settings.context, catalogue, TIMEOUT)
        writer = Writer(client, settings.vectors, settings.context, catalogue, TIMEOUT, contexts_of)

        async def write(events: Sequence[Event]) -> None:
            made = in_flight(events)
            for stage in (writer, contexts_of):
                assert await stage.call("documents", made, TIMEOUT) == [None] * len(made)

        await write(EVENTS)
        await write([FORGET])
        counts = await reindexing.count_documents(client, "documents", time.time(), TIMEOUT)
        async with httpx.AsyncClient(timeout=TIMEOUT) as http:
            (await http.patch(place, json={"strict_mode_config": {"enabled": False}})).raise_for_status()
            everything = {"limit": 1_000, "with_payload": True, "with_vector": True}
            points = (await http.post(f"{place}/points/scroll", json=everything)).json()["result"]["points"]
        documents = [point for point in points if "namespace" in point["payload"]]
        return {id_: neighbours for id_, (neighbours, _, _) in contexts(documents).items()}, counts
    finally:
        await client.aclose()


@pytest.mark.parametrize(
    "strict",
    [{"max_query_limit": 3}, {"max_query_limit": 4, "condition_max_size": 2}, {"search_allow_exact": False}],
    ids=str,
)
def test_a_small_limit_changes_nothing_in_the_index(tmp_path: Path, strict: dict[str, Any]) -> None:
    """Documents, their contexts, a deletion by a filter, and the counts of a reindexing are as without limits."""
    with qdrant_server.running(tmp_path / "free") as free, qdrant_server.running(tmp_path / "strict") as bound:
        limited, unlimited = asyncio.run(_indexed(bound, strict)), asyncio.run(_indexed(free, {}))
    assert limited == unlimited
    assert unlimited[1] == {"n0": 12, "n1": 6, "n2": 12, "n3": 12, "n4": 12}
