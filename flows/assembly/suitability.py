"""Suitability: what of the collections and the embedder does not fit the configuration, found when a flow starts.

A flow starts all the same: a collection may be made or corrected later, and so may a server.
"""

import asyncio
from concurrent.futures import Future
from dataclasses import replace
from typing import Final

import structlog

from operators.clients.embedders import Embedder
from operators.clients.embedders.bi_encoders import BiEncoder
from operators.clients.qdrant.answers import CollectionInfo
from operators.clients.qdrant.collections.analysers import mixed_contexts
from operators.indexing.suitability import absent, problems, vectors
from operators.runtime.event_loop import EventLoopThread
from schemas.errors import BackendBadResponse, BackendError
from schemas.settings import Settings

log = structlog.stdlib.get_logger(__name__)

_TEXT: Final = "a question"

_CORRECT: Final = "Correct qdrant.dimension, or the section embedder; rankstream check --part embedder asks it again."


class CollectionLog:
    """Logs what keeps a collection from being searched as configured: a line for each problem when it begins, and one
    when none is left.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._vectors = vectors(settings.qdrant)
        self._logged: dict[str, set[str]] = {}

    def seen(self, collection: str, info: CollectionInfo | None) -> None:
        """Take note of what Qdrant says that a collection is; None: it isn't there."""
        late_interaction = self._settings.rerank.kind == "late_interaction"
        hides = self._settings.firewall.enabled
        if info is None:
            found = [absent(self._settings.qdrant)]
        else:
            mixed = hides and mixed_contexts(self._settings.qdrant.vectors, info)
            prompts = self._settings.embedder.purposes
            all_ = problems(self._vectors, info, late_interaction=late_interaction, mixed=mixed, purposes=prompts)
            found = list(all_)
        before = self._logged.get(collection, set())
        self._logged[collection] = {problem.what for problem in found}
        for problem in found:
            if problem.what not in before:
                why = {"reason": problem.what, "remedy": problem.remedy}
                log.warning("collection does not fit the configuration", collection=collection, **why)
        if before and not found:
            log.info("collection fits the configuration now", collection=collection)


async def mismatch(embedder: Embedder, dimension: int, timeout: float) -> str | None:
    """The mismatch of an embedder's vectors in length, by one text; None if they fit. Raises BackendError."""
    [embedding] = await embedder.embed([_TEXT], purpose="query", timeout=timeout)
    length = len(embedding.vector)
    if length != dimension:
        return f"its vectors have {length} components, and qdrant.dimension is {dimension}"
    return None if embedding.vector.any() else "its vector of a text is zero"


def try_embedder(embedder: Embedder, settings: Settings, calls: EventLoopThread) -> Future[None]:
    """Have the embedder embed one text, behind what else starts, and log if its answer cannot be used.

    One that is away is no news here: it may come later, and calls to it say so until then.
    """
    if isinstance(embedder, BiEncoder):
        # Past the breaker and the retries, which are for queries and documents.
        embedder = replace(embedder, backend=embedder.backend.endpoint)
    return asyncio.run_coroutine_threadsafe(_try(embedder, settings), calls.loop)


async def _try(embedder: Embedder, settings: Settings) -> None:
    try:
        wrong = await mismatch(embedder, settings.qdrant.dimension, settings.embedder.timeout)
    except BackendBadResponse as error:
        wrong = str(error)
    except BackendError:
        return
    if wrong is not None:
        log.warning("embedder does not fit the configuration", reason=wrong, remedy=_CORRECT)
