"""A Qdrant server on loopback: what is put there, and what of it rankstream surveys and ensures."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from operators.clients.http.transport import Endpoint, http_transport
from operators.clients.qdrant.answers import QDRANT, CollectionInfo
from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant.server import ServerClient
from operators.collections.making import Ensured, ensure
from operators.collections.requirements import Surveyed, index_needs, vectors
from operators.collections.survey import survey
from schemas.settings import QdrantSettings

T = TypeVar("T")

TIMEOUT = 30.0
PLAIN = {"vectors": {"dense": {"size": 4, "distance": "Cosine"}}, "sparse_vectors": {"bm25": {"modifier": "idf"}}}
"""A collection as another program may make it."""


@dataclass(frozen=True)
class Server:
    """The server at `url`, asked with `key`."""

    url: str
    key: str | None = None

    def settings(self, **changes: Any) -> QdrantSettings:
        """Two collections on this server, `docs` and `plain`."""
        given = {"destinations": {"default": "docs", "other": "plain"}, "dimension": 4, **changes}
        return QdrantSettings.model_validate({"url": self.url, **given})

    def put(self, path: str, body: object, method: str = "PUT") -> None:
        """Ask for a change, as another program would."""
        httpx.request(method, f"{self.url}/collections/{path}", json=body, headers=self._headers).raise_for_status()

    def index(self, collection: str, field: str, **schema: Any) -> None:
        """Index a field, as another program would."""
        self.put(f"{collection}/index", {"field_name": field, "field_schema": schema})

    def names(self) -> set[str]:
        """The collections that there are."""
        listed = httpx.get(f"{self.url}/collections", headers=self._headers).json()
        return {each["name"] for each in listed["result"]["collections"]}

    def info(self, collection: str) -> CollectionInfo:
        """The description of a collection."""
        return self._asked(lambda client: client.collection_info(collection, timeout=TIMEOUT))

    def config(self, collection: str) -> dict[str, Any]:
        """The settings of a created collection, as Qdrant says them."""
        described = httpx.get(f"{self.url}/collections/{collection}", headers=self._headers).json()
        config: dict[str, Any] = described["result"]["config"]
        return config

    def ensure(self, *, writes: bool = True, **changes: Any) -> Ensured:
        """The outcome of ensuring the two collections."""
        settings = self.settings(**changes)
        return self._asked(lambda client: ensure(client, settings, TIMEOUT, writes=writes))

    def survey(self, **changes: Any) -> dict[str, Surveyed]:
        """The outcome of inspecting the two collections, by their names."""
        settings = self.settings(**changes)
        needs = [*vectors(settings), *index_needs(settings)]
        surveyed = self._asked(lambda client: survey(client, settings, lambda _: needs, TIMEOUT))
        return {each.name: each for each in surveyed}

    @property
    def _headers(self) -> dict[str, str]:
        return {"api-key": self.key} if self.key else {}

    def _asked(self, work: Callable[[QdrantClient], Awaitable[T]]) -> T:
        async def scenario() -> T:
            endpoint = Endpoint("qdrant", self.url, http_transport(), self._headers, dialect=QDRANT)
            try:
                return await work(ServerClient(endpoint))
            finally:
                await endpoint.aclose()

        return asyncio.run(scenario())
