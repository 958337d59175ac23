"""Analysers: a collection's terms, in documents and in queries, are made with the parameters noted at its creation."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import structlog

from operators.clients.qdrant.bm25 import Bm25, Bm25Parameters
from operators.clients.qdrant.client import QdrantClient
from schemas.errors import BackendBadResponse, ConfigError
from schemas.settings import QdrantSettings
from schemas.settings.backends import Bm25Settings

log = structlog.stdlib.get_logger(__name__)

_OURS: Final = "rankstream"
_BM25: Final = "bm25"
_NOT_FOUND: Final = 404


def metadata(settings: Bm25Settings) -> dict[str, Any]:
    """What a collection's metadata say of its analyser."""
    return {_OURS: {_BM25: settings.model_dump(mode="json")}}


class Analysers:
    """The analyser of each collection: the collection's own parameters once they are read, the configured ones before.

    Raises ConfigError for configured parameters that the model refuses.
    """

    def __init__(self, qdrant: QdrantClient, settings: QdrantSettings) -> None:
        self._qdrant = qdrant
        self._settings = settings
        self._others = _model(settings.bm25)
        self._models = {collection: _model(settings.analyser(collection)) for collection in settings.held}
        self._warned: set[tuple[str, str]] = set()

    def of(self, collection: str) -> Bm25:
        """The model that makes this collection's terms."""
        return self._models.get(collection, self._others)

    async def read(self, timeout: float) -> None:
        """Ask Qdrant what each configured collection was made with; raises BackendError if it doesn't say so of one.

        What it says of the others holds all the same. A collection that says nothing, or isn't there, keeps the
        configured parameters; so does one that says what can't be used, with a warning. One that says something else
        than the configuration gets what it says, with a warning.
        """
        collections = self._settings.held
        asked = (self._metadata(collection, timeout) for collection in collections)
        failed: list[BaseException] = []
        for collection, said in zip(collections, await asyncio.gather(*asked, return_exceptions=True), strict=True):
            if isinstance(said, BaseException):
                failed.append(said)
            else:
                self._models[collection] = self._made(collection, said)
        if failed:
            raise failed[0]

    async def _metadata(self, collection: str, timeout: float) -> Mapping[str, Any]:
        try:
            return (await self._qdrant.collection_info(collection, timeout=timeout)).metadata
        except BackendBadResponse as error:
            if error.status != _NOT_FOUND:
                raise
            return {}

    def _made(self, collection: str, said: Mapping[str, Any]) -> Bm25:
        configured = self._settings.analyser(collection)
        try:
            noted = _noted(said)
            model = _model(configured if noted is None else noted)
        except (ValueError, ConfigError):
            self._warn(collection, "collection has bm25 metadata that cannot be used", "configured parameters")
            return _model(configured)
        if noted is not None and noted != configured:
            self._warn(collection, "collection has other bm25 parameters than configured", "its own parameters")
        return model

    def _warn(self, collection: str, event: str, used: str) -> None:
        if (collection, event) not in self._warned:
            self._warned.add((collection, event))
            log.warning(event, collection=collection, used=used)


def _noted(said: Mapping[str, Any]) -> Bm25Settings | None:
    """The parameters in a collection's metadata, None without any; raises ValueError for what isn't any."""
    ours = said.get(_OURS, {})
    if not isinstance(ours, Mapping):
        raise ValueError("no object")
    return Bm25Settings.model_validate(ours[_BM25], strict=True) if _BM25 in ours else None


def _model(settings: Bm25Settings) -> Bm25:
    return Bm25(Bm25Parameters(settings.k, settings.b, settings.avg_len, settings.language))
