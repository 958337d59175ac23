"""Reindexing: the moves of an index to a new generation, its comparison with the one before, and the switch.

A move is found from Qdrant alone, so that a run that was killed is resumed by the same command.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from operators.clients.qdrant.client import QdrantClient
from operators.collections.notes import Generation, generation_of, settings_of
from operators.collections.survey import SUFFIX, Choice, alias_of
from schemas.document import EXPIRES, NAMESPACE
from schemas.errors import ConfigError

CLOSE: Final = 5.0
"""Seconds: a generation has caught up when it has all that the topic had this long ago."""

_NAMESPACES: Final = 10_000
"""Namespaces that Qdrant counts at most in one request."""


Offsets = Mapping[int, int]
"""By partition of the documents topic."""


@dataclass(frozen=True, slots=True)
class AliasMove:
    """The move of a name of the configuration from the collection `before`, if there is one, to `after`."""

    name: str
    alias: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The moves of all names, and what the new collections note; None: the aliases have them already."""

    moves: Sequence[AliasMove]
    generation: Generation | None


class CatchUp:
    """Tells when all is applied that the topic had less than CLOSE seconds ago. Pure: time is an argument."""

    def __init__(self) -> None:
        self._goal: Offsets | None = None
        self._set = 0.0

    def observe(self, ends: Offsets, committed: Offsets, now: float) -> bool:
        """Take note of the topic's ends and the group's offsets; True once it has caught up."""
        if self._goal is not None and unread(self._goal, committed):
            return False
        caught_up = self._goal is not None and now - self._set <= CLOSE
        self._goal, self._set = ends, now
        return caught_up


def unread(ends: Offsets, committed: Offsets) -> int:
    """The number of offsets before the ends that a group has not committed."""
    return sum(max(0, end - committed.get(number, 0)) for number, end in ends.items())


def differing(before: Mapping[str, int], after: Mapping[str, int], slack: int) -> dict[str, tuple[int, int]]:
    """The namespaces whose numbers of documents differ by more than `slack`: events that one index alone may have."""
    names = sorted({*before, *after})
    counts = {name: (before.get(name, 0), after.get(name, 0)) for name in names}
    return {name: (old, new) for name, (old, new) in counts.items() if abs(old - new) > slack}


async def plan(
    qdrant: QdrantClient, names: Iterable[str], choice: Choice, unique: str, timeout: float, *, again: bool
) -> Plan:
    """The moves to new collections, or to those of a run with these settings that was stopped, or undone.

    `unique` ends the name of a new group: one that was used before has offsets. `again`: also if the aliases have
    collections that were made with these settings. Raises BackendError.
    """
    aliases = await qdrant.aliases(timeout=timeout)
    moves, made = [], []
    for name in names:
        alias = alias_of(name, aliases)
        plain = alias is None and await qdrant.exists(name, timeout=timeout)
        before = aliases[alias] if alias is not None else name if plain else None
        moves.append(AliasMove(name, alias or (f"{name}{SUFFIX}" if plain else name), before, ""))
        info = await qdrant.collection_info(before, timeout=timeout) if before is not None else None
        made.append(generation_of(info) is not None and settings_of(info) == choice.settings(name))
    if moves and all(made) and not again:
        return Plan([AliasMove(each.name, each.alias, None, each.before or "") for each in moves], None)
    for resuming in (True, False):
        found = [await _next(qdrant, each, choice, timeout, resuming=resuming) for each in moves]
        generations = {generation.group for _, generation in found if generation is not None}
        if not resuming or (len(generations) == 1 and all(generation is not None for _, generation in found)):
            break
    group = next(iter(generations), f"{choice.default}-{found[0][0]}-{unique}")
    after = [AliasMove(each.name, each.alias, each.before, name) for each, (name, _) in zip(moves, found, strict=True)]
    return Plan(after, Generation(group))


