"""The survey: the description of each configured collection by Qdrant, its owner, and its gaps."""

import asyncio
from dataclasses import dataclass, replace
from typing import Final

from operators.clients.qdrant.answers import CollectionInfo
from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant.collections.analysers import OURS
from operators.clients.qdrant.collections.generations import Choice, alias_of, find_aliases, resolve
from operators.indexing.inspection import Lack, Owner, Wanted, lack
from schemas.document import NAMESPACE
from schemas.errors import BackendError
from schemas.settings import QdrantSettings

_ANY: Final = Choice()


@dataclass(frozen=True, slots=True)
class Surveyed:
    """One collection, by the name that the configuration has for it.

    `physical` is the collection's own name; it differs if the configured name is an alias. `target` is the collection
    that the alias has, where another is used. `info` and `lack` are None
    where the collection isn't there or could not be read; `error` tells the two apart. Without an `owner` it is another
    program's, or isn't there.
    """

    name: str
    physical: str
    info: CollectionInfo | None = None
    lack: Lack | None = None
    owner: Owner | None = None
    error: BackendError | None = None
    target: str | None = None

    @property
    def foreign(self) -> bool:
        """True if it is another program's: rankstream only reads it."""
        return self.info is not None and self.owner is None


async def survey(
    qdrant: QdrantClient, settings: QdrantSettings, wanted: Wanted, timeout: float, choice: Choice = _ANY
) -> list[Surveyed]:
    """Every configured collection, all asked at once, each within `timeout` seconds."""
    aliases = await find_aliases(qdrant, timeout)

    async def one(name: str) -> Surveyed:
        alias = alias_of(name, aliases)
        physical = aliases[alias] if alias is not None else name
        try:
            # That it isn't there is no failure of Qdrant, and is not logged as one.
            if alias is None and not await qdrant.exists(name, timeout=timeout):
                return Surveyed(name, physical)
            found = await resolve(qdrant, name, aliases, choice, timeout)
            if (info := found.info) is None:
                return Surveyed(name, physical)
            owner = _owner(settings, name, info)
            if owner is not None and NAMESPACE in info.indexes:
                # Every document has a namespace, and tombstones have none.
                no_documents = {"must": [{"is_empty": {"key": NAMESPACE}}]}
                tombstones = await qdrant.count(found.alias or found.physical, no_documents, timeout=timeout)
                info = replace(info, points=max(0, info.points - tombstones))
        except BackendError as error:
            return Surveyed(name, physical, error=error)
        target = physical if found.physical != physical else None
        return Surveyed(name, found.physical, info, lack(wanted, info), owner, target=target)

    return list(await asyncio.gather(*map(one, settings.physical)))


def _owner(settings: QdrantSettings, name: str, info: CollectionInfo) -> Owner | None:
    if settings.of_another_tool:
        return None
    if OURS in info.metadata:
        return "metadata"
    return "configuration" if name in settings.owned else None
