"""Replay on a real broker: what a dry run shows is what goes back, untouched, once, and is answered."""

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.kafka.broker import Broker
from bench.stubs import stub_backends
from tests import warm
from tests.integration.deployment import PATIENCE, Deployment, assert_each_once

HEADERS = [("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), ("x", b"\x00\xff"), ("x", b"")]
BROKEN = b"{"
ELSEWHERE = [json.dumps({"query_id": f"e{n}", "text": "harbor", "destination": "late"}).encode() for n in range(6)]
LONG = [json.dumps({"query_id": f"l{n}", "text": "y" * 3000}).encode() for n in range(4)]


@pytest.fixture(params=["kafka-python", "librdkafka"])
def deployment(
    request: pytest.FixtureRequest, broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]
) -> Iterator[Deployment]:
    """The search flow, with a bound on messages that the long queries are over; all of it by either Kafka client."""
    with stub_backends() as stubs:
        sections = {"qdrant": {"url": stubs.qdrant}, "limits": {"max_message_bytes": 2000}}
        with Deployment.on(broker, tmp_path, topic_names, sections) as running:
            running.settings["kafka"]["client"] = request.param
            yield running


def replay(deployment: Deployment, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    config = deployment.directory / "replay.yaml"
    config.write_text(yaml.safe_dump(deployment.settings))
    env = {name: value for name, value in os.environ.items() if not name.startswith("RANKSTREAM_")}
    return warm.run(["replay", "--config", str(config), *arguments], env, PATIENCE)


def reported(deployment: Deployment, *arguments: str) -> dict[str, Any]:
    """The summary of a replay that succeeds."""
    done = replay(deployment, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def poisoned(deployment: Deployment) -> None:
    """Dead letters of three kinds, made by a flow that has ended since."""
    flow = deployment.start()
    deployment.produce("queries", [BROKEN, *ELSEWHERE, *LONG], HEADERS)
    output_records = deployment.output_records(1 + len(ELSEWHERE) + len(LONG))
    assert Counter(each.kind for each in output_records) == {"not_json": 1, "invalid": 6, "too_large": 4}
    assert flow.terminate() == 0


@pytest.mark.both_clients
def test_from_poison_to_answers(deployment: Deployment) -> None:
    """A dry run sends nothing; after a change of the configuration the letters go back, once, and are answered."""
    poisoned(deployment)
    before = deployment.records("queries")

    done = replay(deployment, "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert Counter(row["class"] for row in rows) == {"not_json": 1, "invalid": 6, "too_large": 4}
    assert {row["place"] for row in rows} == {f"{r.topic}:{r.partition}:{r.offset}" for r in before}
    (stage,) = {row["stage"] for row in rows}
    assert "11 matched; 11 would be sent" in done.stderr
    assert len(deployment.records("queries")) == len(before)

    deployment.settings["limits"] = {"max_message_bytes": 100_000}
    deployment.settings["qdrant"]["destinations"] = {"default": "documents", "late": "documents"}
    deployment.start()
    wanted = ("--class", "too_large", "--class", "invalid", "--stage", stage, "--rate", "1000")
    summary = reported(deployment, *wanted, "--topic", deployment.names["queries"])
    assert summary == {
        "matched": 10,
        "sent": 10,
        "skipped": {"no_payload": 0, "other_topic": 0, "returned": 0},
        "failed": [],
        "foreign": 0,
    }

    output_records = deployment.output_records(len(before) + 10)
    assert_each_once(deployment, output_records)
    answered = {each.value["query_id"] for each in output_records if each.kind == "result"}
    assert answered == {f"e{n}" for n in range(6)} | {f"l{n}" for n in range(4)}


def test_what_goes_back_is_the_message_itself(deployment: Deployment) -> None:
    """Key, value and headers are the original's, byte for byte; the timestamp is new."""
    poisoned(deployment)
    before = deployment.records("queries")
    assert reported(deployment, "--all", "--rate", "1000")["sent"] == len(before)
    places = {(record.partition, record.offset) for record in before}
    after = [r for r in deployment.records("queries") if (r.partition, r.offset) not in places]
    originals = {record.value: record for record in before}
    assert {record.value for record in after} == originals.keys()
    assert len(after) == len(before)
    for record in after:
        original = originals[record.value]
        assert (record.key, record.headers[:-1]) == (original.key, original.headers)
        assert record.headers[:-1] == HEADERS
        place = f"{original.topic}:{original.partition}:{original.offset} "
        assert record.headers[-1][0] == "rankstream.replayed"
        assert record.headers[-1][1].startswith(place.encode())
        assert record.timestamp > original.timestamp


@pytest.mark.both_clients
def test_what_came_back_is_not_sent_again(deployment: Deployment) -> None:
    """Nor the letter that it was made of, until told; and without a filter nothing is sent, but said."""
    poisoned(deployment)
    before = len(deployment.records("queries"))
    refused = replay(deployment)
    assert refused.returncode == 2
    said = " ".join(refused.stderr.replace("\N{BOX DRAWINGS LIGHT VERTICAL}", " ").split())
    assert "11 messages would be sent: 6 of class invalid, 1 of class not_json, 4 of class too_large" in said
    assert "--all" in said
    assert len(deployment.records("queries")) == before

    assert reported(deployment, "--class", "invalid")["sent"] == 6
    flow = deployment.start()
    deployment.output_records(before + 6)
    assert flow.terminate() == 0
    summary = reported(deployment, "--class", "invalid")
    assert (summary["matched"], summary["sent"], summary["skipped"]["returned"]) == (12, 0, 12)
    summary = reported(deployment, "--all")
    assert (summary["sent"], summary["skipped"]["returned"]) == (5, 12)
    assert reported(deployment, "--class", "invalid", "--again")["sent"] == 12


def test_one_place_and_a_limit(deployment: Deployment) -> None:
    """A place that the dry run names is replayed alone; a limit ends the replay; what is in the future isn't found."""
    poisoned(deployment)
    place = json.loads(replay(deployment, "--dry-run", "--json", "--limit", "1").stdout)["place"]
    assert reported(deployment, "--offset", place)["sent"] == 1
    assert reported(deployment, "--all", "--limit", "3")["sent"] == 3
    assert reported(deployment, "--since", "2100-01-01T00:00:00Z")["matched"] == 0
    assert reported(deployment, "--until", "946684800")["matched"] == 0
    assert len(deployment.records("queries")) == 11 + 1 + 3


def test_a_topic_that_takes_less_now_is_said(deployment: Deployment) -> None:
    """A record that its topic refuses is named, those after it are sent, and the exit code is 1."""
    poisoned(deployment)
    deployment.broker.alter_topic(deployment.names["queries"], "max.message.bytes", "400")
    deployment.settings["kafka"]["compression"] = None
    done = replay(deployment, "--all", "--json")
    assert done.returncode == 1
    summary = json.loads(done.stdout)
    assert (summary["matched"], summary["sent"], len(summary["failed"])) == (11, 7, 4)


def test_letters_that_cannot_go_back_are_counted(deployment: Deployment) -> None:
    """Letters without payload, from other topics and records that are no letters are told from those that are sent."""
    place = [("__connect.errors.partition", b"0"), ("__connect.errors.offset", b"3")]
    own = [("__connect.errors.topic", deployment.names["queries"].encode()), *place]
    deployment.produce("dead_letters", [b"{}"], own)
    deployment.produce("dead_letters", [None], own)
    deployment.produce("dead_letters", [b"{}"], [("__connect.errors.topic", b"elsewhere"), *place])
    deployment.produce("dead_letters", [b"{}"])
    done = replay(deployment, "--all")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        "3 matched; 1 sent; 1 skipped, without payload and without an original;"
        " 1 skipped, from a topic that isn't configured",
        "no dead letters: 1",
    ]
    assert [record.value for record in deployment.records("queries")] == [b"{}"]


def test_what_a_letter_does_not_hold_is_read_where_it_came_from(deployment: Deployment) -> None:
    """The original of a letter without payload goes back whole. Where another message is in its place, or none is left,
    the letter is skipped.
    """
    deployment.produce("queries", [b"first", b"second"], HEADERS)
    first, second = sorted(deployment.records("queries"), key=lambda record: record.key)

    def letter(partition: int, offset: int) -> None:
        place = {"topic": deployment.names["queries"], "partition": str(partition), "offset": str(offset)}
        # As the first message, they have the key 0.
        own = [(f"__connect.errors.{name}", value.encode()) for name, value in place.items()]
        deployment.produce("dead_letters", [None], own)

    letter(first.partition, first.offset)
    letter(second.partition, second.offset)
    letter(first.partition, first.offset + 1000)
    done = replay(deployment, "--all", "--rate", "1000")
    assert done.stderr == "3 matched; 1 sent; 2 skipped, without payload and without an original\n"
    sent = [each for each in deployment.records("queries") if each.value == b"first"]
    assert [(each.key, each.headers[: len(HEADERS)]) for each in sent] == [(first.key, first.headers)] * 2


def test_without_the_topic_it_is_named(deployment: Deployment) -> None:
    """A dead-letter topic that doesn't exist is named, with the command that makes it, exit 1."""
    deployment.settings["kafka"]["topics"] = {**deployment.names, "dead_letters": "nowhere"}
    done = replay(deployment, "--dry-run")
    assert done.returncode == 1
    assert "topic nowhere doesn't exist; `rankstream topics` creates it" in done.stderr
