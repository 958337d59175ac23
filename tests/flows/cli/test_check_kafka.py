"""`rankstream check --part kafka` on a real broker: what the flows need of it, and what to do where it lacks."""

import contextlib
import json
import os
import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kafka
import pytest
import yaml
from kafka.errors import IncompatibleBrokerVersion
from structlog.testing import capture_logs

from bench.kafka.broker import Broker
from bench.ports import free_port
from flows.assembly.delivery import kafka_client
from operators.delivery import broker as broker_module
from operators.delivery.broker import require_features
from operators.delivery.topics import DEFAULT_MAX, max_message_bytes
from schemas.errors import FatalDelivery
from schemas.settings import load
from tests import warm
from tests.flows.cli.running import Command
from tests.kafka.interceptor import Interceptor
from tests.kafka.registry import Registry, basic
from tests.operators.delivery.members import member

ROLES = ("queries", "results", "dead_letters", "documents", "watermarks")


@pytest.fixture
def command(
    broker: Broker, tmp_path: Path, topic_names: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """The command line, configured for topics that don't exist yet."""
    topics = {role: topic_names(role.replace("_", "-")) for role in ROLES}
    kafka = {"bootstrap_servers": broker.bootstrap, "group_id": topic_names("group"), "topics": topics, "partitions": 1}
    return Command(tmp_path, monkeypatch, {"kafka": kafka, "qdrant": {"path": str(tmp_path / "index"), "dimension": 4}})


def findings(command: Command, *, code: int) -> dict[str, dict[str, Any]]:
    """By subject, what is found; the command must end with this exit code."""
    done = command("check", "--part", "kafka", "--json")
    assert done.exit_code == code, done.output
    rows: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(row["remedy"] for row in rows if row["level"] != "ok")
    return {row["subject"]: row for row in rows}


def test_topics_that_are_missing_are_named_until_they_are_made(command: Command) -> None:
    """The error names them and the command, after which every line is ok."""
    found = findings(command, code=1)["kafka topics"]
    assert found["level"] == "error"
    assert all(name in found["what"] for name in command.settings["kafka"]["topics"].values())
    assert "rankstream topics" in found["remedy"]
    assert command("topics").exit_code == 0
    assert {row["level"] for row in findings(command, code=0).values()} == {"ok"}


@pytest.mark.parametrize("client", ["kafka-python", "librdkafka"])
def test_nothing_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: str, broker_tools: None) -> None:
    """A broker that creates each topic that it is asked for has none after the check, nor after a query in vain."""
    with Broker(auto_create=True) as broker:
        kafka_section = {"bootstrap_servers": broker.bootstrap, "client": client}
        settings = {"kafka": kafka_section, "qdrant": {"path": str(tmp_path / "index"), "dimension": 4}}
        command = Command(tmp_path, monkeypatch, settings)
        assert "topics that do not exist" in findings(command, code=1)["kafka topics"]["what"]
        assert command("query", "where", "--timeout", "1").exit_code == 1
        with broker.admin() as admin:
            assert [name for name in admin.list_topics() if not name.startswith("__")] == []


def test_topics_with_settings_that_hurt_are_warnings(command: Command, broker: Broker) -> None:
    """Watermarks that aren't compacted, and dead letters without room; the flows work all the same."""
    topics = command.settings["kafka"]["topics"]
    for name in topics.values():
        broker.create_topic(name, 1)
    found = findings(command, code=0)
    for role, setting in (("watermarks", "cleanup.policy"), ("dead_letters", "max.message.bytes")):
        row = found[f"kafka {topics[role]}"]
        assert row["level"] == "warning"
        assert setting in row["remedy"]


