"""Expiry: documents that have expired are deleted some time later, with their words in their neighbours' contexts.

Queries see no expired document from its moment on: the deletion makes room, and takes nothing from an answer. So no
watermark moves. Any number of indexers may delete at the same time.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import structlog

from operators.clients.qdrant.client import QdrantClient
from operators.collections.catalogue import Catalogue
from operators.indexing.tombstones import Contexts, Deletion
from schemas.document import EXPIRES
from schemas.errors import BackendError

log = structlog.stdlib.get_logger(__name__)

EVERY: Final = 60.0
"""Seconds from one look for expired documents to the next."""


@dataclass(frozen=True)
class Expiry:
    """Deletes the expired documents of these collections, by their names in the configuration."""

    qdrant: QdrantClient
    catalogue: Catalogue
    collections: tuple[str, ...]
    context: Contexts | None
    timeout: float
    clock: Callable[[], float] = time.time

    async def follow(self) -> None:
        """Delete again and again, until cancelled; a collection that fails is tried again the next time.

        A defect is raised after all collections have had their turn.
        """
        while True:
            defect: Exception | None = None
            for collection in self.collections:
                try:
                    if deleted := await self.delete(collection):
                        log.info("expired documents deleted", collection=collection, documents=deleted)
                except BackendError as error:
                    log.warning("expired documents not deleted", collection=collection, reason=str(error))
                except Exception as error:  # noqa: BLE001  the other collections' documents expire, too
                    defect = error
            if defect is not None:
                raise defect
            await asyncio.sleep(EVERY)

    async def delete(self, collection: str) -> int:
        """Delete the documents of a collection that have expired, and return their number. Raises BackendError."""
        capabilities = self.catalogue.of(collection)
        if not capabilities.expires:
            return 0
        expired: dict[str, Any] = {"key": EXPIRES, "range": {"lte": round(self.clock() * 1000)}}
        deletion = Deletion(self.qdrant, self.context, self.timeout)
        return await deletion.delete(capabilities.name, collection, expired)
