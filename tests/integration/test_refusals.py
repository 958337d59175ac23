"""Refusals on a real broker: a caller who is legible hears, with the dead letter, whatever happens to the process."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.kafka.broker import Broker
from bench.stubs import stub_backends
from operators.wire.message import Origin, result_id
from schemas import headers as names
from schemas.result import ResultEvent
from tests import warm
from tests.integration.deployment import PARTITIONS, PATIENCE, Deployment, OutputRecord, assert_each_once, wait_until
from tests.tiers import sized

REFUSED: dict[str, tuple[dict[str, Any], str | None]] = {
    "invalid": ({"text": "t", "limit": 2.5}, "limit"),
    "too_large": ({"text": "t" * 9000}, "text"),
    "unsupported_version": ({"text": "t", "schema_version": 9}, "schema_version"),
    "vector_dimension": ({"vector": [1.0]}, "vector"),
    "cursor_invalid": ({"text": "t", "cursor": "AAAA"}, "cursor"),
}
NUMBERS = b'{"query_id": "not_json", "vector": [NaN]}'


@pytest.fixture(params=["kafka-python", "librdkafka"])
def deployment(
    request: pytest.FixtureRequest, broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]
) -> Iterator[Deployment]:
    """The search flow by either Kafka client, with one more topic for results."""
    with (
        stub_backends() as stubs,
        Deployment.on(broker, tmp_path, topic_names, {"qdrant": {"url": stubs.qdrant}}) as running,
    ):
        broker.create_topic(topic_names("answers"), PARTITIONS)
        running.settings["kafka"]["client"] = request.param
        running.settings["kafka"]["topics"] = {**running.names, "reply_to": [topic_names("answers")]}
        running.settings["limits"] = {"timeout": 60}
        yield running


def refuse(deployment: Deployment, **more: Any) -> dict[str, OutputRecord]:
    """Ask what is refused, a query of each class, and return what ended it, by its query_id."""
    values = [json.dumps({"query_id": kind, **event, **more}).encode() for kind, (event, _) in REFUSED.items()]
    deployment.produce("queries", [*values, NUMBERS, b"{"])
    ended = deployment.output_records(len(values) + 2)
    assert_each_once(deployment, ended)
    assert [each.kind for each in ended if each.refusal is None] == ["not_json"]
    return {each.refusal["query_id"]: each for each in ended if each.refusal is not None}


@pytest.mark.both_clients
def test_each_class_is_heard_of(deployment: Deployment) -> None:
    """A refused query has a result `invalid` that names class and field, and its dead letter, in the same words."""
    deployment.start()
    ended = refuse(deployment)
    assert ended.keys() == REFUSED.keys() | {"not_json"}
    for kind, each in ended.items():
        refusal = each.refusal
        assert refusal is not None
        assert ResultEvent.model_validate(refusal).results == []
        assert refusal["result_id"] == result_id(Origin(*each.place, 0))
        field = REFUSED[kind][1] if kind in REFUSED else None
        why = {"class": kind, "field": field, "reason": each.headers[names.MESSAGE].decode()}
        assert (refusal["status"], refusal["error"], each.kind) == ("invalid", why, kind)


def test_the_results_are_where_they_are_asked_for(deployment: Deployment, topic_names: Callable[[str], str]) -> None:
    """A refusal goes to the topic that the query names if it may, else to the results topic, under the query's key."""
    deployment.start()
    for topic, goes_to in ((topic_names("answers"), topic_names("answers")), ("elsewhere", topic_names("results"))):
        before = len(deployment.places())
        deployment.ask([{"query_id": topic, "text": "t", "limit": 2.5, "reply_to": topic}])
        wait_until(lambda before=before: len(deployment.output_records(before + 1)) == before + 1)
        (record,) = [record for record in results(deployment, goes_to) if json.loads(record.value)["query_id"] == topic]
        assert (record.key, json.loads(record.value)["status"]) == (b"0", "invalid")


def results(deployment: Deployment, topic: str) -> list[Any]:
    """Every committed record of a topic for results."""
    return Deployment.records(
        Deployment(deployment.broker, deployment.directory, {"results": topic}, deployment.settings), "results"
    )


def test_who_wants_dead_letters_alone_has_them(deployment: Deployment) -> None:
    """With `delivery.refusals: dead_letter` nothing of a refused query is on the results topic."""
    deployment.settings["delivery"] = {"refusals": "dead_letter"}
    deployment.start()
    deployment.produce("queries", [json.dumps({"query_id": kind, **REFUSED[kind][0]}).encode() for kind in REFUSED])
    ended = deployment.output_records(len(REFUSED))
    assert sorted((each.kind, each.refusal) for each in ended) == sorted((kind, None) for kind in REFUSED)


@pytest.mark.both_clients
@pytest.mark.parametrize("mode", ["exactly_once", "at_least_once"])
def test_neither_is_there_without_the_other(deployment: Deployment, mode: str) -> None:
    """Killed three times amid its refusals: none lacks its result or its letter; with transactions each is one."""
    # Few at a time, so that there are many transactions to be cut off.
    deployment.settings["delivery"] = {"mode": mode, "max_in_flight": 16, "transaction_interval": 0.1}
    count = sized(300, nightly=1000)
    deployment.produce("queries", [json.dumps({"query_id": f"q{n}", "limit": 2.5}).encode() for n in range(count)])
    for seen in (1, count // 8, count // 4):
        flow = deployment.start(replica="a")
        answered = len(deployment.output_records(seen, settled=False))
        flow.kill()
        assert seen <= answered < count, "the kill came after the last answer"
    # Its successor answers at its own pace.
    deployment.settings["delivery"] = {"mode": mode}
    deployment.start(replica="a")
    ended = deployment.output_records(count)
    if mode == "exactly_once":
        assert_each_once(deployment, ended)
        return
    letters = [each for each in ended if each.kind == "invalid"]
    assert {each.place for each in letters} == deployment.places()
    heard = {json.loads(record.value)["query_id"] for record in deployment.records("results")}
    assert heard == {f"q{n}" for n in range(count)}


def test_the_command_says_what_was_wrong(deployment: Deployment) -> None:
    """`rankstream query` prints a refusal as one line on standard error, at once, and exits 1."""
    deployment.start()
    config = deployment.directory / "query.yaml"
    config.write_text(yaml.safe_dump(deployment.settings))
    command = ["query", "harbor", "--recipe", "nowhere", "--config", str(config)]
    for more in ([], ["--json"]):
        done = warm.run([*command, *more], os.environ, PATIENCE)
        assert done.returncode == 1
        said = done.stderr.splitlines()[-1]
        assert said.startswith("the query was refused (invalid): recipe: not configured; there are ")
        assert "Traceback" not in done.stderr
        assert (json.loads(done.stdout)["error"]["field"] if more else done.stdout) == ("recipe" if more else "")
