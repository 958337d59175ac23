"""The catalogue: the description of each configured collection, read at the start and again every few seconds.

Rules
-----
- Until Qdrant has described a collection, and while it isn't there, it is taken for one of rankstream's own.
- A description stays when a later reading fails.
- A collection that the key may not see, or that fails, takes nothing from the others.
- An alias is the collection that it stands for; it may be given to another one at any time. Who misses the collection
  that it stood for has the aliases read at once. A flow with other settings
  than that one's stays where it is (`generations`).
- Qdrant does not distinguish one making of a collection from the next one of its name. One is noticed if the collection
  isn't there at a reading, or is described otherwise, or if another tool's has fewer points than before.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from typing import Any, Final

import structlog

from operators.access.filters import ORDERING, Ask
from operators.clients.qdrant.answers import WHOLE_NUMBERS, CollectionInfo
from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant.collections.analysers import Analysers, Bm25, expires, mixed_contexts
from operators.clients.qdrant.collections.generations import Choice, Resolved, alias_of, find_aliases, resolve
from operators.query.collection import MOST, Capabilities
from schemas.document import TEXT, WHOLE_TITLE
from schemas.errors import BackendBadResponse, BackendError
from schemas.settings import QdrantSettings

log = structlog.stdlib.get_logger(__name__)

EVERY: Final = 10.0
"""Seconds between two readings."""

_GROUPING: Final = frozenset({Ask.KEYWORD, Ask.INTEGER, Ask.BOOL, Ask.UUID})
"""Questions to an index that tells values apart."""

_DISTANCES: Final = frozenset({"Euclid", "Manhattan"})
"""Scores that are smaller for more similar documents: to rank by them would be to rank the wrong way round."""

_STAYS: Final = "the alias of a collection has one that was made with other settings, or for another consumer group"

_SOON: Final = 0.5
"""Seconds after which an outage is looked into again."""

Seen = Callable[[str, CollectionInfo | None], None]
"""Gets a collection's description at each reading, None where it isn't there; called on the loop that reads."""


class Catalogue:
    """The configured collections; raises ConfigError for an analyser's parameters that the model refuses.

    `hides`: some sources see fewer documents than others, and contexts that don't separate them are not searched.
    `choice`: the flow's choice among the generations of an index.
    """

    def __init__(
        self,
        qdrant: QdrantClient,
        settings: QdrantSettings,
        seen: Seen = lambda *_: None,
        *,
        hides: bool = False,
        choice: Choice | None = None,
    ) -> None:
        self._qdrant = qdrant
        self._settings = settings
        self._seen = seen
        self._hides = hides
        self._choice = choice or Choice()
        self._analysers = Analysers(settings)
        self._capabilities: dict[str, Capabilities] = {}
        self._warned: set[tuple[str, str]] = set()
        self._described: dict[str, tuple[str, object, int]] = {}
        self._makings: Counter[str] = Counter()
        self._named: dict[str, str] = {}
        self._reading: asyncio.Task[object] | None = None
        self._began = -inf

    def of(self, collection: str) -> Capabilities:
        """The capabilities of a collection, by the name or the alias that the configuration has for it."""
        known = self._capabilities.get(collection)
        if known is None:
            stored = self._settings.vectors.tokens is not None
            sparse = self._settings.vectors.sparse is not None
            context = self._settings.context.on and not self._hides
            learned = self._settings.vectors.learned is not None
            fuzzy = None if self._settings.vectors.fuzzy is None else True
            known = self._capabilities[collection] = Capabilities(
                collection,
                tokens=stored,
                sparse=sparse,
                dense_context=context,
                sparse_context=context,
                learned=learned,
                fuzzy=fuzzy,
                making=self._makings[collection],
                expires=not self._settings.of_another_tool,
            )
        return known

    def analyser(self, collection: str) -> Bm25:
        """The model that makes a collection's terms."""
        return self._analysers.of(collection)

    async def read(self, timeout: float) -> dict[str, BackendError]:
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
            self._seen(collection, info)
            self._note(collection, name, info)
            if info is None:
                self._capabilities.pop(collection, None)
                self._analysers.read(collection, None)
            else:
                capabilities = self._capabilities[collection] = self._capable(collection, name, info)
                if found.alias is not None:
                    self._capabilities[collection] = capabilities = replace(capabilities, alias=found.alias)
                    self._qdrant.take_over(name, found.alias)
                self._named[self._physical(collection)] = collection
                self._analysers.read(collection, info.metadata)
        return errors

    async def successor(self, collection: str, timeout: float) -> str | None:
        """The collection that the alias of a missing one has by now, read within `timeout` seconds; None: no other.

        A reading is shared, and none begins within half a second of the last: many queries may miss the collection.
        """
        name = self._named.get(collection)
        if name in {None, collection}:
            return None
        assert name is not None
        if self._physical(name) == collection:
            idle = self._reading is None or self._reading.done()
            if idle and time.monotonic() >= self._began + _SOON:
                self._began = time.monotonic()
                self._reading = asyncio.create_task(self.read(timeout))
            assert self._reading is not None
            await asyncio.wait([self._reading], timeout=timeout)
        found = self._physical(name)
        return found if found != collection else None

    def _physical(self, name: str) -> str:
        capabilities = self.of(name)
        return capabilities.alias or capabilities.name

    async def follow(self, timeout: float) -> None:
        """Read again and again, until cancelled; a reading may take `timeout` seconds."""
        while True:
            errors = await self.read(timeout)
            lasting = all(isinstance(error, BackendBadResponse) for error in errors.values())
            await asyncio.sleep(EVERY if lasting else _SOON)

    async def _resolve(self, collection: str, aliases: Mapping[str, str], timeout: float) -> Resolved | BackendError:
        present, _, _ = self._described.get(collection, (None, None, 0))
        try:
            found = await resolve(self._qdrant, collection, aliases, self._choice, timeout, present)
        except BackendError as error:
            return error
        alias = alias_of(collection, aliases)
        other = alias is not None and aliases[alias] != found.physical
        if other and (collection, found.physical) not in self._warned:
            log.warning(_STAYS, collection=collection, used=found.physical)
        # Another switch is told again.
        (self._warned.add if other else self._warned.discard)((collection, found.physical))
        return found

    def _capable(self, collection: str, name: str, info: CollectionInfo) -> Capabilities:
        names = self._settings.vectors
        most = info.strict.get("max_query_limit", MOST)
        fields = self._qdrant.fields
        indexes = {fields.name(path): described for path, described in info.indexes.items()}
        text = indexes.get(TEXT, {}).get("params") or {}
        another = self._settings.of_another_tool
        # Filters need an index.
        restricted = info.strict.get("unindexed_filtering_retrieve") is False
        answerable = fields.answerable(indexes)
        contexts = not (self._hides and mixed_contexts(names, info))
        return Capabilities(
            name,
            most=min(MOST, most),
            exact=info.strict.get("search_allow_exact", True),
            sparse=names.sparse is not None and names.sparse in info.sparse_vectors,
            tokens=names.tokens is not None and _ranks(info.vectors.get(names.tokens)),
            hnsw_ef=info.strict.get("search_max_hnsw_ef"),
            indexed=answerable if restricted else None,
            conditions=info.strict.get("filter_max_conditions"),
            groups=_groups(answerable) if another or restricted else None,
            orders=_orders(indexes) if another else None,
            scoring=bool(text.get("scoring")),
            dense_context=contexts and _ranks(info.vectors.get(names.dense_context)),
            sparse_context=contexts and names.sparse_context in info.sparse_vectors,
            learned=_lacks_idf(info.sparse_vectors.get(names.learned or "")),
            fuzzy=None if names.fuzzy is None else _lacks_idf(info.sparse_vectors.get(names.fuzzy)),
            similar=_ranks(info.vectors.get(names.dense, {})),
            making=self._makings[collection],
            expires=expires(info) and not another,
            without_idf=frozenset(
                {names.sparse or "", names.sparse_context}.intersection(
                    name for name, params in info.sparse_vectors.items() if _lacks_idf(params)
                )
            ),
        )

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


def _ranks(vector: Mapping[str, Any] | None) -> bool:
    """True for a vector that is there, and by whose scores the nearest of an embedder's vectors come first."""
    return vector is not None and vector.get("distance") not in _DISTANCES and vector.get("datatype") != WHOLE_NUMBERS


def _lacks_idf(sparse: Mapping[str, Any] | None) -> bool:
    """True for a sparse vector that is searched as it was weighed when it was made.

    Qdrant's IDF would weigh a sparse encoder's terms again, by documents of other namespaces, too.
    """
    return sparse is not None and sparse.get("modifier") in {None, "none"}


def _groups(answerable: Mapping[str, frozenset[Ask]]) -> frozenset[str]:
    fields = {field for field, asks in answerable.items() if asks & _GROUPING}
    own = {"title"} if WHOLE_TITLE in fields else set()
    return frozenset(own.union(field for field in fields if not field.startswith("_")))


def _orders(indexes: Mapping[str, Mapping[str, Any]]) -> Mapping[str, str]:
    kinds = {field: described.get("data_type") for field, described in indexes.items()}
    return {field: kind for field, kind in kinds.items() if kind in ORDERING}
