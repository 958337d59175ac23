"""`rankstream rules`: rules of a file on their topic, a list of those that are there, and a test of a text."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kafka
import pytest
from typer.testing import Result

from bench.kafka.broker import Broker
from schemas.rule import rule_key
from tests.flows.cli.running import Command

TV = {"namespace": "n", "id": "tv", "then": {"synonyms": {"words": ["tv", "television"]}}}
PIN = {
    "namespace": "*",
    "id": "pin",
    "when": {"contains": "television", "sources": ["web"]},
    "then": {"pin": [{"id": "a", "position": 1}]},
}


def write(path: Path, *lines: Any) -> str:
    """A file of rules."""
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return str(path)


def printed(done: Result) -> list[Any]:
    """The objects that a command printed; it must succeed."""
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_rules_are_put_listed_and_removed(
    broker: Broker, tmp_path: Path, topic_names: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that is no rule is named with its place, and the rule before stays."""
    topic, file = topic_names("rules"), tmp_path / "rules.jsonl"
    section = {"bootstrap_servers": broker.bootstrap, "topics": {"rules": topic}}
    broker.create_topic(topic, 1, {"cleanup.policy": "compact"})
    command = Command(tmp_path, monkeypatch, {"kafka": section, "qdrant": {"path": str(tmp_path / "index")}})
    assert command("rules", "put", "--file", write(file, TV, PIN)).stdout == "2 rules were put\n"
    assert printed(command("rules", "list")) == [PIN, TV]
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap)
    producer.send(topic, key=rule_key("n", "tv"), value=b'{"then": {}}').get(10)
    producer.close()
    done = command("rules", "list", "--namespace", "n")
    assert printed(done) == [TV]
    assert f"{topic}:0:2: no rule: then:" in " ".join(done.stderr.split())
    removed = {"namespace": "n", "id": "tv", "then": None}
    assert command("rules", "put", "--file", write(file, removed)).exit_code == 0
    assert printed(command("rules", "list")) == [PIN]
    assert printed(command("rules", "test", "television", "--namespace", "n", "--source", "web"))[0]["id"] == "pin"


def test_rules_make_no_topic(
    broker: Broker, tmp_path: Path, topic_names: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that creates topics would make one that loses rules: the command names the one that makes it whole."""
    topic = topic_names("rules")
    section = {"bootstrap_servers": broker.bootstrap, "topics": {"rules": topic}}
    command = Command(tmp_path, monkeypatch, {"kafka": section, "qdrant": {"path": str(tmp_path / "index")}})
    done = command("rules", "put", "--file", write(tmp_path / "rules.jsonl", TV))
    assert done.exit_code == 1
    assert f"topic {topic} doesn't exist; `rankstream topics` creates it" in str(done.exception)
    assert topic not in kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap).list_topics()


def test_a_file_with_a_broken_rule_is_not_put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each broken line is named, and the broker, which is none, is not asked."""
    section = {"bootstrap_servers": "127.0.0.1:9", "topics": {"rules": "rules"}}
    command = Command(tmp_path, monkeypatch, {"kafka": section, "qdrant": {"path": str(tmp_path / "index")}})
    broken = {"namespace": "n", "id": "x", "then": {"pin": [{"id": "a", "position": 0}]}}
    write(file := tmp_path / "rules.jsonl", TV, broken, {"then": TV["then"]})
    file.write_text(f'{file.read_text()}{{"namespace": "n"')
    done = command("rules", "put", "--file", str(file))
    assert done.exit_code == 1
    said = " ".join(done.stderr.split())
    assert "line 2: no rule: then.pin.0.position" in said
    assert "line 3: no rule: key: namespace and id are expected" in said
    assert "rules.jsonl: line 4: no rule: not JSON" in said
    assert "line 1" not in said


def test_a_text_is_tested_with_a_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No topic and no broker are needed; a synonym triggers the pin, for its source alone."""
    command = Command(tmp_path, monkeypatch, {"qdrant": {"path": str(tmp_path / "index")}})
    file = write(tmp_path / "rules.jsonl", TV, PIN)
    synonym = {"id": "tv", "synonym": "television", "weight": 0.5}
    asked = ("rules", "test", "TV", "--file", file, "--namespace", "n")
    assert printed(command(*asked)) == [synonym, {"text": "TV"}]
    assert printed(command(*asked, "--source", "web")) == [{"id": "pin", "then": PIN["then"]}, synonym, {"text": "TV"}]
    assert printed(command("rules", "test", "TV", "--file", file)) == [{"text": "TV"}]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("put",), "--file"), (("test",), "TEXT"), (("list",), "kafka.topics.rules"), (("drop",), "drop")],
)
def test_what_is_missing_is_named(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The argument or the setting."""
    command = Command(tmp_path, monkeypatch, {"qdrant": {"path": str(tmp_path / "index")}})
    done = command("rules", *arguments)
    assert done.exit_code != 0
    assert said in done.stderr + str(done.exception)
