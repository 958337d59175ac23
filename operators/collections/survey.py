"""The survey: the collections that names of the configuration stand for, with their descriptions, owners and gaps.

A name has had several generations of its index, one after the other.

- The name stands for the collection that the alias of this name has. Where a collection has the name itself, Qdrant
  allows no such alias: the alias has SUFFIX behind it.
- A collection notes the settings that it was made with. A flow with other settings does not follow an alias to it: it
  stays with the collection that it has used, or, at its start, goes to the nearest earlier one that was made with its
  settings. Where there is none, it takes the collection as it is.
- Offsets belong to a generation: its indexing flow commits in the consumer group that the collection notes, and never
  follows an alias to a collection of another group while it runs.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from operators.clients.qdrant.answers import CollectionInfo
from operators.clients.qdrant.client import QdrantClient
from operators.collections.gaps import find_gaps
from operators.collections.notes import OURS, generation_of, settings_of
from operators.collections.requirements import Owner, Requirement, Surveyed
from schemas.document import NAMESPACE
from schemas.errors import BackendError, Reason
from schemas.settings import QdrantSettings

SUFFIX: Final = ".rankstream"
"""End of the alias of a name that a collection has itself."""


def alias_of(name: str, aliases: Mapping[str, str]) -> str | None:
    """The alias by which a name of the configuration stands for another collection; None: there is none."""
    return next((alias for alias in (f"{name}{SUFFIX}", name) if alias in aliases), None)


async def find_aliases(qdrant: QdrantClient, timeout: float) -> Mapping[str, str]:
    """The collection of each alias; none if they can't be listed."""
    try:
        return await qdrant.aliases(timeout=timeout)
    except BackendError:
        # A key for some collections only may not list them: a name is then taken for a collection's own.
        return {}


@dataclass(frozen=True, slots=True)
class Choice:
    """A flow's choice among generations: `settings` has the hash of its own for a name of the configuration.

    `group` is the consumer group of an indexing flow, `default` that of collections that note none.
    """

    settings: Callable[[str], str | None] = lambda _: None
    group: str | None = None
    default: str | None = None

    def takes(self, name: str, info: CollectionInfo | None) -> bool:
        """True if the flow goes where the alias goes."""
        noted, own = settings_of(info), self.settings(name)
        if noted is not None and own is not None and noted != own:
            return False
        generation = generation_of(info)
        return self.group is None or self.group == (generation.group if generation is not None else self.default)


ANY: Final = Choice()
"""The choice of the collection that the alias has."""


async def resolve_collection(
    qdrant: QdrantClient,
    name: str,
    aliases: Mapping[str, str],
    choice: Choice,
    timeout: float,
    present: str | None = None,
) -> Surveyed:
    """The collection that a flow uses for a name; `present` is the one that it has used. Raises BackendError."""
    alias = alias_of(name, aliases)
    target = aliases[alias] if alias is not None else name
    first = await _describe(qdrant, name, target, alias, timeout)
    if choice.takes(name, first.info):
        return first
    if present is not None and present != target:
        stays = await _describe(qdrant, name, present, None, timeout)
        if stays.info is not None:
            return replace(stays, target=target)
    found, passed = first, {target}
    while (generation := generation_of(found.info)) is not None:
        earlier = generation.replaces
        if earlier is None or earlier in passed:
            break
        found = await _describe(qdrant, name, earlier, None, timeout)
        passed.add(earlier)
        if settings_of(found.info) == choice.settings(name):
            return replace(found, target=target)
    return first


async def _describe(qdrant: QdrantClient, name: str, physical: str, alias: str | None, timeout: float) -> Surveyed:
    try:
        return Surveyed(name, physical, await qdrant.collection_info(physical, timeout=timeout))
    except BackendError as error:
        if error.status == 404:
            return Surveyed(name, physical)
        if error.reason is not Reason.UNAUTHORIZED or alias is None or alias == physical:
            raise
    return Surveyed(name, physical, await qdrant.collection_info(alias, timeout=timeout), alias=alias)


Needs = Callable[[str], Iterable[Requirement]]
"""The requirements of the collection that the configuration has by this name."""


async def survey(
    qdrant: QdrantClient, settings: QdrantSettings, needs: Needs, timeout: float, choice: Choice = ANY
) -> list[Surveyed]:
    """Every configured collection, all asked at once, each within `timeout` seconds."""
    aliases = await find_aliases(qdrant, timeout)

    async def one(name: str) -> Surveyed:
        alias = alias_of(name, aliases)
        physical = aliases[alias] if alias is not None else name
        found = Surveyed(name, physical)
        try:
            # That it isn't there is no failure of Qdrant, and is not logged as one.
            if alias is not None or await qdrant.exists(name, timeout=timeout):
                found = await resolve_collection(qdrant, name, aliases, choice, timeout)
            if (info := found.info) is not None:
                owner = _owner(settings, name, info)
                if owner is not None and NAMESPACE in info.indexes:
                    # Every document has a namespace, and tombstones have none.
                    no_documents = {"must": [{"is_empty": {"key": NAMESPACE}}]}
                    tombstones = await qdrant.count(found.alias or found.physical, no_documents, timeout=timeout)
                    info = replace(info, points=max(0, info.points - tombstones))
                found = replace(found, info=info, owner=owner)
        except BackendError as error:
            return Surveyed(name, physical, error=error)
        return replace(found, gaps=find_gaps(needs(name), found))

    return list(await asyncio.gather(*map(one, settings.physical)))


def _owner(settings: QdrantSettings, name: str, info: CollectionInfo) -> Owner | None:
    if settings.of_another_tool:
        return None
    if OURS in info.metadata:
        return "metadata"
    return "configuration" if name in settings.owned else None
