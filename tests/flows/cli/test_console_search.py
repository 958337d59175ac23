"""Searches of the console through Kafka: by a thread in place of the search flow, and by the flow itself."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NoOpTracer
from rich.console import Console

from bench.ports import free_port
from flows.assembly.delivery import kafka_client
from flows.cli.console import searcher
from flows.cli.ingestion import index_once
from flows.cli.query_client import Unanswered
from flows.process.embedded import start_embedded
from operators.delivery.client import PlainRecord
from operators.delivery.embedded_broker import EmbeddedBroker
from schemas.errors import FatalDelivery
from schemas.result import ResultEvent
from schemas.settings import KafkaSettings, Topics
from tests.flows.cli.browsing import WITHIN, ask, post
from tests.repeated import repeated

pytestmark = pytest.mark.slow

TEXTS = {
    "tide": "The tide rises under the moon.",
    "bread": "Bread rises with yeast.",
    "moon": "The moon and the moon.",
}
SEARCHES: tuple[Mapping[str, Any], ...] = ({"text": "harbor", "recipe": "rrf"}, {"text": "harbor", "recipe": "keyword"})


@pytest.fixture
def kafka() -> Iterator[KafkaSettings]:
    """A broker with the topics, on which no flow runs."""
    with EmbeddedBroker() as broker:
        settings = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
        for topic in (settings.topics.queries, settings.topics.results, settings.topics.dead_letters):
            broker.create_topic(topic)
        yield settings


@contextmanager
def answering(settings: KafkaSettings, topics: Topics) -> Iterator[list[str]]:
    """Answer queries by themselves once two are there, the last first; the traces that they came with."""
    client = kafka_client(settings)
    waiting: list[bytes] = []
    traces: list[str] = []

    def answer() -> None:
        for record in reader.poll(0.02):
            waiting.append(record.value or b"")
            traces.extend(value.decode() for name, value in record.headers or () if name == "traceparent")
        if len(waiting) == 2:
            for value in reversed(waiting):
                producer.send([PlainRecord(topics.results, None, value)])
            waiting.clear()

    reader = client.bounded_reader(topics.queries, from_end=True)
    with closing(reader), closing(client.plain_producer()) as producer, repeated(answer):
        yield traces


def test_recipes_are_asked_side_by_side(kafka: KafkaSettings) -> None:
    """Both queries are there before either is answered, and the answers are in their order, whichever comes first."""
    tracer = TracerProvider().get_tracer("console")
    with answering(kafka, kafka.topics) as traces:
        answers = searcher(kafka, tracer, WITHIN)(SEARCHES)
    assert [{**answer, "query_id": ""} for answer in answers.results] == [
        {**search, "query_id": ""} for search in SEARCHES
    ]
    assert len({answer["query_id"] for answer in answers.results}) == 2
    # The one trace that is named is that of both.
    assert [trace.split("-")[1] for trace in traces] == [answers.trace_id] * 2


def test_without_the_flow_it_is_late_and_not_for_ever(kafka: KafkaSettings) -> None:
    """An answer that does not come is another error than a broker that is away."""
    with pytest.raises(Unanswered, match=r"no answer to 2 queries in 0\.2 s: is the search flow running\?"):
        searcher(kafka, NoOpTracer(), 0.2)(SEARCHES)
    away = KafkaSettings(bootstrap_servers=f"127.0.0.1:{free_port()}")
    with pytest.raises(FatalDelivery, match=r"no Kafka broker answers") as caught:
        searcher(away, NoOpTracer())(SEARCHES)
    assert not isinstance(caught.value, Unanswered)


@contextmanager
def running(config: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The command, and the port of its page, which it prints."""
    command = [sys.executable, "-m", "flows.cli", "console", "--port", "0", "--config", str(config)]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "RANKSTREAM_"))}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("console: http://127.0.0.1:")
            yield process, int(line.rpartition(":")[2])
        finally:
            process.kill()


def test_two_recipes_are_compared_through_the_flow(tmp_path: Path) -> None:
    """The command's page has the results of each recipe, explained, and what the flow refuses; Ctrl-C ends it."""
    documents = [{"id": name, "text": text} for name, text in TEXTS.items()]
    overrides = {"embedder": {"kind": "none"}, "rerank": {"kind": "none"}}
    with start_embedded(tmp_path / "index", overrides) as flow:
        index_once(flow, "texts", lambda: documents, tmp_path / "index", Console(quiet=True))
        config = tmp_path / "rankstream.yaml"
        kafka = {"bootstrap_servers": flow.settings.kafka.bootstrap_servers}
        config.write_bytes(orjson.dumps({"kafka": kafka, "qdrant": {"url": "http://127.0.0.1:9"}}))
        with flow.searching(), running(config) as (process, port):
            assert ask(port, "GET", "/").status == 200
            search = {"text": "moon", "recipes": ["rrf", "keyword"], "limit": 2}
            results = post(port, search).json["results"]
            refused = post(port, {**search, "recipes": ["", "nowhere"]}).json["results"]
            process.send_signal(signal.SIGINT)
            assert process.wait(WITHIN) == 0
            assert process.stderr is not None
            assert "Traceback" not in process.stderr.read()
    for result in results:
        ResultEvent.model_validate(result)
        assert [hit["id"] for hit in result["results"]] == ["moon", "tide"]
        assert result["results"][0]["explanation"]["legs"].keys() == {"keyword"}
    assert [result["provenance"]["recipe"] for result in results] == ["rrf", "keyword"]
    assert [result["status"] for result in refused] == [results[0]["status"], "invalid"]
    assert refused[0]["provenance"]["recipe"] == "hybrid"
    assert refused[1]["error"]["field"] == "recipe"
