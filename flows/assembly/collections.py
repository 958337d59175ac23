"""The collections outside of the flows: surveyed, and made, by the commands and before the indexing flow starts."""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from flows.assembly import clients
from flows.assembly.clients import InProcess
from operators.clients.qdrant.client import QdrantClient
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.wakeup import Wakeup
from schemas.settings import Settings

if TYPE_CHECKING:
    # Qdrant's models take a second to import: only what makes or judges collections waits for them.
    from operators.indexing.collection import Ensured
    from operators.indexing.inspection import Step
    from operators.indexing.survey import Surveyed

_TIMEOUT: Final = 60.0

_BUILDING: Final = 3600.0
"""Seconds in which an index must be built: a collection that others filled may be large."""

Ask = Callable[[Callable[[QdrantClient], Coroutine[Any, Any, Any]], float], Any]


def ensure_collections(settings: Settings, in_process: InProcess, *, writes: bool = True) -> "Ensured":
    """Create the collections that don't exist, and the indexes that those of rankstream's own lack.

    `writes`: documents will be written to each collection, so one of another program is refused. Raises ConfigError,
    before anything is made, and BackendError.
    """
    from operators.indexing.collection import ensure

    with open_client(settings, in_process) as ask:
        purposes, model = settings.embedder.purposes, clients.embedder_model(settings.embedder)
        ensured: Ensured = ask(
            lambda client: ensure(client, settings.qdrant, _TIMEOUT, writes=writes, purposes=purposes, model=model),
            _TIMEOUT,
        )
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
                replace(client, backend=client.backend.endpoint), settings.qdrant, needs(settings.qdrant), timeout
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
                take, settings=settings.qdrant, step=step, timeout=_BUILDING, purposes=purposes, model=model
            )
            ask(taken, _BUILDING)
            yield step


@contextmanager
def open_client(settings: Settings, in_process: InProcess) -> Iterator[Ask]:
    """Gives a function that calls Qdrant outside of the flows. Raises ConfigError."""
    calls = EventLoopThread(Wakeup())
    client = clients.qdrant(settings, lambda: in_process.engine, in_process.metrics("indexing"))
    try:
        yield lambda work, timeout: calls.run(work(client), timeout)
    finally:
        calls.run(client.backend.aclose(), _TIMEOUT)
        calls.close()
