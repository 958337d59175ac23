"""Everything in one process: a broker, the index, the model and both flows, on a machine with nothing but Python."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partialmethod
from pathlib import Path
from typing import Any, Final

from opentelemetry.trace import TracerProvider

from flows.assembly.clients import InProcess
from flows.assembly.delivery import kafka_client
from flows.process.replica import Replica, freeze_heap, indexing_replica, search_replica
from operators.delivery.client import KafkaClient
from operators.delivery.embedded_broker import EmbeddedBroker
from schemas.errors import FatalDelivery
from schemas.fields import merge_objects
from schemas.settings import DeliverySettings, QdrantSettings, Settings, load
from schemas.settings.section import Backend, Section

_DELIVERY: Final[Mapping[str, Any]] = {"mode": "at_least_once", "transaction_interval": 0.005}
"""The broker has no transactions."""

_VECTORS: Final = {"fuzzy": "fuzzy"}
"""The vectors of an index that is made here, unless the configuration says otherwise."""

_TIMEOUT: Final = 20.0
"""Seconds: engine and models share the machine with everything else."""


@dataclass(frozen=True)
class Embedded:
    """A running broker, and the settings and resources with which flows run on it."""

    settings: Settings
    in_process: InProcess

    @property
    def kafka(self) -> KafkaClient:
        """The client of the broker."""
        return kafka_client(self.settings.kafka)

    @contextmanager
    def running(self, build: Callable[..., Replica]) -> Iterator[None]:
        """Run a flow in a thread of its own until the block is left. Raises what ended it otherwise."""
        replica = build(self.settings, self.in_process, embedded=True)
        freeze_heap()
        failures: list[BaseException] = []

        def run() -> None:
            try:
                replica.run()
            except BaseException as error:  # noqa: BLE001  raised where the block is left
                failures.append(error)

        thread = threading.Thread(target=run, name="flow", daemon=True)
        thread.start()
        try:
            yield
        finally:
            replica.stop()
            thread.join()
        if failures:
            raise FatalDelivery(str(failures[0])) from failures[0]

    indexing = partialmethod(running, indexing_replica)
    searching = partialmethod(running, search_replica)


def embedded_settings(index: Path, overrides: Mapping[str, Any] | None = None) -> Settings:
    """The settings of a process with everything in it but the broker; `overrides` go before. Raises ConfigError."""
    own = {
        "delivery": _DELIVERY,
        "qdrant": {"path": str(index), "timeout": _TIMEOUT, "vectors": _VECTORS},
    }
    settings = load(None, merge_objects(own, overrides or {}))
    # Behind the check of what was set: where they have no effect nobody has set them.
    timeouts = {"embedder": _TIMEOUT, "rerank": _TIMEOUT, "limits": settings.limits.max_timeout}
    sections = {name: getattr(settings, name) for name in timeouts}
    patient = {
        name: section.model_copy(update={"timeout": timeouts[name]})
        for name, section in sections.items()
        if "timeout" not in section.model_fields_set
    }
    return settings.model_copy(update=patient)


@contextmanager
def start_with_settings(
    settings: Settings, index: Path | None = None, provider: TracerProvider | None = None
) -> Iterator[Embedded]:
    """Start a broker in place of the configured one; models, recipes and index are those of the settings.

    `index`: an embedded index in this directory is used instead. The indexing flow makes its collection where there is
    none. Raises ConfigError and BackendError.
    """
    own: dict[str, Section] = {"delivery": DeliverySettings(**_DELIVERY)}
    if index is not None:
        asked = settings.qdrant.model_dump(exclude={*Backend.model_fields, "path", "create", "timeout"})
        if "fuzzy" not in settings.qdrant.vectors.model_fields_set:
            asked["vectors"] |= _VECTORS
        own["qdrant"] = QdrantSettings(**asked, path=index, timeout=_TIMEOUT)
    settings = settings.model_copy(update=own)
    topics = settings.kafka.topics
    with EmbeddedBroker() as broker:
        settings = settings.model_copy(update={"kafka": broker.client_settings(topics)})
        roles = (getattr(topics, role) for role in type(topics).model_fields if role != "reply_to")
        for topic in filter(None, roles):
            broker.create_topic(topic)
        with InProcess(settings, provider) as in_process:
            yield Embedded(settings, in_process)
