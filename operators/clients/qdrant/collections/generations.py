"""Generations: the collections that an index has had, one after the other, behind one name of the configuration.

Rules
-----
- The name stands for the collection that the alias of this name has. Where a collection has the name itself, Qdrant
  allows no such alias: the alias has SUFFIX behind it.
- A collection notes the settings that it was made with. A flow with other settings does not follow an alias to it: it
  stays with the collection that it has used, or, at its start, goes to the nearest earlier one that was made with its
  settings. Where there is none, it takes the collection as it is.
- Offsets belong to a generation: its indexing flow commits in the consumer group that the collection notes. A running
  indexing flow never follows an alias to a collection of another group.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from operators.clients.qdrant.answers import CollectionInfo
from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant.collections.analysers import OURS
from schemas.errors import BackendBadResponse, BackendError, Reason

SUFFIX: Final = ".rankstream"
"""End of the alias of a name that a collection has itself."""

_SETTINGS: Final = "settings"
_GENERATION: Final = "generation"
_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True)
class Generation:
    """The making of a collection by `rankstream reindex`.

    `group` has the offsets of the documents topic that stand for it, `replaces` is the collection before it, if there
    was one.
    """

    group: str
    replaces: str | None = None


def note(settings: str, generation: Generation | None = None) -> dict[str, Any]:
    """The entries of a new collection's metadata: the hash of its settings, and its generation."""
    return {_SETTINGS: settings, **({_GENERATION: asdict(generation)} if generation is not None else {})}


def settings_of(info: CollectionInfo | None) -> str | None:
    """The hash of the settings that a collection was made with; None if it does not say."""
    found = _ours(info).get(_SETTINGS)
    return found if isinstance(found, str) else None


def generation_of(info: CollectionInfo | None) -> Generation | None:
    """The generation that a collection is; None of one that `rankstream reindex` did not make."""
    match _ours(info).get(_GENERATION):
        case {"group": str(group), "replaces": None | str() as replaces}:
            return Generation(group, replaces)
    return None


def _ours(info: CollectionInfo | None) -> Mapping[str, Any]:
    ours = info.metadata.get(OURS) if info is not None else None
    return ours if isinstance(ours, Mapping) else {}


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

    `group` is the consumer group of an indexing flow, `default` that of collections that note none; None for flows that
    only read.
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


@dataclass(frozen=True, slots=True)
class Resolved:
    """The collection that a name stands for: its own name, its description, None where it isn't there.

    `alias` is the name to ask by, where the key may not ask by the collection's own.
    """

    physical: str
    info: CollectionInfo | None
    alias: str | None = None


async def resolve(
    qdrant: QdrantClient,
    name: str,
    aliases: Mapping[str, str],
    choice: Choice,
    timeout: float,
    present: str | None = None,
) -> Resolved:
    """The collection that a flow uses for a name; `present` is the one that it has used. Raises BackendError."""
    alias = alias_of(name, aliases)
    target = aliases[alias] if alias is not None else name
    first = await _describe(qdrant, target, alias, timeout)
    if choice.takes(name, first.info):
        return first
    if present not in {None, target}:
        assert present is not None
        stays = await _describe(qdrant, present, None, timeout)
        if stays.info is not None:
            return stays
    found, passed = first, {target}
    while (generation := generation_of(found.info)) is not None and generation.replaces not in {None, *passed}:
        assert generation.replaces is not None
        found = await _describe(qdrant, generation.replaces, None, timeout)
        passed.add(generation.replaces)
        if settings_of(found.info) == choice.settings(name):
            return found
    return first


async def _describe(qdrant: QdrantClient, collection: str, alias: str | None, timeout: float) -> Resolved:
    try:
        return Resolved(collection, await qdrant.collection_info(collection, timeout=timeout))
    except BackendError as error:
        if error.status == _NOT_FOUND:
            return Resolved(collection, None)
        refused = isinstance(error, BackendBadResponse) and error.reason is Reason.UNAUTHORIZED
        if not refused or alias in {None, collection}:
            raise
    assert alias is not None
    return Resolved(collection, await qdrant.collection_info(alias, timeout=timeout), alias)
