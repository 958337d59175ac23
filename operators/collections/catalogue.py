"""The catalogue: the description of each configured collection, read at the start and again every few seconds.

Rules
-----
- Until Qdrant has described a collection, and while it isn't there, it is taken for one of rankstream's own.
- A description stays when a later reading fails.
- A collection that the key may not see, or that fails, takes nothing from the others.
- An alias is the collection that it stands for; it may be given to another one at any time. Who misses the collection
  that it stood for has the aliases read at once. A flow with other settings than that one's stays where it is
  (`survey`).
- Qdrant does not distinguish one making of a collection from the next one of its name. One is noticed if the collection
  isn't there at a reading, or is described otherwise, or if another tool's has fewer points than before.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
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

OnReading = Callable[[str, Surveyed], None]
"""Gets a collection's description at each reading; called on the loop that reads."""


class Catalogue:
    """The configured collections; raises ConfigError for an analyser's parameters that the model refuses.

    `hides`: some sources see fewer documents than others, and contexts that don't separate them are not searched.
    `choice`: the flow's choice among the generations of an index.
    """

    def __init__(
        self,
        qdrant: QdrantClient,
        settings: QdrantSettings,
        seen: OnReading = lambda *_: None,
        *,
        hides: bool = False,
        choice: Choice = ANY,
    ) -> None:
        self._qdrant = qdrant
        self._settings = settings
        self._seen = seen
        self._hides = hides
        self._choice = choice
        self._names = {key: name for key, name in settings.vectors if key in _USUAL and name is not None}
        self._models = {name: self._analyser_of(name) for name in settings.physical}
        self._others = self._analyser_of("")
        self._capabilities: dict[str, Capabilities] = {}
        self._warned: set[tuple[str, str]] = set()
        self._described: dict[str, tuple[str, object, int]] = {}
        self._makings: Counter[str] = Counter()
        self._named: dict[str, str] = {}
        self._reading: asyncio.Task[object] | None = None
        self._began = -inf

    def capabilities_of(self, collection: str) -> Capabilities:
        """The capabilities of a collection, by the name or the alias that the configuration has for it."""
        known = self._capabilities.get(collection)
        if known is None:
            context = self._settings.context.on and not self._hides
            known = self._capabilities[collection] = Capabilities(
                collection,
                {key: _USUAL[key] for key in self._names if context or key not in _CONTEXTS},
                making=self._makings[collection],
                expires=not self._settings.of_another_tool,
            )
        return known

    def analyser(self, collection: str) -> Bm25:
        """The model that makes a collection's terms."""
        return self._models.get(collection, self._others)

    async def refresh(self, timeout: float) -> dict[str, BackendError]:
        """Read the description of each collection within `timeout` seconds; return the errors of those that failed."""
        collections = self._settings.physical
        aliases = await find_aliases(self._qdrant, timeout)
        resolved = await asyncio.gather(*(self._resolve(collection, aliases, timeout) for collection in collections))
        errors = {}
        for collection, found in zip(collections, resolved, strict=True):
            if isinstance(found, BackendError):
                errors[collection] = found
                self._warn(collection, found)
                continue
            name, info = found.physical, found.info
            self._seen(collection, found)
            self._note(collection, name, info)
            if info is None:
                self._capabilities.pop(collection, None)
                self._models[collection] = self._analyser_of(collection)
            else:
                self._capabilities[collection] = self._capable(collection, found, info)
                if found.alias is not None:
                    self._qdrant.take_over(name, found.alias)
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

    async def _resolve(self, collection: str, aliases: Mapping[str, str], timeout: float) -> Surveyed | BackendError:
        present, _, _ = self._described.get(collection, (None, None, 0))
        return await attempt(resolve_collection(self._qdrant, collection, aliases, self._choice, timeout, present))

    def _capable(self, collection: str, found: Surveyed, info: CollectionInfo) -> Capabilities:
        fields, another = self._qdrant.fields, self._settings.of_another_tool
        return Capabilities(
            found.physical,
            self._searchable(info),
            fields.answerable({fields.name(path): described for path, described in info.indexes.items()}),
            info.strict,
            alias=found.alias,
            making=self._makings[collection],
            expires=expires(info) and not another,
            foreign=another,
        )

    def _searchable(self, info: CollectionInfo) -> dict[str, Modifier | None]:
        """The vectors that are configured, as `Capabilities` has them; of contexts those that are there."""
        found = {key: _modifier(key, vector, info) for key, vector in self._names.items()}
        mixed = self._hides and mixed_contexts(self._settings.vectors, info)
        return {key: each for key, each in found.items() if key not in _CONTEXTS or (each is not None and not mixed)}

    def _analyser_of(self, collection: str) -> Bm25:
        """The analyser of a collection that says nothing of its own, or isn't there."""
        analysis = PLAIN if self._settings.of_another_tool else CURRENT
        return Bm25(self._settings.bm25_settings(collection), analysis, self._settings.search_fields)

    def _read_analysis(self, collection: str, metadata: Mapping[str, Any]) -> None:
        """Take the parameters in a collection's metadata, or the configured ones where they can't be used."""
        configured = self._settings.bm25_settings(collection)
        try:
            own, analysis, fields = analysis_of(metadata)
            model = Bm25(own or configured, analysis, fields)
        except (ValueError, ConfigError):
            model = Bm25(configured)
        if model.name != self.analyser(collection).name:
            self._models[collection] = model

    def _note(self, collection: str, name: str, info: CollectionInfo | None) -> None:
        """Count a making of a collection that is seen not to be the one of the last reading."""
        described = (info.shards, info.vectors, info.sparse_vectors, info.metadata) if info is not None else None
        points = info.points if info is not None else 0
        named, before, most = self._described.get(collection, (name, described, 0))
        # Fingerprints distinguish the contents of rankstream's own documents: a deletion keeps the others cached.
        fewer = self._settings.of_another_tool and points < most
        # An alias that was given to another collection has that one's name.
        self._makings[collection] += (named == name or info is None) and (described != before or fewer)
        self._described[collection] = name, described, points

    def _warn(self, collection: str, error: BackendError) -> None:
        if (collection, error.reason) not in self._warned:
            self._warned.add((collection, error.reason))
            log.warning("collection cannot be read: taken as configured", collection=collection, reason=str(error))


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