async def _next(
    qdrant: QdrantClient, move: AliasMove, choice: Choice, timeout: float, *, resuming: bool
) -> tuple[str, Generation | None]:
    """The first free name behind the present one; or that of a collection to resume, with its generation."""
    counted = re.fullmatch(re.escape(move.name) + r"-(\d{1,9})", move.before or "")
    number = int(counted[1]) if counted is not None else int(move.before is not None)
    while True:
        number += 1
        name = f"{move.name}-{number}"
        if not await qdrant.exists(name, timeout=timeout):
            return name, None
        info = await qdrant.collection_info(name, timeout=timeout)
        generation = generation_of(info)
        same = settings_of(info) == choice.settings(move.name)
        if resuming and generation is not None and generation.replaces == move.before and same:
            return name, generation


async def count_documents(qdrant: QdrantClient, collection: str, now: float, timeout: float) -> dict[str, int]:
    """The number of documents of each namespace, without those that have expired. Raises BackendError.

    Qdrant counts them. Where it may not, or there are too many namespaces, all documents are read.
    """
    alive = {"must_not": [{"key": EXPIRES, "range": {"lte": round(now * 1000)}}]}
    found = await qdrant.facet(collection, NAMESPACE, alive, limit=_NAMESPACES, timeout=timeout)
    if found.whole:
        return {str(name): number for name, number in found.counts.items()}
    # Qdrant may not count them, or there are too many namespaces.
    documents = qdrant.records(collection, alive, limit=1_000, fields=(NAMESPACE,), timeout=timeout)
    return Counter([str(each.payload[NAMESPACE]) async for each in documents if NAMESPACE in each.payload])


async def switch(qdrant: QdrantClient, moves: Iterable[AliasMove], timeout: float) -> None:
    """Give all aliases to the new collections, in one step. Raises BackendError."""
    await qdrant.change_aliases({move.alias: move.after for move in moves}, timeout=timeout)


async def undo(qdrant: QdrantClient, names: Sequence[str], timeout: float) -> list[AliasMove]:
    """Give the aliases back to the collections before, in one step; the moves that this was.

    Raises ConfigError where there is none, and BackendError.
    """
    moves = await _find_replaced(qdrant, names, timeout)
    if not moves:
        missing = "no alias has a collection that rankstream reindex put in place of another"
        raise ConfigError(f"{', '.join(names)}: {missing}")
    # A collection that has the name itself needs no alias.
    targets = {move.alias: None if move.after == move.name else move.after for move in moves}
    await qdrant.change_aliases(targets, timeout=timeout)
    return moves


async def _find_replaced(qdrant: QdrantClient, names: Iterable[str], timeout: float) -> list[AliasMove]:
    """The moves back, of the names whose collection replaced one that is still there."""
    aliases = await qdrant.aliases(timeout=timeout)
    moves = []
    for name in names:
        if (alias := alias_of(name, aliases)) is None:
            continue
        generation = generation_of(await qdrant.collection_info(aliases[alias], timeout=timeout))
        earlier = generation.replaces if generation is not None else None
        if earlier is not None and earlier not in aliases and await qdrant.exists(earlier, timeout=timeout):
            moves.append(AliasMove(name, alias, aliases[alias], earlier))
    return moves


async def drop_old(qdrant: QdrantClient, names: Sequence[str], timeout: float) -> list[str]:
    """Delete the collections that those of the aliases replaced; their names. Raises BackendError.

    A name that becomes free is given to its collection as an alias.
    """
    dropped = []
    for move in await _find_replaced(qdrant, names, timeout):
        await qdrant.drop_collection(move.after, timeout=timeout)
        dropped.append(move.after)
        if move.after == move.name:
            await qdrant.change_aliases({move.name: move.before, move.alias: None}, timeout=timeout)
    return dropped


async def group_before(qdrant: QdrantClient, moves: Iterable[AliasMove], default: str, timeout: float) -> str:
    """The consumer group whose offsets stand for the collections before. Raises BackendError."""
    before = [move.before for move in moves if move.before is not None]
    infos = await asyncio.gather(*(qdrant.collection_info(each, timeout=timeout) for each in before))
    noted = [generation.group for info in infos if (generation := generation_of(info)) is not None]
    return next(iter(noted), default)
