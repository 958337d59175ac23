"""The pages with a Kafka broker and a Qdrant server, followed to the letter except for the servers' ports."""

import itertools
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml
from confluent_kafka import ConsumerGroupTopicPartitions as Groups
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.kafka.broker import Broker
from bench.qdrant_server import named
from tests import qdrant_server
from tests.docs.pages import ROOT, Block, blocks
from tests.integration.applications import typescript

pytestmark = [pytest.mark.slow, pytest.mark.operate, pytest.mark.weights, pytest.mark.timeout(900)]

PATIENCE = 120.0
"""Seconds to wait for what must happen in the end."""


@dataclass
class Place:
    """A folder with rankstream.yaml, as a reader of the pages has it, beside a broker and a Qdrant server."""

    folder: Path
    broker: str
    qdrant: str

    def filled(self, text: str) -> str:
        """A text of a page with the addresses of the servers that are there."""
        return text.replace("http://localhost:6333", self.qdrant).replace("localhost:9092", self.broker)

    @property
    def environment(self) -> dict[str, str]:
        """Variables of a reader who set none, but for the health port, which others may have."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("RANKSTREAM_")}
        cache = os.environ.get("RANKSTREAM_CACHE_DIR", str(Path("~/.cache/rankstream").expanduser()))
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {**own, "PATH": path, "RANKSTREAM_CACHE_DIR": cache, "RANKSTREAM_TELEMETRY__PORT": "0", "COLUMNS": "80"}

    def run(self, block: Block | str, code: int = 0) -> str:
        """The output of the block's commands, one after the other; the last one's exit code must be `code`."""
        text = block if isinstance(block, str) else block.text
        done = subprocess.run(
            ["bash", "-e", "-c", self.filled(text)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """The tutorial's flows, over topics that its command creates."""
        _, _, create, flows, _, _ = of("tutorial.md", "console")
        made = self.run(create)
        assert re.search(r"created topic \S*queries", made)
        assert not re.search(r"(?m)^error ", made), made
        running = [self.start(line) for line in flows.text.splitlines()]
        try:
            yield
        finally:
            for process in running:
                process.terminate()
            for process in running:
                process.communicate(timeout=PATIENCE)
        assert [process.returncode for process in running] == [0, 0]

    def start(self, command: str) -> "subprocess.Popen[str]":
        """Start a command, or a program in Python, that goes on; what it logs is in log.txt."""
        words = command.split() if command.startswith("rankstream ") else [sys.executable, "-u", "-c", command]
        with (self.folder / "log.txt").open("a") as log:
            return subprocess.Popen(
                words, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=log, text=True
            )


def of(page: str, language: str) -> list[Block]:
    """The blocks of a page in a language."""
    return [block for block in blocks(ROOT / "docs" / page) if block.language == language]


def printed(process: "subprocess.Popen[str]", wanted: str) -> str:
    """The first line of a process that the pattern is found in; fails if it ends before."""
    assert process.stdout is not None
    line = next((line for line in process.stdout if re.search(wanted, line)), None)
    assert line is not None, f"it ended without {wanted}"
    return line


