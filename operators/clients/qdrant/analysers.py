"""Analysers: a collection's terms, in documents and in queries, are made with the parameters noted at its creation.

So is the rule by which its contexts are made.
"""

from collections.abc import Mapping
from typing import Any, Final

import structlog

from operators.clients.qdrant.answers import CollectionInfo
from operators.clients.qdrant.bm25 import Bm25, Bm25Parameters
from schemas.errors import ConfigError
from schemas.settings import QdrantSettings
from schemas.settings.qdrant import Bm25Settings, Vectors

log = structlog.stdlib.get_logger(__name__)

OURS: Final = "rankstream"
"""The key of a collection's metadata by which it is rankstream's."""

_BM25: Final = "bm25"

_CONTEXTS: Final = "contexts"
_BY_ACCESS: Final = "same tier and labels"


def metadata(settings: Bm25Settings) -> dict[str, Any]:
    """A collection's metadata about its analyser, and of which documents are together in a context."""
    return {OURS: {_BM25: settings.model_dump(mode="json"), _CONTEXTS: _BY_ACCESS}}


def mixed_contexts(names: Vectors, info: CollectionInfo) -> bool:
    """True if the collection has contexts that may hold words of documents that fewer sources see."""
    there = names.dense_context in info.vectors or names.sparse_context in info.sparse_vectors
    ours = info.metadata.get(OURS)
    return there and not (isinstance(ours, Mapping) and ours.get(_CONTEXTS) == _BY_ACCESS)


class Analysers:
    """The analyser of each collection: the collection's own parameters once they are read, the configured ones before.

    Raises ConfigError for configured parameters that the model refuses.
    """

    def __init__(self, settings: QdrantSettings) -> None:
        self._settings = settings
        self._others = _model(settings.bm25)
        self._models = {collection: _model(settings.analyser(collection)) for collection in settings.held}
        self._warned: set[tuple[str, str]] = set()

    def of(self, collection: str) -> Bm25:
        """The model that makes this collection's terms."""
        return self._models.get(collection, self._others)

    def read(self, collection: str, said: Mapping[str, Any]) -> None:
        """Take over what a collection's metadata say.

        A collection that says nothing keeps the configured parameters; so does one that says what can't be used, with a
        warning. One that says something else than the configuration gets what it says, with a warning.
        """
        configured = self._settings.analyser(collection)
        try:
            noted = _noted(said)
            model = _model(configured if noted is None else noted)
        except (ValueError, ConfigError):
            self._warn(collection, "collection has bm25 metadata that cannot be used", "configured parameters")
            self._models[collection] = _model(configured)
            return
        if noted is not None and noted != configured:
            self._warn(collection, "collection has other bm25 parameters than configured", "its own parameters")
        if model.name != self.of(collection).name:
            self._models[collection] = model

    def _warn(self, collection: str, event: str, used: str) -> None:
        if (collection, event) not in self._warned:
            self._warned.add((collection, event))
            log.warning(event, collection=collection, used=used)


def _noted(said: Mapping[str, Any]) -> Bm25Settings | None:
    """The parameters in a collection's metadata, None without any; raises ValueError for what isn't any."""
    ours = said.get(OURS, {})
    if not isinstance(ours, Mapping):
        raise ValueError("no object")
    return Bm25Settings.model_validate(ours[_BM25], strict=True) if _BM25 in ours else None


def _model(settings: Bm25Settings) -> Bm25:
    return Bm25(Bm25Parameters(settings.k, settings.b, settings.avg_len, settings.language))
