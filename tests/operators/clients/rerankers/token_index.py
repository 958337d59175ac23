"""An index with token vectors over the engine, whose requests can be watched and held, and the definitions in numpy."""

import asyncio
import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx
import numpy as np
from numpy.typing import NDArray

from operators.clients.qdrant_edge.shards import Engine
from operators.clients.rerankers import RerankRequest
from operators.clients.rerankers.token_vectors import DECIMALS
from operators.collections.making import configuration
from operators.collections.requirements import indexes
from operators.query.backend_answers import Embedding
from schemas.document import NAMESPACE, TOKEN_IDS
from schemas.settings import QdrantSettings
from schemas.settings.qdrant import Vectors
from tests.operators.clients.qdrant.transports import Watched, qdrant
from tests.qdrant_server.transport import ServerTransport

DIMENSION = 384
Datatype = Literal["turbo4", "float16"]
RANDOM = np.random.default_rng(7)


def unit_rows(count: int, dimension: int = DIMENSION) -> NDArray[np.float32]:
    """Random token vectors of unit length."""
    rows: NDArray[np.float32] = RANDOM.normal(size=(count, dimension)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


@dataclass(frozen=True)
class Document:
    """A point as the indexer would write it: `tokens` and `token_ids` None where there are none."""

    id: str
    tokens: NDArray[np.float32] | None
    token_ids: tuple[int, ...] | None = None
    namespace: str = "public"

    @property
    def point(self) -> dict[str, Any]:
        """The point."""
        payload: dict[str, Any] = {NAMESPACE: self.namespace}
        if self.token_ids is not None:
            payload[TOKEN_IDS] = sorted(set(self.token_ids))
        vector = {} if self.tokens is None else {"tokens": np.round(self.tokens, DECIMALS)}
        return {"id": self.id, "vector": vector, "payload": payload}


def identity(number: int) -> str:
    """The id of a point."""
    return str(uuid.UUID(int=number))


class Held(Watched):
    """Passes requests on and keeps them; those whose path ends with `path` are held until `release` is set."""

    path = "nothing"
    failing = "nothing"
    release: asyncio.Event

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Keep the request, fail or hold it if it is to be, and pass it on."""
        self.requests.append(request)
        if request.url.path.endswith(self.failing):
            return httpx.Response(503)
        if request.url.path.endswith(self.path):
            await self.release.wait()
        return await self.inner.handle_async_request(request)

    def hold(self, path: str) -> None:
        """From now on hold requests whose path ends so."""
        self.path = path
        self.release = asyncio.Event()

    def fail(self, path: str) -> None:
        """From now on requests whose path ends so are answered by 503."""
        self.failing = path


class Index:
    """Collections on an engine, as the indexer would create them."""

    def __init__(self, engine: Engine) -> None:
        self.transport = Held(ServerTransport(engine))
        self.client = qdrant(self.transport)

    async def create(self, collection: str = "docs", *, indexed: bool = True, datatype: Datatype = "float16") -> None:
        """Create a collection; not `indexed`: without the index on pieces. In 16 bits scores are the definition's."""
        settings = QdrantSettings(path=Path("unused"), dimension=DIMENSION, vectors=Vectors(tokens_datatype=datatype))
        await self.client.create_collection(collection, configuration(settings), timeout=30)
        for field, schema in indexes().items():
            if indexed or field != TOKEN_IDS:
                await self.client.create_index(collection, field, schema, timeout=30)

    async def write(self, documents: Iterable[Document], collection: str = "docs") -> None:
        """Write documents."""
        await self.client.upsert(collection, [each.point for each in documents], timeout=30)

    def asked(self, path: str) -> int:
        """The number of requests whose path ends so; they are forgotten."""
        count = sum(request.url.path.endswith(path) for request in self.transport.requests)
        self.transport.requests.clear()
        return count


def request(
    tokens: NDArray[np.float32] | None,
    documents: Sequence[str] | Mapping[str, str],
    token_ids: tuple[int, ...] = (),
    namespace: str = "public",
    collection: str = "docs",
) -> RerankRequest:
    """A query about documents; by their ids alone, the texts are those that nobody reads."""
    texts = documents if isinstance(documents, Mapping) else dict.fromkeys(documents, "text")
    embedding = Embedding(np.zeros(DIMENSION, np.float32), tokens, token_ids)
    return RerankRequest("words", texts, collection, namespace, embedding)


def idf(documents: Iterable[Iterable[int] | None], token_ids: Iterable[int]) -> list[float]:
    """The definition: BM25's IDF of each piece, over the documents of one namespace that have any."""
    having = [set(each) for each in documents if each]
    frequencies = (sum(piece in each for each in having) for piece in token_ids)
    return [math.log(1 + (len(having) - df + 0.5) / (df + 0.5)) for df in frequencies]


def max_sim(query: NDArray[np.float32], weights: Sequence[float], document: NDArray[np.float32]) -> float:
    """The definition: the mean of the query's tokens' best dot products, each with its weight."""
    return float(np.average((query @ document.T).max(axis=1), weights=weights))
