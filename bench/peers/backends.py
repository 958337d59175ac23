"""The backend calls of a hand-written service: for a query two searches with payloads and one rerank call, for a batch
of documents one call of the embedder and one upsert.
"""

import asyncio
import random
import uuid
from collections.abc import Sequence
from typing import Any, Final

import aiohttp
import orjson

from bench.peers.process import Place

CANDIDATES: Final = 50
"""Of each search, and as many are reranked."""

_PAGE: Final = 10
_K: Final = 60
_ATTEMPTS: Final = 4
_FIRST_PAUSE: Final = 0.1
_TIMEOUT: Final = aiohttp.ClientTimeout(total=60)
_JSON: Final = {"content-type": "application/json"}
_RETRIED: Final = frozenset({408, 429, 500, 502, 503, 504})


class BackendFailed(Exception):
    """A backend gave no answer in all attempts."""


class Backends:
    """Qdrant, the reranker and the embedder, over one pool of connections."""

    def __init__(self, place: Place) -> None:
        points = f"{place.qdrant}/collections/{place.collection}/points"
        self._search, self._upsert = f"{points}/query", f"{points}?wait=true"
        self._rerank = f"{place.rerank}/rerank"
        self._embed = f"{place.embed}/embeddings"
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=_TIMEOUT)

    async def answer(self, query_id: str, text: str, vector: list[float]) -> dict[str, Any]:
        """The result event of a query. Raises BackendFailed."""
        common = {"limit": CANDIDATES, "with_payload": True}
        by_words = {"query": {"text": text, "model": "qdrant/bm25"}, "using": "bm25", **common}
        by_vector = {"query": vector, "using": "dense", **common}
        legs = await asyncio.gather(self._send(self._search, by_vector), self._send(self._search, by_words))
        scores: dict[str, float] = {}
        payloads: dict[str, dict[str, Any]] = {}
        for leg in legs:
            for rank, point in enumerate(leg["result"]["points"], 1):
                id_ = point["id"]
                scores[id_] = scores.get(id_, 0.0) + 1 / (_K + rank)
                payloads[id_] = point["payload"]
        fused = sorted(scores, key=lambda id_: -scores[id_])[:CANDIDATES]
        documents = [payloads[id_]["text"] for id_ in fused]
        reranked = await self._send(self._rerank, {"query": text, "documents": documents, "top_n": CANDIDATES})
        results = [
            {
                "id": fused[result["index"]],
                "score": result["relevance_score"],
                "payload": payloads[fused[result["index"]]],
            }
            for result in reranked["results"][:_PAGE]
        ]
        return {"query_id": query_id, "status": "ok", "results": results}

    async def index(self, documents: Sequence[dict[str, Any]]) -> None:
        """Embed and write documents, the newest of an id last. Raises BackendFailed."""
        texts = [f"{each['title']}\n{each['text']}" for each in documents]
        embedded = await self._send(self._embed, {"model": "stub", "input": texts})
        points = [
            {
                "id": str(uuid.uuid5(uuid.NAMESPACE_OID, document["id"])),
                "vector": {"dense": entry["embedding"], "bm25": {"text": text, "model": "qdrant/bm25"}},
                "payload": document,
            }
            for document, text, entry in zip(documents, texts, embedded["data"], strict=True)
        ]
        await self._send(self._upsert, {"points": points}, "PUT")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def _send(self, url: str, body: dict[str, Any], method: str = "POST") -> Any:
        data = orjson.dumps(body)
        pause = _FIRST_PAUSE
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                async with self._session.request(method, url, data=data, headers=_JSON) as response:
                    if response.status not in _RETRIED:
                        response.raise_for_status()
                        return orjson.loads(await response.read())
                    failure: Exception = BackendFailed(f"status {response.status}")
            except aiohttp.ClientResponseError as error:
                raise BackendFailed(str(error)) from error
            except (aiohttp.ClientError, TimeoutError, orjson.JSONDecodeError) as error:
                failure = error
            if attempt < _ATTEMPTS:
                await asyncio.sleep(pause * random.random())
                pause *= 2
        raise BackendFailed(f"{url}: {failure}")
