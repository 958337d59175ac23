"""Subjects: the processes under test, and how each is started among the same broker and backends."""

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.peers.backends import CANDIDATES
from bench.peers.process import Place
from bench.ports import free_port
from schemas.settings import KafkaSettings

CONCURRENCY: Final = 128
"""Calls to the reranker under way at most: as many as a peer has queries."""

_PATIENCE: Final = 30.0
"""Seconds for the broker to create a topic."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The surroundings of a subject: topics and a group of its own, backends, and a directory to write in."""

    kafka: KafkaSettings
    qdrant: str
    rerank: str
    embed: str
    otlp: str
    directory: Path
    replica: str = "bench-0"

    def create_topic(self, name: str, **config: str) -> None:
        """Create a topic of four partitions. Raises KafkaException."""
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers})
        [made] = admin.create_topics([NewTopic(name, 4, config=config)]).values()
        made.result(_PATIENCE)


@dataclass(frozen=True, slots=True)
class Launch:
    """A command that stays in the foreground until SIGTERM, the URL that answers 200 once it takes queries, and what
    its environment has beside the bench's own.
    """

    command: Sequence[str]
    ready: str
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Subject:
    """One process that answers query events with result events, or indexes documents, by its name in the report.

    `embeds`: queries that it is asked on a real server come without vectors. `corpus`: it has an index of its own, of
    the corpus, whose words its queries then have.
    """

    name: str
    launch: Callable[[Surroundings], Launch]
    embeds: bool = False
    corpus: bool = False


def launch(
    client: str,
    around: Surroundings,
    over: Mapping[str, Any] | None = None,
    variables: Mapping[str, str] | None = None,
    program: str = "flows.cli",
    command: str = "run",
) -> Launch:
    """Start the search flow on a Kafka client, whole sections of its settings from `over`, by the module `program`; by
    the command `index` the indexing flow.
    """
    port = free_port()
    settings = {
        "kafka": {**around.kafka.model_dump(mode="json", exclude_unset=True), "client": client},
        "delivery": {"replica": around.replica},
        "qdrant": {"url": around.qdrant},
        "embedder": {"kind": "none"},
        "profiles": {"balanced": {"over_sample": CANDIDATES, "rerank_top": CANDIDATES}},
        "rerank": {"kind": "cohere", "url": around.rerank, "max_concurrency": CONCURRENCY, "cache": 0},
        # The peers keep no answers.
        "cache": {"exact_mib": 0, "semantic_mib": 0},
        "telemetry": {"host": "127.0.0.1", "port": port},
        **(over or {}),
    }
    config = around.directory / "rankstream.yaml"
    # JSON is YAML.
    config.write_bytes(orjson.dumps(settings, option=orjson.OPT_INDENT_2))
    words = [sys.executable, "-m", program, command, "--config", str(config)]
    return Launch(words, f"http://127.0.0.1:{port}/readyz", variables or {})


RANKSTREAM: Final = {
    client: Subject(client, functools.partial(launch, client)) for client in ("kafka-python", "librdkafka")
}
"""The search flow by the Kafka client that it runs on."""


def place_of(around: Surroundings, collection: str = "documents") -> Place:
    """The place of a hand-written service."""
    kafka = around.kafka
    return Place(
        bootstrap=kafka.bootstrap_servers,
        group=kafka.group_id,
        queries=kafka.topics.queries,
        results=kafka.topics.results,
        dead_letters=kafka.topics.dead_letters,
        documents=kafka.topics.documents,
        qdrant=around.qdrant,
        collection=collection,
        rerank=around.rerank,
        embed=around.embed,
        port=free_port(),
    )


def launch_peer(module: str, place: Place) -> Launch:
    """Start the hand-written service of a module."""
    command = [sys.executable, "-m", f"bench.peers.{module}", *place.arguments()]
    return Launch(command, f"http://127.0.0.1:{place.port}/readyz")


def peer(module: str, around: Surroundings, collection: str = "documents") -> Launch:
    """Start a hand-written service whose backends are servers."""
    return launch_peer(module, place_of(around, collection))


ASYNCIO: Final = "asyncio"
"""The subject that everything else is compared with."""

PEERS: Final = {
    name: Subject(name, functools.partial(peer, module))
    for name, module in (
        (ASYNCIO, "asyncio_service"),
        ("transactions", "transactional_service"),
        ("faststream", "faststream_service"),
    )
}
"""Services as teams write them by hand, by name."""


def environment() -> dict[str, str]:
    """The environment of a subject: this process's, without settings that would go over those it is given."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RANKSTREAM_")}
