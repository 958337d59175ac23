"""The feedback flow on a real broker: each query has one preference, that of a join of the whole topic at once.

The queries' windows end within seconds: they are half an hour old. The broker's clock, which stamps the events, says
which of these are within them.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.request import urlopen

import pytest

from bench.kafka.broker import Broker
from operators.delivery.topics import BROKER_TIME, TIMESTAMPS
from operators.experiments.impression import Impression
from tests.integration.deployment import PARTITIONS, Deployment, Flow, wait_until
from tests.kafka.registry import Registry, framed
from tests.operators.delivery import test_avro
from tests.operators.experiments.joining import SECRET, TOKENS, Event, impression, join, joined_of, query_of
from tests.operators.stages.test_feedback import ubi

WINDOW_MS: Final = 1_800_000
MOST: Final = 5
QUERIES: Final = 120
DAY: Final = 86_400
POISON: Final = (b"no JSON", b"{}", b'{"token": "abc", "action": "click"}')


@pytest.fixture
def deployment(broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]) -> Iterator[Deployment]:
    """Topics of feedback and preferences beside the others."""
    sections = {"qdrant": {"url": "http://127.0.0.1:9"}, "feedback": {"most_clicks": MOST}}
    with Deployment.on(broker, tmp_path, topic_names, sections) as running:
        own = {role: topic_names(role) for role in ("feedback", "preferences")}
        running.names = {**running.names, **own}
        running.settings["kafka"]["topics"] = running.names
        running.environment["RANKSTREAM_CURSOR__SIGNING_SECRET"] = SECRET.decode()
        broker.create_topics({own["feedback"]: {TIMESTAMPS: BROKER_TIME}, own["preferences"]: {}}, PARTITIONS)
        yield running


@dataclass
class Crowd:
    """Users who click on the results of queries whose windows end one after the other, within these seconds."""

    deployment: Deployment
    seconds: float = 6.0
    random: Random = field(default_factory=lambda: Random(7))
    closers: int = 0

    def __post_init__(self) -> None:
        now = time.time()
        ends = [now + self.random.uniform(1, self.seconds) for _ in range(QUERIES)]
        self.queries = {f"q{n}": round(end * 1000) - WINDOW_MS for n, end in enumerate(ends)}

    def click(self) -> None:
        """Some of them act, some twice, in either form, by clocks that are wrong by a day; others send poison."""
        values, keys = [], list[str]()
        for query in self.random.sample([*self.queries], QUERIES // 2):
            for _ in range(self.random.randint(1, 3)):
                document = f"d{self.random.randrange(9 if query.endswith('7') else 3)}"
                event = self._event(impression(query, document, self.queries[query]))
                values += [event] * self.random.choice([1, 1, 2])
                keys += [query] * (len(values) - len(keys))
        values += POISON
        keys += ["poison"] * len(POISON)
        self.deployment.produce("feedback", values, keys=keys)

    def _event(self, of: Impression) -> bytes:
        token, action = TOKENS.write(of), self.random.choice(["click", "click", "buy"])
        if self.random.random() < 0.5:
            event = {**ubi(token=token), "action_name": action}
        else:
            event = {"token": token, "action": action, "at": time.time() + self.random.choice([-DAY, 0, DAY])}
        return json.dumps(event).encode()

    def pass_time(self) -> None:
        """Others click on results of new queries: the time of each partition goes on."""
        self.closers += 1
        keys = [f"closer-{self.closers}-{number}" for number in range(8 * PARTITIONS)]
        now = round(time.time() * 1000)
        self.deployment.produce("feedback", [self._event(impression(each, "d0", now)) for each in keys], keys=keys)

    def preferences(self) -> list[dict[str, Any]]:
        """Those of the crowd's queries that are committed."""
        values = [json.loads(record.value) for record in self.deployment.records("preferences")]
        return [each for each in values if each["query_id"] in self.queries]

    def joined(self) -> dict[Any, dict[str, Any]]:
        """The join of the whole topic at once."""
        found = join(self._events(), WINDOW_MS, MOST)
        return {query: each for query, each in found.items() if query[2] in self.queries}

    def _events(self) -> Iterator[Event]:
        for record in self.deployment.records("feedback"):
            if record.value not in POISON:
                event = json.loads(record.value)
                token = event.get("event_attributes", event)["token"]
                yield Event(record.timestamp, TOKENS.read(token), event.get("action_name", event.get("action")))

    def check(self) -> None:
        """Each preference comes, once, and is that of the join; each poisoned message is one dead letter."""

        def complete() -> bool:
            self.pass_time()
            return len(self.preferences()) >= len(wanted)

        wanted = self.joined()
        wait_until(complete)
        self.pass_time()
        found = [joined_of(each) for each in self.preferences()]
        assert Counter(query for query, _ in found) == dict.fromkeys(wanted, 1)
        assert dict(found) == wanted
        assert any(each["robot"] for each in wanted.values())
        late = [event for event in self._events() if event.time > event.impression.issued_ms + WINDOW_MS]
        assert [each for each in late if query_of(each.impression)[2] in self.queries]
        letters = Counter(record.value for record in self.deployment.records("dead_letters"))
        sent = Counter(record.value for record in self.deployment.records("feedback") if record.value in POISON)
        assert letters == sent
        assert not [record for record in self.deployment.records("preferences") if b"client-7" in record.value]


