"""Delivery on a real broker: whatever happens to the processes, every query is answered exactly once."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.kafka.broker import Broker
from bench.stubs import stub_backends
from tests.integration.deployment import Deployment, assert_each_once, wait_until
from tests.integration.poison import POISON

QUERIES = 2000


@pytest.fixture
def deployment(broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]) -> Iterator[Deployment]:
    """The search flow before backends that take their time."""
    with stub_backends(qdrant_latency=0.01, rerank_latency=0.03) as stubs:
        sections = {
            "qdrant": {"url": stubs.qdrant},
            "rerank": {"kind": "cohere", "url": stubs.rerank},
            "limits": {"timeout": 60},
        }
        with Deployment.on(broker, tmp_path, topic_names, sections) as running:
            yield running


def numbered(count: int) -> list[bytes]:
    """Valid queries, and every kind of poison spread among them."""
    values = [json.dumps({"query_id": f"q{n}", "text": f"blue lantern {n}"}).encode() for n in range(count)]
    for number, poison in enumerate(POISON):
        values.insert((number + 1) * count // (len(POISON) + 1), poison)
    return values


def test_nothing_is_lost_or_doubled_by_kill_9(deployment: Deployment) -> None:
    """Killed in the middle of 2,000 queries and started again, the flow answers each once, poison included."""
    first = deployment.start(replica="a")
    deployment.produce("queries", numbered(QUERIES))
    answered = len(deployment.output_records(200, settled=False))
    first.kill()
    assert answered < QUERIES, "the kill came after the last answer"
    deployment.start(replica="a")
    output_records = deployment.output_records(QUERIES + len(POISON))
    assert_each_once(deployment, output_records)
    results = [output_record for output_record in output_records if output_record.kind == "result"]
    assert {result.value["query_id"] for result in results} == {f"q{n}" for n in range(QUERIES)}


def test_dead_letters_say_what_was_wrong(deployment: Deployment) -> None:
    """Each poisoned message becomes a dead letter of its class, its value untouched, and its caller hears; the messages
    beside it are answered.
    """
    deployment.start()
    deployment.produce("queries", numbered(len(POISON)))
    output_records = deployment.output_records(2 * len(POISON))
    assert_each_once(deployment, output_records)
    letters = {
        output_record.value["raw"]: output_record.kind
        for output_record in output_records
        if output_record.kind != "result"
    }
    assert letters == POISON


def test_a_member_that_leaves_hands_over(deployment: Deployment) -> None:
    """Two processes share 2,000 queries; one drains at SIGTERM and exits 0, the other answers the rest, each once."""
    staying, leaving = deployment.start(replica="a"), deployment.start(replica="b")
    deployment.produce("queries", numbered(QUERIES))
    deployment.output_records(200, settled=False)
    assert leaving.terminate() == 0
    output_records = deployment.output_records(QUERIES + len(POISON))
    assert_each_once(deployment, output_records)
    assert staying.terminate() == 0


def test_a_drain_answers_what_is_in_flight(deployment: Deployment) -> None:
    """A flow alone answers what it has read before it exits 0 at SIGTERM; its successor has only the rest to do."""
    alone = deployment.start()
    deployment.ask([{"query_id": f"q{n}", "text": "harbor"} for n in range(50)])
    assert len(deployment.output_records(50)) == 50
    assert alone.terminate() == 0
    log = alone.log.read_text()
    assert "drained" in log
    deployment.start()
    assert_each_once(deployment, deployment.output_records(50))


def test_topics_that_are_missing_are_named(deployment: Deployment) -> None:
    """A flow whose results topic doesn't exist exits 1 and says which topic it misses."""
    deployment.settings["kafka"]["topics"] = {**deployment.names, "results": "nowhere"}
    flow = deployment.start(wait=False)
    wait_until(lambda: flow.process.poll() is not None)
    assert flow.process.returncode == 1
    assert "nowhere" in flow.log.read_text()


def test_topics_with_the_defaults_of_kafka_work(deployment: Deployment) -> None:
    """The flow answers if the dead letters' topic takes no more than the queries' one, and says what to set."""
    plain = deployment.names["dead_letters"] + "-plain"
    deployment.broker.create_topic(plain, 1)
    deployment.settings["kafka"]["topics"] = {**deployment.names, "dead_letters": plain}
    flow = deployment.start()
    deployment.ask([{"query_id": "q", "text": "harbor"}])
    assert len(deployment.output_records(1)) == 1
    assert f"set max.message.bytes of {plain} to " in flow.log.read_text()
