"""Three running deployments that the tests of the cascade share, each started once: `kitchen`, `vault` and `plain`.

A plugin of these tests (`pytest_plugins`), so that a deployment isn't started anew for every file.
"""

from collections.abc import Iterator

import pytest

from bench.kafka.broker import Broker
from tests.integration.cascade import System, running
from tests.integration.cascade_backends import Backends
from tests.integration.cascade_documents import CREW, KITCHEN, LOG, PLAIN, VAULT
from tests.integration.cascade_sources import IDENTITY, SECRET, SEEING, SOURCES, by
from tests.otlp import Receiver


@pytest.fixture(scope="session")
def kitchen(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """MiniLM and late interaction, a signed cursor, sources by the event, no firewall; KITCHEN, LOG and CREW in it."""
    directory = tmp_path_factory.mktemp("kitchen")
    sections = {
        "embedder": {"kind": "minilm", "timeout": 20},
        "rerank": {"kind": "late_interaction", "timeout": 20},
        "qdrant": {
            "destinations": {"default": "documents", "elsewhere": "elsewhere"},
            "collections": {"default": {"notes": "notes"}},
            "indexes": {"size": "integer", "shelf": "integer", "weight": "float", "when": "datetime"},
        },
        "defaults": {"namespace": "kitchen"},
        "policies": {"sources": SOURCES, "default": {"deny": {"namespaces": ["forbidden"]}}},
        "profiles": {"widest": {"over_sample": 1000}},
        "cache": {"watermark_timeout": 10.0},
        "cursor": {"signing_secret_file": str(directory / "secret")},
    }
    (directory / "secret").write_text(SECRET)
    with running(broker, directory, sections, namespace="kitchen") as system:
        system.write([*KITCHEN, *LOG, *CREW])
        yield system


@pytest.fixture(scope="session")
def plain(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """No embedder, reranker or secret; sources by the topic, words without an analyser, answers kept for 5 seconds."""
    sections = {
        "qdrant": {"bm25": {"language": "none"}},
        "policies": {
            "identity": {"by": "topic", "topics": {"QUERIES": "bridge"}},
            "default": {"read": False},
            "sources": {"bridge": {"deny": {"profiles": ["deep"]}}, "boss": {"clearance": "restricted"}},
        },
        "firewall": {"enabled": False},
        "cache": {"watermark_timeout": 10.0, "ttl": 5.0},
    }
    with running(broker, tmp_path_factory.mktemp("plain"), sections, namespace="plain") as system:
        system.write(PLAIN)
        yield system


@pytest.fixture(scope="session")
def backends() -> Backends:
    """The vault's embedder and reranker."""
    return Backends()


@pytest.fixture(scope="session")
def collector() -> Iterator[Receiver]:
    """The exporter of the vault's spans."""
    with Receiver() as receiver:
        yield receiver


@pytest.fixture(scope="session")
def vault(
    broker: Broker, tmp_path_factory: pytest.TempPathFactory, backends: Backends, collector: Receiver
) -> Iterator[System]:
    """The firewall on, sources by a header, an embedder that fails on demand, a reranker that keeps what it reads."""
    with backends.serving() as (embedder, reranker):
        sections = {
            "embedder": {"kind": "openai", "url": embedder, "timeout": 5.0},
            "rerank": {"kind": "cohere", "url": reranker, "timeout": 20, "cache": 0},
            "firewall": {
                "enabled": True,
                "blocked_labels": ["sealed"],
                "required_labels": ["live"],
                "namespaces": {"board": "confidential"},
            },
            "policies": {"identity": {"by": "header", "header": IDENTITY}, "sources": SEEING},
            "cache": {"watermark_timeout": 10.0},
            "telemetry": {"host": "127.0.0.1", "record_content": True},
        }
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "100"}
        with running(
            broker,
            tmp_path_factory.mktemp("vault"),
            sections,
            namespace="vault",
            probe=by("restricted"),
            environment=environment,
        ) as system:
            system.write(VAULT)
            yield system