@contextmanager
def going_on(place: Place, program: Block) -> Iterator["subprocess.Popen[str]"]:
    """A program of a page that runs until the block is left."""
    process = place.start(place.filled(program.text))
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def place(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A folder with the tutorial's servers: the flows are running."""
    folder = tmp_path_factory.mktemp("reader")
    with qdrant_server.running(folder / "qdrant") as qdrant:
        at = Place(folder, broker.bootstrap, qdrant)
        [config] = of("tutorial.md", "yaml")
        (folder / "rankstream.yaml").write_text(at.filled(config.text))
        with at.flowing():
            yield at


@pytest.fixture(scope="module")
def story(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The folder at the end of the tutorial, whose export `init` has looked at: the flows are running."""
    folder = tmp_path_factory.mktemp("story")
    with qdrant_server.running(folder / "qdrant") as qdrant:
        at = Place(folder, broker.bootstrap, qdrant)
        export, _, init = of("tutorial.md", "sh")
        at.run(export)
        at.run(init)
        [changed] = of("tutorial.md", "yaml")
        settings, servers = yaml.safe_load((folder / "rankstream.yaml").read_text()), yaml.safe_load(changed.text)
        del settings["qdrant"]["path"]
        names = {role: f"story-{role}" for role in ("queries", "results", "documents", "dead_letters", "watermarks")}
        settings["kafka"] |= {**servers["kafka"], "topics": names, "group_id": "story"}
        settings["qdrant"] |= servers["qdrant"]
        (folder / "rankstream.yaml").write_text(at.filled(yaml.safe_dump(settings)))
        with at.flowing():
            yield at


def test_the_tutorial_from_topics_to_an_application(story: Place) -> None:
    """The export is found by both queries, and the application writes its page."""
    ask = of("tutorial.md", "console")[4]
    told = story.run(ask)
    assert "documents indexed: 4, rejected: 0" in told
    assert len(re.findall(r"│ 1 +│ reset ", told)) == 2
    [application] = of("tutorial.md", "python")
    own = application.text.replace('"queries"', '"story-queries"').replace('(["results"])', '(["story-results"])')
    with going_on(story, application._replace(text=own)) as process:
        assert "reset" in printed(process, r"^ok \['\w+', '\w+'\]")
    assert_written(story.folder)


def test_the_tutorials_application_in_typescript(story: Place) -> None:
    """It compiles strictly, and writes the same page."""
    [application] = of("tutorial.md", "typescript")
    own = application.text.replace('"queries"', '"story-queries"').replace('"results"', '"story-results"')
    file = story.folder / "page.ts"
    file.write_text(story.filled(own))
    (story.folder / "page.html").unlink(missing_ok=True)
    story.run("rankstream index --config rankstream.yaml --from export.jsonl")
    command, environment = typescript(file, story.folder)
    done = subprocess.run(
        command,
        cwd=story.folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert re.match(r"ok \w+ \w+\n", done.stdout), done.stdout + done.stderr
    assert_written(story.folder)


def assert_written(folder: Path) -> None:
    """The page of the tutorial has the counts, the titles and the marked words."""
    page = (folder / "page.html").read_text()
    assert page.startswith("<nav>router (2)</nav>")
    assert "<h2>Start over</h2>" in page
    assert "Hold the <b>button</b> at the back" in page


def test_a_document_is_deleted(place: Place) -> None:
    """The commands find the document while it is there, delete it, and find it no more, neither does Qdrant."""
    deletion, _, ask, count = of("how-to/deleting.md", "console")
    (place.folder / "faq.jsonl").write_text('{"id": "faq-12", "namespace": "acme", "text": "Hold the button."}')
    place.run("rankstream index --config rankstream.yaml --from faq.jsonl")
    assert "ok, 1 matching" in place.run(ask)
    assert json.loads(place.run(count))["result"] == {"count": 1}
    assert "documents indexed: 1, rejected: 0" in place.run(deletion)
    assert "ok, 0 matching" in place.run(ask)
    assert json.loads(place.run(count))["result"] == {"count": 0}


def test_what_matches_a_filter_is_forgotten(place: Place) -> None:
    """The first command counts and deletes nothing, the second one deletes what is of that customer, and no more."""
    first, second = of("how-to/deleting.md", "console")[2].text.splitlines()
    documents = [
        {"id": f"order-{number}", "namespace": "acme", "customer": f"c-{number}", "text": "."} for number in (17, 18)
    ]
    (place.folder / "orders.jsonl").write_text("\n".join(map(json.dumps, documents)))
    place.run("rankstream index --config rankstream.yaml --from orders.jsonl")
    ask = "rankstream query --config rankstream.yaml --namespace acme --filter"
    place.run(first, code=2)
    assert "ok, 1 matching" in place.run(f"{ask} id=order-17")
    assert "1 document deleted" in place.run(second)
    assert "ok, 0 matching" in place.run(f"{ask} id=order-17")
    assert "ok, 1 matching" in place.run(f"{ask} id=order-18")


def test_what_an_export_no_longer_has_is_forgotten(place: Place) -> None:
    """The commands send an export each week, and delete what it lacks: rows that never change stay, and come back."""
    send, look, delete = of("how-to/deleting.md", "console")[1].text.replace("acme", "weekly").splitlines()
    ask = "rankstream query --config rankstream.yaml --namespace weekly --filter"
    for week, gone in (("abcd", ""), ("abc", "d"), ("abde", "c")):
        documents = [{"id": f"row-{name}", "namespace": "weekly", "text": ".", "updated_at": 1e9} for name in week]
        (place.folder / "export.jsonl").write_text("\n".join(map(json.dumps, documents)))
        assert f"documents indexed: {len(week)}, rejected: 0" in place.run(send)
        assert "".join(f": row-{name}. Give --yes" for name in gone) in place.run(look, code=2)
        assert f"{len(gone)} document{'' if gone else 's'} deleted" in place.run(delete)
        there = [name for name in "abcde" if "ok, 1 matching" in place.run(f"{ask} id=row-{name}")]
        assert "".join(there) == week


def test_a_collection_is_looked_at_and_mended(place: Place) -> None:
    """The commands of the page find the tutorial's collection whole, and an index that is removed is made again."""
    check, look, again = of("reference/collections.md", "sh")
    place.run(check)
    assert "documents" in place.run(look)
    if named() is None:
        # The stand-in of a Qdrant server removes no index.
        again = again._replace(text=again.text.partition("\n")[2])
    place.run(again)


def test_dead_letters_are_replayed(place: Place) -> None:
    """The dry run names the dead letter that the filters match, and the replay sends it back."""
    (place.folder / "long.jsonl").write_text(json.dumps({"id": "long", "text": "a" * 1_000_100}))
    rejected = place.run("rankstream index --config rankstream.yaml --from long.jsonl --allow-rejected")
    assert "rejected: 1" in rejected
    [replay] = of("why/delivery.md", "sh")
    told = place.run(replay)
    assert "too_large" in told


def test_before_an_upgrade(place: Place) -> None:
    """The configuration in effect and the findings are printed."""
    for block in of("how-to/upgrading.md", "console"):
        if block.text.startswith("rankstream "):
            assert place.run(block)


def test_check_of_topics_with_default_settings(place: Place) -> None:
    """The page quotes `check` correctly for topics with Kafka's default settings."""
    roles = ("queries", "results", "dead_letters", "documents", "watermarks")
    topics = {role: f"default-{role.replace('_', '-')}" for role in roles}
    admin = AdminClient({"bootstrap.servers": place.broker})
    for made in admin.create_topics([NewTopic(name, 8, 1) for name in topics.values()]).values():
        made.result()
    config = {"kafka": {"bootstrap_servers": place.broker, "group_id": "plain", "topics": topics}}
    (place.folder / "plain.yaml").write_text(yaml.safe_dump({**config, "qdrant": {"url": place.qdrant}}))
    [check] = of("how-to/managed-kafka.md", "console")
    told = place.run(check.text.replace("rankstream.yaml", "plain.yaml")).replace("default-", "")
    [page] = of("how-to/managed-kafka.md", "")
    shown = page.text.replace("broker-1.example.com:9092,broker-2.example.com:9092", place.broker)
    shown = shown.replace("group rankstream", "group plain")
    assert told.split() == shown.split()


def test_two_services_are_compared(place: Place) -> None:
    """The program prints how far two answers to one query agree, and whether the first results are the same."""
    admin = AdminClient({"bootstrap.servers": place.broker})
    for made in admin.create_topics([NewTopic("rankstream-results", 1, 1)]).values():
        made.result()
    [program] = of("how-to/beside-an-existing-service.md", "python")
    producer = Producer({"bootstrap.servers": place.broker})
    answers = {"results": ["a", "b", "c"], "rankstream-results": ["a", "c", "d"]}
    told = threading.Event()

    def answer_on() -> None:
        # The program reads what comes after its start.
        for number in itertools.count():
            for topic, ids in answers.items():
                answer = {"query_id": f"compared-{number}", "status": "ok", "results": [{"id": each} for each in ids]}
                producer.produce(topic, json.dumps(answer))
            producer.flush()
            if told.wait(0.5):
                return

    answering = threading.Thread(target=answer_on)
    with going_on(place, program) as process:
        answering.start()
        try:
            assert printed(process, r"^compared-\d+ ").split(maxsplit=1)[1] == "ok 2 of 3 True\n"
        finally:
            told.set()
            answering.join()


@pytest.mark.skipif(named() is None, reason="the stand-in of a Qdrant server makes no snapshots: set QDRANT_BINARY")
def test_an_older_snapshot_is_made_whole(broker: Broker, tmp_path: Path) -> None:
    """With the offsets from before the snapshot, the flow brings what came later; with its own, it brings nothing."""
    roles = ("queries", "results", "dead_letters", "documents", "watermarks")
    topics = {role: f"restored-{role.replace('_', '-')}" for role in roles}
    kafka = {"bootstrap_servers": broker.bootstrap, "group_id": "restored", "topics": topics, "partitions": 1}
    _, (make, fetch), (restore,), *_ = ([*block.text.splitlines()] for block in of("how-to/qdrant.md", "console"))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    group = "restored-indexing"

    def send(*events: dict[str, str]) -> None:
        (tmp_path / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
        flow = at.start("rankstream index --config rankstream.yaml")
        try:
            assert "rejected: 0" in at.run("rankstream index --config rankstream.yaml --from events.jsonl")
        finally:
            flow.terminate()
            flow.communicate(timeout=PATIENCE)

    def index() -> dict[str, str]:
        found = httpx.post(f"{qdrant}/collections/documents/points/scroll", json={"limit": 100}).json()
        return {point["payload"]["id"]: point["payload"]["text"] for point in found["result"]["points"]}

    with qdrant_server.running(tmp_path / "qdrant") as qdrant:
        at = Place(tmp_path, broker.bootstrap, qdrant)
        (tmp_path / "rankstream.yaml").write_text(yaml.safe_dump({"kafka": kafka, "qdrant": {"url": qdrant}}))
        at.run("rankstream topics --config rankstream.yaml")
        send({"id": "stays", "text": "1"}, {"id": "changes", "text": "1"}, {"id": "goes", "text": "1"})
        [before] = (each.result() for each in admin.list_consumer_group_offsets([Groups(group)]).values())
        made = json.loads(at.run(make))["result"]["name"]
        at.run(fetch.replace("NAME", made))
        send({"id": "changes", "text": "2"}, {"id": "goes", "op": "delete"}, {"id": "comes", "text": "2"})
        latest = index()
        assert latest == {"stays": "1", "changes": "2", "comes": "2"}

        at.run(restore)
        send({"id": "last", "text": "3"})
        assert index() == {"stays": "1", "changes": "1", "goes": "1", "last": "3"}

        at.run(restore)
        for done in admin.alter_consumer_group_offsets([Groups(group, before.topic_partitions)]).values():
            done.result()
        send({"id": "end", "text": "4"})
        assert index() == {**latest, "last": "3", "end": "4"}
