"""The catalogue: the description of each configured collection, read at the start and again every few seconds.

- Until Qdrant has described a collection, and while it isn't there, it is taken for one of rankstream's own.
- A description stays when a later reading fails.
- A collection that the key may not see, or that fails, takes nothing from the others.
- An alias may be given to another collection at any time. Who misses the one that it stood for has the aliases read at
  once. A flow with other settings than the new one's stays where it is (`survey`).
- Qdrant does not distinguish one making of a collection from the next one of its name. One is noticed if the collection
  isn't there at a reading, or is described otherwise, or if another tool's has fewer points than before.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

import structlog

from operators.clients.failures import attempt
from operators.clients.qdrant.answers import WHOLE_NUMBERS, CollectionInfo
from operators.clients.qdrant.client import QdrantClient
from operators.collections.analysers import CURRENT, PLAIN, Bm25
from operators.collections.notes import analysis_of, expires, mixed_contexts
from operators.collections.requirements import Surveyed
from operators.collections.survey import ANY, Choice, find_aliases, resolve_collection
from operators.query.collection import Capabilities, Modifier
from schemas.errors import BackendBadResponse, BackendError, ConfigError
from schemas.settings import QdrantSettings

log = structlog.stdlib.get_logger(__name__)

EVERY: Final = 10.0
"""Seconds between two readings."""

_USUAL: Final[Mapping[str, Modifier]] = {
    **dict.fromkeys(("dense", "tokens", "dense_context", "learned", "fuzzy"), "none"),
    **dict.fromkeys(("sparse", "sparse_context"), "idf"),
}
"""Key of qdrant.vectors -> the modifier of the vector, where the collection is as rankstream makes it."""

_DENSE: Final = frozenset({"dense", "tokens", "dense_context"})
_CONTEXTS: Final = frozenset({"dense_context", "sparse_context"})

_DISTANCES: Final = frozenset({"Euclid", "Manhattan"})
"""Scores that are smaller for more similar documents: to rank by them would be to rank the wrong way round."""

_SOON: Final = 0.5
"""Seconds after which an outage is looked into again."""


@dataclass(eq=False)
class Catalogue:
    """The configured collections; raises ConfigError for an analyser's parameters that the model refuses.

    `seen` gets each description, on the loop that reads. `hides`: some sources see fewer documents than others, and
    contexts that don't separate them are not searched. `choice`: the flow's choice among the generations of an index.
    """

    qdrant: QdrantClient
    settings: QdrantSettings
    seen: Callable[[str, Surveyed], None] = lambda *_: None
    hides: bool = field(default=False, kw_only=True)
    choice: Choice = field(default=ANY, kw_only=True)
    _capabilities: dict[str, Capabilities] = field(default_factory=dict, init=False)
    _warned: set[tuple[str, str]] = field(default_factory=set, init=False)
    _described: dict[str, tuple[str, object, int]] = field(default_factory=dict, init=False)
    _makings: Counter[str] = field(default_factory=Counter, init=False)
    _named: dict[str, str] = field(default_factory=dict, init=False)
    _reading: asyncio.Task[object] | None = field(default=None, init=False)
    _began: float = field(default=-inf, init=False)

    def __post_init__(self) -> None:
        self._names = {key: name for key, name in self.settings.vectors if key in _USUAL and name is not None}
        self._models = {name: self._analyser_of(name) for name in self.settings.physical}
        self._others = self._analyser_of("")

    def capabilities_of(self, collection: str) -> Capabilities:
        """The capabilities of a collection, by the name or the alias that the configuration has for it."""
        known = self._capabilities.get(collection)
        if known is None:
            context = self.settings.context.on and not self.hides
            known = self._capabilities[collection] = Capabilities(
                collection,
                {key: _USUAL[key] for key in self._names if context or key not in _CONTEXTS},
                making=self._makings[collection],
                expires=not self.settings.of_another_tool,
            )
        return known

    def analyser(self, collection: str) -> Bm25:
        return self._models.get(collection, self._others)

    async def refresh(self, timeout: float) -> dict[str, BackendError]:
        """Read the description of each collection within `timeout` seconds; return the errors of those that failed."""
        collections = self.settings.physical
        aliases = await find_aliases(self.qdrant, timeout)

        async def resolve(name: str) -> Surveyed | BackendError:
            present, _, _ = self._described.get(name, (None, None, 0))
            return await attempt(resolve_collection(self.qdrant, name, aliases, self.choice, timeout, present))

        errors = {}
        for collection, found in zip(collections, await asyncio.gather(*map(resolve, collections)), strict=True):
            if isinstance(found, BackendError):
                errors[collection] = found
                if (collection, found.reason) not in self._warned:
                    self._warned.add((collection, found.reason))
                    why = {"collection": collection, "reason": str(found)}
                    log.warning("collection cannot be read: taken as configured", **why)
                continue
            self.seen(collection, found)
            self._note(collection, found)
            if (info := found.info) is None:
                self._capabilities.pop(collection, None)
                self._models[collection] = self._analyser_of(collection)
            else:
                self._capabilities[collection] = self._capable(collection, found, info)
                if found.alias is not None:
                    self.qdrant.take_over(found.physical, found.alias)
                self._named[self._physical(collection)] = collection
                self._read_analysis(collection, info.metadata)
        return errors

    async def successor(self, collection: str, timeout: float) -> str | None:
        """The collection that the alias of a missing one has by now, read within `timeout` seconds; None: no other.

        A reading is shared, and none begins within half a second of the last: many queries may miss the collection.
        """
        name = self._named.get(collection)
        if name is None or name == collection:
            return None
        if self._physical(name) == collection:
            if (self._reading is None or self._reading.done()) and time.monotonic() >= self._began + _SOON:
                self._began = time.monotonic()
                self._reading = asyncio.create_task(self.refresh(timeout))
            assert self._reading is not None
            await asyncio.wait([self._reading], timeout=timeout)
        found = self._physical(name)
        return found if found != collection else None

    def _physical(self, name: str) -> str:
        capabilities = self.capabilities_of(name)
        return capabilities.alias or capabilities.name

    async def refresh_periodically(self, timeout: float) -> None:
        """Read again and again, until cancelled; a reading may take `timeout` seconds."""
        while True:
            errors = await self.refresh(timeout)
            lasting = all(isinstance(error, BackendBadResponse) for error in errors.values())
            await asyncio.sleep(EVERY if lasting else _SOON)

    def _capable(self, collection: str, found: Surveyed, info: CollectionInfo) -> Capabilities:
        fields, another = self.qdrant.fields, self.settings.of_another_tool
        vectors = {key: _modifier(key, vector, info) for key, vector in self._names.items()}
        mixed = self.hides and mixed_contexts(self.settings.vectors, info)
        absent = {key for key in _CONTEXTS & vectors.keys() if vectors[key] is None or mixed}
        return Capabilities(
            found.physical,
            {key: each for key, each in vectors.items() if key not in absent},
            fields.answerable({fields.name(path): described for path, described in info.indexes.items()}),
            info.strict,
            alias=found.alias,
            making=self._makings[collection],
            expires=expires(info) and not another,
            foreign=another,
        )

    def _analyser_of(self, collection: str) -> Bm25:
        """The analyser of a collection that says nothing of its own, or isn't there."""
        analysis = PLAIN if self.settings.of_another_tool else CURRENT
        return Bm25(self.settings.bm25_settings(collection), analysis, self.settings.search_fields)

    def _read_analysis(self, collection: str, metadata: Mapping[str, Any]) -> None:
        """Take the parameters in a collection's metadata, or the configured ones where they can't be used."""
        configured = self.settings.bm25_settings(collection)
        try:
            own, analysis, fields = analysis_of(metadata)
            model = Bm25(own or configured, analysis, fields)
        except (ValueError, ConfigError):
            model = Bm25(configured)
        if model.name != self.analyser(collection).name:
            self._models[collection] = model

    def _note(self, collection: str, found: Surveyed) -> None:
        """Count a making of a collection that is seen not to be the one of the last reading."""
        name, info = found.physical, found.info
        described = (info.shards, info.vectors, info.sparse_vectors, info.metadata) if info is not None else None
        points = info.points if info is not None else 0
        named, before, most = self._described.get(collection, (name, described, 0))
        # Fingerprints distinguish the contents of rankstream's own documents: a deletion keeps the others cached.
        fewer = self.settings.of_another_tool and points < most
        # An alias that was given to another collection has that one's name.
        self._makings[collection] += (named == name or info is None) and (described != before or fewer)
        self._described[collection] = name, described, points


def _modifier(key: str, name: str, info: CollectionInfo) -> Modifier | None:
    """The modifier of a vector; None where it isn't there, or cannot be searched as configured."""
    if key in _DENSE:
        # Qdrant refuses a search by the dense vector of another name: the answer says more than a leg that is skipped.
        missing: Mapping[str, Any] | None = {} if key == "dense" else None
        vector = info.vectors.get(name, missing)
        if vector is None or vector.get("distance") in _DISTANCES or vector.get("datatype") == WHOLE_NUMBERS:
            return None
        return "none"
    sparse = info.sparse_vectors.get(name)
    if sparse is None:
        return None
    # Qdrant's IDF would weigh a sparse encoder's terms again, by documents of other namespaces, too.
    if sparse.get("modifier") in {None, "none"}:
        return "none"
    return "idf" if _USUAL[key] == "idf" else None
