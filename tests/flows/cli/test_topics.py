"""`rankstream topics`: topics and collections of rankstream's own are made, others are named and left alone."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.kafka.broker import Broker
from operators.collections.requirements import indexes
from tests.flows.cli.running import Command
from tests.operators.indexing.asking import PLAIN, Server
from tests.qdrant_server import serve

ROLES = ("queries", "results", "dead_letters", "documents", "watermarks")


def test_a_collection_of_another_program_is_left_alone(
    broker: Broker, tmp_path: Path, topic_names: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says so each time; the topics and the other collection are made once."""
    topics = {role: topic_names(role.replace("_", "-")) for role in ROLES}
    with serve(tmp_path / "engine") as url:
        server = Server(url)
        server.put("plain", PLAIN)
        before = server.info("plain")
        qdrant = {"url": url, "dimension": 4, "destinations": {"default": "docs", "other": "plain"}}
        kafka = {"bootstrap_servers": broker.bootstrap, "group_id": topic_names("group"), "topics": topics}
        command = Command(tmp_path, monkeypatch, {"kafka": {**kafka, "partitions": 1}, "qdrant": qdrant})
        first, second = (command("topics").stdout.splitlines() for _ in range(2))
        assert sorted(first[:-2]) == sorted(f"created topic {name}" for name in topics.values())
        assert first[-2] == "created collection docs"
        assert second == first[-1:]
        assert second[0].startswith("collection plain: left alone")
        assert server.info("plain") == before
        assert server.info("docs").indexes.keys() == indexes().keys()


def test_what_the_cluster_refuses_is_said_with_the_cure(
    broker: Broker, tmp_path: Path, topic_names: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies on more brokers than there are: the setting is named, and nothing is made."""
    topics = {role: topic_names(role.replace("_", "-")) for role in ROLES}
    kafka = {"bootstrap_servers": broker.bootstrap, "topics": topics, "replication_factor": 3}
    command = Command(tmp_path, monkeypatch, {"kafka": kafka, "qdrant": {"path": str(tmp_path / "index")}})
    done = command("topics")
    assert done.exit_code == 1
    cure = "set kafka.replication_factor to a number that the cluster takes"
    assert f"InvalidReplicationFactorError; {cure}" in str(done.exception)
    with broker.admin() as admin:
        assert not set(topics.values()) & set(admin.list_topics())