@pytest.mark.both_clients
@pytest.mark.parametrize("client", ["librdkafka", "kafka-python"])
def test_kill_9_in_the_middle_of_open_windows(deployment: Deployment, client: str) -> None:
    """Killed and started again, twice, the flow writes each query's preference once, of all its events."""
    deployment.settings["kafka"]["client"] = client
    flow = deployment.start("learn", replica="a")
    crowd = Crowd(deployment, seconds=25)
    for _ in range(2):
        before = len(crowd.preferences())
        while len(crowd.preferences()) == before:
            crowd.click()
        crowd.click()
        flow.kill()
        assert len(crowd.preferences()) < QUERIES, "no window was open"
        flow = deployment.start("learn", replica="a", wait=False)
    crowd.click()
    flow.wait_ready()
    crowd.check()


def test_two_replicas_share_the_queries(deployment: Deployment) -> None:
    """One joins in the middle of open windows, and the other leaves: it drains at once and exits 0."""
    first = deployment.start("learn", replica="a")
    crowd = Crowd(deployment, seconds=25)
    crowd.click()
    second = deployment.start("learn", replica="b")
    crowd.click()
    while not crowd.preferences():
        crowd.click()
    assert first.terminate() == 0
    assert "drain timed out" not in first.log.read_text()
    crowd.click()
    crowd.check()
    assert outcomes(second)["late"] > 0


def test_feedback_in_avro_waits_for_the_registry(deployment: Deployment) -> None:
    """Together with that in JSON behind it, in their order: the window does not close before its clicks are counted."""
    schema = test_avro.record(token="string", action="string")
    with Registry() as registry:
        deployment.settings["kafka"]["schema_registry"] = {"url": registry.base_url, "request_timeout": 0.5}
        known = registry.register(json.dumps(schema), subject="feedback")
        issued = round(time.time() * 1000) - WINDOW_MS + 3000
        clicks = [{"token": TOKENS.write(impression("avro", f"d{n}", issued)), "action": "click"} for n in (0, 2, 1)]
        values = [
            *(framed(known, test_avro.written(schema, each)) for each in clicks[:2]),
            json.dumps(clicks[2]).encode(),
        ]
        registry.status = 503
        deployment.produce("feedback", [*values, framed(known, b"")], keys=["avro"] * 4)
        crowd = Crowd(deployment)
        flow = deployment.start("learn")
        wait_until(lambda: "schema registry is failing" in flow.log.read_text())
        wait_until(lambda: time.time() * 1000 > issued + WINDOW_MS)
        crowd.pass_time()
        assert not deployment.records("preferences")
        registry.status = None
        wait_until(lambda: deployment.records("preferences"))
    [found] = [json.loads(each.value) for each in deployment.records("preferences") if each.key == b"avro"]
    assert (found["a"], found["b"], [click["id"] for click in found["clicks"]]) == (2, 1, ["d0", "d2", "d1"])
    [letter] = deployment.records("dead_letters")
    assert letter.value == framed(known, b"")


def outcomes(flow: Flow) -> dict[str, float]:
    """The feedback events that a flow has counted, by outcome."""
    with urlopen(f"http://127.0.0.1:{flow.port}/metrics", timeout=5) as answer:
        lines = [line for line in answer.read().decode().splitlines() if line.startswith("rankstream_feedback_total{")]
    return {line.partition('outcome="')[2].partition('"')[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_topics_that_clients_stamp_are_refused(deployment: Deployment, topic_names: Callable[[str], str]) -> None:
    """By the clocks of clients windows would close at any time: the flow says what to set, and exits 1."""
    stamped = topic_names("stamped-by-clients")
    deployment.broker.create_topic(stamped, 1)
    deployment.settings["kafka"]["topics"] = {**deployment.names, "feedback": stamped}
    flow = deployment.start("learn", wait=False)
    wait_until(lambda: flow.process.poll() is not None)
    assert flow.process.returncode == 1
    assert f"{stamped}: message.timestamp.type is CreateTime, and must be LogAppendTime" in flow.log.read_text()


@pytest.mark.parametrize("missing", ["feedback", "preferences", "secret"])
def test_what_is_missing_is_named(deployment: Deployment, missing: str) -> None:
    """Without a topic of its own, or the secret of the tokens, the flow names what to set, and exits 2."""
    if missing == "secret":
        del deployment.environment["RANKSTREAM_CURSOR__SIGNING_SECRET"]
    else:
        names = {role: name for role, name in deployment.names.items() if role != missing}
        deployment.settings["kafka"]["topics"] = names
    flow = deployment.start("learn", wait=False)
    wait_until(lambda: flow.process.poll() is not None)
    assert flow.process.returncode == 2
    assert ("cursor.signing_secret" if missing == "secret" else f"kafka.topics.{missing}") in flow.log.read_text()
