"""The collections outside of the flows: surveyed, and made, by the commands and before the indexing flow starts."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import structlog

from flows.assembly import clients
from flows.assembly.clients import InProcess
from operators.clients.qdrant.client import Filter, QdrantClient
from operators.collections.gaps import find_gaps
from operators.collections.notes import Generation, collection_metadata, generation_of
from operators.collections.requirements import (
    SEARCHED,
    Requirement,
    Severity,
    Surveyed,
    index_needs,
    merge_gaps,
    vectors,
)
from operators.collections.survey import Choice, survey
from operators.runtime.event_loop import EventLoopThread, Wakeup
from schemas.errors import BackendError
from schemas.settings import KafkaSettings, Settings

if TYPE_CHECKING:
    # Qdrant's models take a second to import: only what makes collections waits for them.
    from operators.collections.making import Ensured, MakingStep

log = structlog.stdlib.get_logger(__name__)

_TIMEOUT: Final = 60.0

_SURVEY: Final = 10.0

_BUILDING: Final = 3600.0
"""Seconds in which an index must be built: a collection that others filled may be large."""

Answer = TypeVar("Answer")


class AskQdrant(Protocol):
    """Has a client of Qdrant asked, and waits for so many seconds."""

    def __call__(self, work: Callable[[QdrantClient], Coroutine[Any, Any, Answer]], timeout: float) -> Answer:
        """The answer; raises TimeoutError."""
        ...


def requirements(settings: Settings, name: str) -> list[Requirement]:
    """The needs of these settings in the collection of a configured name."""
    index, late_interaction = settings.qdrant, settings.rerank.kind == "late_interaction"
    limits = {
        "max_query_limit": max((profile.over_sample for profile in settings.profiles.values()), default=0),
        "search_max_hnsw_ef": index.search.hnsw_ef or 0,
        "max_timeout": index.timeout,
        "read_rate_limit": inf,
        "write_rate_limit": inf,
    }
    found = [
        Requirement("presence", not index.of_another_tool),
        Requirement("alias"),
        Requirement("settings", settings.making_hash(name)),
        Requirement("owner"),
        Requirement("shard keys"),
        Requirement("expiry", bool(settings.documents.expire_after)),
        *vectors(index, late_interaction=late_interaction),
        Requirement("prompts", settings.embedder.purposes),
        Requirement("terms", (index.bm25_settings(name), index.search_fields)),
        Requirement("shards", name=index.vectors.sparse or ""),
        *index_needs(index),
        *(Requirement("limit", wanted, limit) for limit, wanted in limits.items()),
    ]
    if settings.firewall.enabled:
        found.append(Requirement("contexts", index.vectors))
    if late_interaction and index.vectors.tokens is not None:
        found.append(Requirement("late interaction", settings.rerank.idf, index.vectors.tokens))
    return found


class CollectionLog:
    """Logs the gaps of these kinds of each collection: a line for one when it begins, and a line when none is left."""

    def __init__(self, settings: Settings, kinds: Set[str] = SEARCHED) -> None:
        self._settings = settings
        self._kinds = kinds
        self._logged: dict[str, set[str]] = {}

    def seen(self, collection: str, found: Surveyed) -> None:
        """Take note of what Qdrant says that a collection is."""
        gaps = find_gaps(requirements(self._settings, collection), found)
        lines = merge_gaps(gap for gap in gaps if gap.kind in self._kinds and gap.severity > Severity.NONE)
        before = self._logged.get(collection, set())
        self._logged[collection] = {str(gap) for gap in lines}
        for gap in lines:
            if str(gap) not in before:
                why = {"reason": str(gap), "remedy": gap.cure}
                log.warning("collection does not fit the configuration", collection=collection, **why)
        if before and not lines:
            log.info("collection fits the configuration now", collection=collection)


def choice(settings: Settings, group: str | None = None) -> Choice:
    """The choice among generations under these settings; `group`: that of an indexing flow."""
    if settings.qdrant.of_another_tool:
        return Choice()
    return Choice(settings.making_hash, group, settings.kafka.indexing.group_id)


def indexing_kafka(settings: Settings) -> KafkaSettings:
    """The Kafka settings of the running indexing flow: its group is the one that the collections note.

    If Qdrant does not say, the group of collections that note none.
    """
    kafka = settings.kafka.indexing
    if settings.qdrant.path is not None:
        # Another process has it open, and has no generations.
        return kafka
    with suppress(BackendError, TimeoutError), InProcess(settings) as in_process:
        for each in survey_collections(settings, in_process, _SURVEY):
            if (generation := generation_of(each.info)) is not None:
                return kafka.model_copy(update={"group_id": generation.group})
    return kafka


def ensure_collections(
    settings: Settings, in_process: InProcess, *, writes: bool = True, generation: Generation | None = None
) -> "Ensured":
    """Create the collections that don't exist, and the indexes that those of rankstream's own lack.

    `writes`: documents will be written to each collection, so one of another program is refused. Raises ConfigError,
    before anything is made, and BackendError. `generation` is noted in those that are created.
    """
    from operators.collections.making import ensure

    with open_client(settings, in_process) as ask:
        further = choice(settings), partial(_notes, settings, generation)
        return ask(lambda client: ensure(client, settings.qdrant, _TIMEOUT, *further, writes=writes), _TIMEOUT)


def _notes(settings: Settings, generation: Generation | None, name: str) -> dict[str, Any]:
    index, model = settings.qdrant, clients.embedder_model(settings.embedder)
    given = index.bm25_settings(name), settings.embedder.purposes, index.search_fields, model
    return collection_metadata(*given, settings.making_hash(name), generation)


def survey_collections(settings: Settings, in_process: InProcess, timeout: float) -> list[Surveyed]:
    """The survey of each configured collection; one that could not be read within `timeout` seconds has its error.

    Each is asked for once, so that the error is the first symptom.
    """
    with open_client(settings, in_process) as ask:
        given = settings.qdrant, partial(requirements, settings), timeout, choice(settings)
        return ask(lambda client: survey(client.without_retries(), *given), 2 * timeout + 1)


def read_version(settings: Settings, in_process: InProcess, timeout: float) -> str | None:
    """The version of the Qdrant server; None of the engine in this process, and where nothing says it."""
    if settings.qdrant.url is None:
        return None
    with suppress(BackendError, TimeoutError), open_client(settings, in_process) as ask:
        return ask(lambda client: client.version(timeout=timeout), timeout)
    return None


def make(settings: Settings, in_process: InProcess, steps: "Sequence[MakingStep]") -> "Iterator[MakingStep]":
    """Make collections and indexes, and yield each once it is made. Raises BackendError; those before it stay."""
    from operators.collections.making import take

    notes = partial(_notes, settings, None)
    with open_client(settings, in_process) as ask:
        for step in steps:
            ask(partial(take, settings=settings.qdrant, step=step, timeout=_BUILDING, notes=notes), _BUILDING)
            yield step


def ask_collections(
    settings: Settings,
    in_process: InProcess,
    wheres: Mapping[str, Sequence[Filter]],
    ask_one: Callable[[QdrantClient, Surveyed, Filter], Awaitable[Answer]],
) -> list[Answer]:
    """The answers about the points that these filters match in the collection of that name of the configuration.

    One that isn't there is not asked. Raises BackendError.
    """
    surveyed = {each.name: each for each in survey_collections(settings, in_process, _SURVEY)}
    for each in surveyed.values():
        if each.error is not None:
            raise each.error
    there = [(surveyed[name], where) for name, filters in wheres.items() for where in filters if surveyed[name].info]

    async def answers(client: QdrantClient) -> list[Answer]:
        return [await ask_one(client, found, where) for found, where in there]

    with open_client(settings, in_process) as ask:
        return ask(answers, _BUILDING)


def find_any(settings: Settings, in_process: InProcess, wheres: Iterable[Filter]) -> Iterator[bool]:
    """True for each of these filters that a document of any configured collection matches. Raises BackendError."""

    async def is_there(client: QdrantClient, where: Filter) -> bool:
        for name in settings.qdrant.physical:
            if (await client.scroll(name, where, limit=1, fields=False, timeout=_SURVEY)).records:
                return True
        return False

    with open_client(settings, in_process) as ask:
        for where in wheres:
            yield ask(partial(is_there, where=where), _TIMEOUT)


@contextmanager
def open_client(settings: Settings, in_process: InProcess) -> Iterator[AskQdrant]:
    """Have a client of Qdrant asked on a loop of its own, until the block ends."""
    calls = EventLoopThread(Wakeup())
    client = clients.make_qdrant_client(settings, in_process, in_process.metrics("indexing"))
    try:
        yield lambda work, timeout: calls.run(work(client), timeout)
    finally:
        calls.run(client.aclose(), _TIMEOUT)
        calls.close()