def test_a_group_without_a_member_is_a_warning_once_messages_wait(command: Command, broker: Broker) -> None:
    """It says how many, and which command reads them; with a member there is nothing to do."""
    assert command("topics").exit_code == 0
    kafka_section = command.settings["kafka"]
    group, queries = kafka_section["group_id"], kafka_section["topics"]["queries"]
    found = findings(command, code=0)
    assert found[f"kafka group {group}"]["what"] == f"0 members, lag 0 on {queries}"
    assert found[f"kafka group {group}-indexing"]["level"] == "ok"
    with contextlib.closing(kafka.KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        for _ in range(3):
            producer.send(queries, b"{}")
        producer.flush()
    waiting = findings(command, code=0)[f"kafka group {group}"]
    assert (waiting["level"], waiting["what"]) == ("warning", f"0 members, lag 3 on {queries}: nobody reads it")
    assert "rankstream run" in waiting["remedy"]
    settings = load(None, {"kafka": kafka_section, "qdrant": command.settings["qdrant"]}).kafka
    with member(kafka_client(settings), settings):
        read = findings(command, code=0)[f"kafka group {group}"]
    assert (read["level"], read["what"]) == ("ok", f"1 member, lag 3 on {queries}")


TRANSACTIONS = {24, 25, 26, 28}
CONFIGS, GROUPS, CREATES = 32, 15, 19


@pytest.fixture
def lesser(broker: Broker, command: Command) -> Iterator[Interceptor]:
    """The broker as one that lacks kinds of requests; its topics exist."""
    assert command("topics").exit_code == 0
    with Interceptor("127.0.0.1", broker.port) as wire:
        command.settings["kafka"]["bootstrap_servers"] = f"127.0.0.1:{wire.port}"
        yield wire


def test_a_broker_without_transactions_is_named_with_the_cure(command: Command, lesser: Interceptor) -> None:
    """`check` and the start say so, and that delivery.mode mends it; with that, there is nothing to mend."""
    lesser.lacking = frozenset(TRANSACTIONS)
    found = findings(command, code=1)
    assert found["kafka features"]["level"] == "error"
    assert found["kafka features"]["what"] == "the broker has no transactions: no flow can deliver exactly once"
    assert "delivery.mode to at_least_once" in found["kafka features"]["remedy"]
    assert "kafka transactions" not in found
    settings = load(None, {"kafka": command.settings["kafka"], "qdrant": command.settings["qdrant"]}).kafka
    with pytest.raises(FatalDelivery, match=r"has no transactions: .* Set delivery\.mode to at_least_once"):
        require_features(settings, "librdkafka", "exactly_once")
    require_features(settings, "librdkafka", "at_least_once")
    command.settings["delivery"] = {"mode": "at_least_once"}
    assert "kafka features" not in findings(command, code=0)


def test_a_broker_that_tells_no_sizes_is_taken_for_kafka(
    command: Command, lesser: Interceptor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`check` and the start warn, and the flows take Kafka's default size for every topic."""
    lesser.lacking = frozenset({CONFIGS})

    def refuse(*_: object, **__: object) -> None:
        raise IncompatibleBrokerVersion

    # Clients are sent on to the broker itself, which has it.
    monkeypatch.setattr(kafka.KafkaAdminClient, "describe_configs", refuse)
    found = findings(command, code=0)
    assert found["kafka features"]["level"] == "warning"
    assert "DescribeConfigs" in found["kafka features"]["what"]
    settings = load(None, {"kafka": command.settings["kafka"], "qdrant": command.settings["qdrant"]}).kafka
    with capture_logs() as lines:
        require_features(settings, "librdkafka", "exactly_once")
    assert [line["feature"] for line in lines] == ["DescribeConfigs"]
    names = [settings.topics.results, settings.topics.dead_letters]
    assert max_message_bytes(settings, names) == dict.fromkeys(names, DEFAULT_MAX)


def test_what_a_broker_lacks_for_commands_is_named(command: Command, lesser: Interceptor) -> None:
    """Without DescribeGroups the lag is told all the same; the flows need neither that nor CreateTopics."""
    lesser.lacking = frozenset({GROUPS, CREATES})
    done = command("check", "--part", "kafka", "--json")
    assert done.exit_code == 0
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["what"].split(":")[0] for row in rows if row["subject"] == "kafka features"] == [
        "the broker has no DescribeGroups",
        "the broker has no CreateTopics",
    ]
    group, queries = command.settings["kafka"]["group_id"], command.settings["kafka"]["topics"]["queries"]
    assert f"members not known, lag 0 on {queries}" in [
        row["what"] for row in rows if row["subject"] == f"kafka group {group}"
    ]


def test_a_rack_that_changes_nothing_is_named(
    command: Command, lesser: Interceptor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker whose Fetch is older than KIP-392 lets nobody read from followers."""
    monkeypatch.setattr(broker_module, "NEAREST", broker_module.NEAREST._replace(requests={1: 1000}))
    assert "kafka features" not in findings(command, code=0)
    command.settings["kafka"]["rack"] = "zone-a"
    assert "kafka.rack changes nothing" in findings(command, code=0)["kafka features"]["what"]


def test_a_schema_registry_is_asked_if_there_is_one(command: Command, tmp_path: Path) -> None:
    """It answers, or the finding says why not, with the cure."""
    assert command("topics").exit_code == 0
    with Registry(basic("rankstream", "secret")) as registry:
        section = {
            "url": registry.base_url,
            "username": "rankstream",
            "password_file": str(tmp_path / "password"),
        }
        command.settings["kafka"]["schema_registry"] = section
        (tmp_path / "password").write_text("secret\n")
        assert findings(command, code=0)["kafka schema registry"]["what"] == f"{registry.base_url} answers"
        (tmp_path / "password").write_text("wrong")
        refused = findings(command, code=1)["kafka schema registry"]
    assert refused["what"].startswith("kafka.schema_registry: HTTP 401: correct its username")
    assert "correct the section kafka.schema_registry" in refused["remedy"]


def test_without_a_broker_the_address_is_said(command: Command) -> None:
    """One line, at once."""
    command.settings["kafka"]["bootstrap_servers"] = f"127.0.0.1:{free_port()}"
    (row,) = findings(command, code=1).values()
    assert row["what"].endswith("(connection refused)")
    assert row["remedy"] == "Start it, or correct kafka.bootstrap_servers."


@pytest.mark.parametrize("client", ["kafka-python", "librdkafka"])
def test_what_the_client_logs_is_in_the_finding_alone(tmp_path: Path, client: str) -> None:
    """Standard error stays empty where something else than Kafka listens, and ends each connection."""

    class Closes(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Closes) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        file = tmp_path / "rankstream.yaml"
        address = f"127.0.0.1:{server.server_address[1]}"
        kafka_section = {"bootstrap_servers": address, "client": client, "request_timeout": 4}
        file.write_text(yaml.safe_dump({"kafka": kafka_section, "qdrant": {"path": str(tmp_path / "index")}}))
        done = warm.run(["check", "--part", "kafka", "--config", str(file)], os.environ, 120)
        server.shutdown()
    assert (done.returncode, done.stderr) == (1, "")
    assert "bootstrap_servers" in done.stdout
