"""The collections outside of the flows: surveyed, and made, by the commands and before the indexing flow starts."""

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from flows.assembly import clients
from flows.assembly.clients import InProcess
from operators.clients.qdrant.client import Filter, QdrantClient
from operators.clients.qdrant.collections.generations import Choice, Generation, generation_of, note
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.wakeup import Wakeup
from schemas.errors import BackendError
from schemas.settings import KafkaSettings, Settings

if TYPE_CHECKING:
    # Qdrant's models take a second to import: only what makes or judges collections waits for them.
    from operators.indexing.collection import Ensured
    from operators.indexing.inspection import Step
    from operators.indexing.survey import Surveyed

_TIMEOUT: Final = 60.0

_SURVEY: Final = 10.0

_BUILDING: Final = 3600.0
"""Seconds in which an index must be built: a collection that others filled may be large."""

Ask = Callable[[Callable[[QdrantClient], Coroutine[Any, Any, Any]], float], Any]


def choice(settings: Settings, group: str | None = None) -> Choice:
    """The choice among generations under these settings; `group`: that of an indexing flow."""
    if settings.qdrant.of_another_tool:
        return Choice()
    return Choice(settings.making_hash, group, settings.kafka.indexing.group_id)


def indexing_kafka(settings: Settings, in_process: InProcess) -> KafkaSettings:
    """The Kafka settings of the running indexing flow: its group is the one that the collections note.

    If Qdrant does not say, the group of collections that note none.
    """
    kafka = settings.kafka.indexing
    if settings.qdrant.path is not None:
        # Another process has it open, and has no generations.
        return kafka
    with suppress(BackendError, TimeoutError):
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
    from operators.indexing.collection import ensure

    with open_client(settings, in_process) as ask:
        made = partial(
            ensure,
            settings=settings.qdrant,
            timeout=_TIMEOUT,
            writes=writes,
            purposes=settings.embedder.purposes,
            model=clients.embedder_model(settings.embedder),
            choice=choice(settings),
            noted=lambda name: note(settings.making_hash(name), generation),
        )
        ensured: Ensured = ask(made, _TIMEOUT)
        return ensured


def survey_collections(settings: Settings, in_process: InProcess, timeout: float) -> "list[Surveyed]":
    """The survey of each configured collection; one that could not be read within `timeout` seconds has its error.

    Each is asked for once, so that the error is the first symptom.
    """
    from operators.indexing.collection import needs
    from operators.indexing.survey import survey

    with open_client(settings, in_process) as ask:
        surveyed: list[Surveyed] = ask(
            lambda client: survey(
                replace(client, backend=client.backend.endpoint),
                settings.qdrant,
                needs(settings.qdrant),
                timeout,
                choice(settings),
            ),
            2 * timeout + 1,
        )
        return surveyed


def make(settings: Settings, in_process: InProcess, steps: "Sequence[Step]") -> "Iterator[Step]":
    """Make collections and indexes, and yield each once it is made. Raises BackendError; those before it stay."""
    from operators.indexing.collection import take

    purposes, model = settings.embedder.purposes, clients.embedder_model(settings.embedder)
    with open_client(settings, in_process) as ask:
        for step in steps:
            taken = partial(
                take,
                settings=settings.qdrant,
                step=step,
                timeout=_BUILDING,
                purposes=purposes,
                model=model,
                noted=lambda name: note(settings.making_hash(name)),
            )
            ask(taken, _BUILDING)
            yield step


def count(settings: Settings, in_process: InProcess, wheres: Mapping[str, Sequence[Filter]]) -> list[int]:
    """The numbers of points that each of these filters matches in the collection of that name of the configuration.

    Of one that isn't there, 0. Raises BackendError.
    """
    surveyed = {each.name: each for each in survey_collections(settings, in_process, _SURVEY)}
    for each in surveyed.values():
        if each.error is not None:
            raise each.error

    async def count_one(client: QdrantClient, name: str, where: Filter) -> int:
        found = surveyed[name]
        return 0 if found.info is None else await client.count(found.physical, where, timeout=_TIMEOUT)

    async def counts(client: QdrantClient) -> list[int]:
        return [await count_one(client, name, where) for name, filters in wheres.items() for where in filters]

    with open_client(settings, in_process) as ask:
        found: list[int] = ask(counts, _BUILDING)
        return found


@contextmanager
def open_client(settings: Settings, in_process: InProcess) -> Iterator[Ask]:
    """Have a client of Qdrant asked on a loop of its own, until the block ends."""
    calls = EventLoopThread(Wakeup())
    client = clients.qdrant(settings, lambda: in_process.engine, in_process.metrics("indexing"))
    try:
        yield lambda work, timeout: calls.run(work(client), timeout)
    finally:
        calls.run(client.backend.aclose(), _TIMEOUT)
        calls.close()
