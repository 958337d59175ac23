"""The survey: the description of each configured collection by Qdrant, its owner, and its gaps."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace

from operators.clients.qdrant.answers import CollectionInfo
from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant.collections.analysers import OURS
from operators.indexing.inspection import Lack, Owner, Wanted, lack
from schemas.document import NAMESPACE
from schemas.errors import BackendError
from schemas.settings import QdrantSettings


@dataclass(frozen=True, slots=True)
class Surveyed:
    """One collection, by the name that the configuration has for it.

    `physical` is the collection's own name; it differs if the configured name is an alias. `info` and `lack` are None
    where the collection isn't there or could not be read; `error` tells the two apart. Without an `owner` it is another
    program's, or isn't there.
    """

    name: str
    physical: str
    info: CollectionInfo | None = None
    lack: Lack | None = None
    owner: Owner | None = None
    error: BackendError | None = None

    @property
    def foreign(self) -> bool:
        """True if it is another program's: rankstream only reads it."""
        return self.info is not None and self.owner is None


async def survey(qdrant: QdrantClient, settings: QdrantSettings, wanted: Wanted, timeout: float) -> list[Surveyed]:
    """Every configured collection, all asked at once, each within `timeout` seconds."""
    aliases = await _aliases(qdrant, timeout)

    async def one(name: str) -> Surveyed:
        physical = aliases.get(name, name)
        try:
            # That it isn't there is no failure of Qdrant, and is not logged as one.
            if not await qdrant.exists(name, timeout=timeout):
                return Surveyed(name, physical)
            info = await qdrant.collection_info(name, timeout=timeout)
            owner = _owner(settings, name, info)
            if owner is not None and NAMESPACE in info.indexes:
                # Every document has a namespace, and tombstones have none.
                no_documents = {"must": [{"is_empty": {"key": NAMESPACE}}]}
                tombstones = await qdrant.count(name, no_documents, timeout=timeout)
                info = replace(info, points=max(0, info.points - tombstones))
        except BackendError as error:
            return Surveyed(name, physical, error=error)
        return Surveyed(name, physical, info, lack(wanted, info), owner)

    return list(await asyncio.gather(*map(one, settings.physical)))


def _owner(settings: QdrantSettings, name: str, info: CollectionInfo) -> Owner | None:
    if settings.of_another_tool:
        return None
    if OURS in info.metadata:
        return "metadata"
    return "configuration" if name in settings.owned else None


async def _aliases(qdrant: QdrantClient, timeout: float) -> Mapping[str, str]:
    try:
        return await qdrant.aliases(timeout=timeout)
    except BackendError:
        # A key for some collections only may not list them: a name is then taken for a collection's own.
        return {}
