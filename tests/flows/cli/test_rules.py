"""`rankstream rules`: rules of a file on their topic, a list of those that are there, and a test of a text."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kafka
import pytest
from rich.console import Console
from typer.testing import Result

from bench.kafka.broker import Broker
from flows.cli.ingestion import index_once
from flows.process.embedded import embedded_settings, start_with_settings
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


def test_what_no_document_has_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A field, a document and a namespace that a rule names and the index lacks; the rule works all the same."""
    settings: dict[str, Any] = {
        "qdrant": {"path": str(tmp_path / "index"), "indexes": {"price": "float"}},
        "embedder": {"kind": "none"},
    }
    documents = [{"id": "q60", "namespace": "shop", "title": "Television", "price": 5, "sizes": [{"eu": 42}]}]
    with start_with_settings(embedded_settings(tmp_path / "index", settings)) as flow:
        index_once(flow, "shop", lambda: enumerate(documents, 1), "1", tmp_path / "index", Console(quiet=True))
    prize = [{"field": "prize", "op": "range", "value": {"lt": 9}}]
    sizes = [{"field": "sizes", "op": "nested", "value": [{"field": "eu", "op": "eq", "value": 42}]}]
    rules: dict[str, dict[str, Any]] = {
        "fine": {"pin": [{"id": "q60", "position": 1}], "boost": {"field": "price"}, "bury": {"filters": sizes}},
        "pin": {"pin": [{"id": "q60", "position": 1}, {"id": "q61", "position": 2}]},
        "bury": {"bury": {"ids": ["q61"], "filters": [{"any_of": prize}]}},
        "boost": {"boost": {"field": "sold"}},
    }
    lines = [{"namespace": "shop", "id": id_, "then": then} for id_, then in rules.items()]
    lines += [{"namespace": "shpo", "id": "typo", "then": rules["boost"]}]
    lines += [
        {"namespace": "*", "id": "all", "when": {"exact": "dear"}, "then": {"rewrite": {"order_by": {"field": "age"}}}}
    ]
    command = Command(tmp_path, monkeypatch, settings)
    asked = ("rules", "test", "tv", "--file", write(tmp_path / "rules.jsonl", *lines), "--namespace")
    done = command(*asked, "shop")
    assert [each["id"] for each in printed(done)[:-1]] == sorted(rules)
    assert done.stderr.splitlines() == [
        "rules of *: all: no document has the field `age`",
        "rules of shop: boost: no document has the field `sold`",
        "rules of shop: bury: no document has the field `prize`; did you mean `price`?",
        "rules of shop: bury, pin: no document is `q61`",
    ]
    typo = command(*asked, "shpo").stderr.splitlines()
    assert typo[1:] == ["rules of shpo: typo: no document has the field `sold`"]
    settings["qdrant"]["path"] = str(tmp_path / "none")
    assert command(*asked, "shop").stderr == ""
    assert not (tmp_path / "none").exists()


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
