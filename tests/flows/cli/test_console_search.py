"""Searches of the console through Kafka: by a thread in place of the search flow, and by the flow itself."""

import os
import signal
import subprocess
import sys
import time
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
from flows.assembly.clients import InProcess
from flows.assembly.delivery import kafka_client
from flows.cli.console.overview import Overview, _fields
from flows.cli.console.server import TOKEN
from flows.cli.console.workbench import searcher
from flows.cli.ingestion import index_once
from flows.cli.query import NoAnswer
from flows.process.embedded import embedded_settings, start_with_settings
from operators.clients.qdrant_edge.shards import Engine
from operators.delivery.client import ProducerRecord
from operators.delivery.embedded_broker import EmbeddedBroker
from schemas.errors import FatalDelivery
from schemas.settings import KafkaSettings, Topics, load
from tests.flows.cli.browsing import JSON, WITHIN, Served, ask
from tests.flows.cli.console_flow import shop
from tests.integration.deployment import wait_until
from tests.repeated import repeated

pytestmark = pytest.mark.slow

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
                producer.send([ProducerRecord(topics.results, None, value)])
            waiting.clear()

    reader = client.bounded_reader(topics.queries, from_end=True)
    with closing(reader), closing(client.plain_producer()) as producer, repeated(answer):
        yield traces


def test_columns_are_asked_side_by_side(kafka: KafkaSettings) -> None:
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
    with pytest.raises(NoAnswer, match=r"no answer to 2 queries in 0\.2 s: is the search flow running\?"):
        searcher(kafka, NoOpTracer(), 0.2)(SEARCHES)
    away = KafkaSettings(bootstrap_servers=f"127.0.0.1:{free_port()}")
    with pytest.raises(FatalDelivery, match=r"no Kafka broker answers") as caught:
        searcher(away, NoOpTracer())(SEARCHES)
    assert not isinstance(caught.value, NoAnswer)


@contextmanager
def running(config: Path, directory: Path) -> Iterator[tuple[subprocess.Popen[str], int, str]]:
    """The command, and the port and the token of its page, which it prints."""
    command = [sys.executable, "-m", "flows.cli", "console", "--port", "0", "--config", str(config)]
    command += ["--judgements", str(directory / "j.qrels")]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "RANKSTREAM_"))}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().strip()
            assert line.startswith("console: http://127.0.0.1:")
            address, _, token = line.partition("/#token=")
            yield process, int(address.rpartition(":")[2]), token
        finally:
            process.kill()


def test_two_recipes_are_compared_through_the_flow(tmp_path: Path) -> None:
    """The command's page has the results of each recipe, and what the flow refuses; Ctrl-C ends it."""
    texts = {"tide": "The tide rises under the moon.", "bread": "Bread rises.", "moon": "The moon and the moon."}
    documents = [{"id": name, "text": text} for name, text in texts.items()]
    overrides = {"embedder": {"kind": "none"}, "rerank": {"kind": "none"}}
    with start_with_settings(embedded_settings(tmp_path / "index", overrides)) as flow:
        index_once(flow, "texts", lambda: enumerate(documents, 1), "1", tmp_path / "index", Console(quiet=True))
        config = tmp_path / "rankstream.yaml"
        kafka = {"bootstrap_servers": flow.settings.kafka.bootstrap_servers}
        config.write_bytes(orjson.dumps({"kafka": kafka, "qdrant": {"url": "http://127.0.0.1:9"}}))
        with flow.searching(), running(config, tmp_path) as (process, port, token):
            headers: dict[str, Any] = {**JSON, TOKEN: token}

            def search(*recipes: str) -> Any:
                body = {"text": "moon", "limit": 2, "columns": [{"recipe": each} for each in recipes]}
                return ask(port, "POST", "/api/search", orjson.dumps(body), **headers).json["columns"]

            found, refused = search("rrf", "keyword"), search("", "nowhere")
            overview = ask(port, "GET", "/api/overview", **headers).json
            process.send_signal(signal.SIGINT)
            assert process.wait(WITHIN) == 0
            assert process.stderr is not None
            assert "Traceback" not in process.stderr.read()
    assert [[card["id"] for card in column["cards"]] for column in found] == [["moon", "tide"]] * 2
    assert [column["recipe"] for column in found] == ["rrf", "keyword"]
    assert [column["status"] for column in refused] == [found[0]["status"], "invalid"]
    assert "not configured" in refused[1]["error"]["reason"]
    assert [one["error"] is not None for one in overview["collections"]] == [True]


def test_an_index_that_a_running_flow_has_open_is_no_fault(tmp_path: Path) -> None:
    """The first page says so, and shows neither an error nor a backend that is ill."""
    its = load(None, {"qdrant": {"path": str(tmp_path / "index")}, "embedder": {"kind": "none"}})
    with Engine(tmp_path / "index"):
        overview = Overview(its, InProcess(its), own_broker=True)
        assert overview.describe() == {"collections": [], "examples": [], "error": None, "in_use": True}
        assert overview.health()[0]["level"] == "ok"


def test_examples_of_objects_and_lists_are_written_as_in_results() -> None:
    """No value is shown as Python writes it, and nothing stands for null and an empty text."""
    values = [{"city": "Bern", "open": True, "street": None}, None, "", [1, None, "x"], False]
    payloads = [{"place": value} for value in values]
    [field] = _fields(payloads, {})
    assert field["examples"] == ["city: Bern; open: yes", "1, x", "no"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A console of the shop."""
    with shop(tmp_path_factory.mktemp("shop")) as found:
        yield found


def search(served: Served, text: str, *columns: Mapping[str, Any], **more: Any) -> Any:
    """The answer to a search in the shop."""
    body = {"text": text, "namespace": "store", "columns": columns or ({},), **more}
    got = served.post("search", body)
    assert got.status == 200, got.body
    return got.json


def test_the_first_page_says_what_is_indexed(served: Served) -> None:
    """Namespaces with counts, fields with examples, languages, the last document's time, and queries that find."""
    found = served.get("overview").json
    [one] = found["collections"]
    assert {each["name"]: each["count"] for each in one["namespaces"]} == {"store": 400, "help": 40, "evil": 3}
    fields = {each["name"]: each for each in one["fields"]}
    assert fields["brand"]["examples"]
    assert 0 < fields["brand"]["share"] < 1
    assert {"en", "de", "ja"} <= {each["name"] for each in one["languages"]}
    assert abs(one["last"] / 1000 - time.time()) < 3600
    for example in found["examples"]:
        assert search(served, example["text"], namespace=example["namespace"])["columns"][0]["cards"], example
    assert {each["level"] for each in served.get("health").json["backends"]} == {"ok"}


def test_a_parameter_ranks_the_recorded_candidates_again(served: Served) -> None:
    """The same values give the flow's own order; others move documents, and the flow agrees when it is asked."""
    [column] = search(served, "makita drill 18v")["columns"]
    own = [card["id"] for card in column["cards"]]
    again = served.post("rank", {"key": column["key"], "column": {}}).json
    assert [card["id"] for card in again["cards"]] == own
    assert [card["score"] for card in again["cards"]] == pytest.approx([card["score"] for card in column["cards"]])
    changed = {"overrides": {"coverage": {"weight": 0}}}
    moved = served.post("rank", {"key": column["key"], "column": changed}).json
    asked = search(served, "makita drill 18v", changed)["columns"][0]
    assert [card["score"] for card in moved["cards"]] == pytest.approx([card["score"] for card in asked["cards"]])
    assert [card["score"] for card in moved["cards"]] != pytest.approx([card["score"] for card in column["cards"]])
    assert all(card["fields"].get("category") for card in moved["cards"] if card["id"] in own)
    wrong = served.post("rank", {"key": column["key"], "column": {"overrides": {"coverage": {"weight": -1}}}})
    assert (wrong.status, "coverage.weight" in wrong.json["error"]) == (400, True)


def test_another_configuration_ranks_the_same_candidates(served: Served) -> None:
    """A configuration without a flow of its own ranks in this process, by recipes that the flow lacks."""
    found = search(served, "makita", {}, {"config": "other", "recipe": "plain"})
    assert [column["recipe"] for column in found["columns"]] == ["hybrid", "plain"]
    assert [column["again"] for column in found["columns"]] == [False, True]
    [compared] = found["comparisons"]
    assert 0 < compared["rbo"] <= 1


def test_why_is_it_not_here(served: Served) -> None:
    """Each way to be missing has its answer: no such id, another namespace, a filter, no word, the page's end."""
    filters = [{"field": "lang", "op": "eq", "value": "en"}]
    [column] = search(served, "makita drill 18v", filters=filters, limit=2)["columns"]
    served.get("overview")

    def why(id_: str) -> Any:
        return served.post("why", {"key": column["key"], "id": id_}).json

    assert why(column["cards"][0]["id"])["verdict"] == "It is here, at rank 1."
    lost = served.post("lost", {"key": column["key"]}).json["lost"]
    assert "It is a result, at rank 3" in why(next(each["id"] for each in lost if each["rank"] == 3))["verdict"]
    assert why("nowhere")["verdict"] == "No document in the namespace store has this id."
    assert "The namespace help has it." in why("aide-retractation")["verdict"]
    assert "lang eq en" in why("de-lackrolle")["verdict"]
    hammer = why("mallet-rubber")
    assert hammer["verdict"] == "The document is there, and no leg retrieved it."
    assert any("none of the query's words" in each["said"] for each in hammer["tests"])


def test_a_set_is_run_compared_and_tuned(served: Served) -> None:
    """The figures are those of the metrics by query; equal columns do not differ; tuning reports its intervals."""
    queries = [each["id"] for each in served.get("set").json["queries"] if each["relevant"]][:12]
    first, second = served.post("run", {"columns": [{}, {"recipe": "keyword"}], "queries": queries}).json["columns"]
    assert first["any@10"].keys() == set(queries)
    assert sum(first["any@10"].values()) > 6
    compared = served.post("compare-runs", {"first": first, "second": second}).json
    moves = [abs(each["second"] - each["first"]) for each in compared["queries"]]
    assert moves == sorted(moves, reverse=True)
    assert compared["means"]["nDCG@10"]["low"] <= compared["means"]["nDCG@10"]["difference"]
    assert served.post("tune", {"column": {}, "wanted": ["nothing.weight"]}).status == 400
    assert served.post("tune", {"column": {}, "wanted": ["coverage.weight=0,1"]}).status == 200
    while (state := served.get("tuning").json)["state"] in {"recording", "tuning"}:
        time.sleep(0.1)
    assert state["state"] == "done", state
    assert {"first", "second", "low", "high"} <= state["means"]["nDCG@10"].keys()


def test_a_rule_is_tried_put_and_deleted(served: Served) -> None:
    """A trial changes its own column alone, and the result says by which rule; what is put is so for all."""
    pin = {"when": {"contains": "makita"}, "then": {"pin": [{"id": "mallet-rubber", "position": 1}]}}

    def first(*columns: Mapping[str, Any]) -> list[Any]:
        return [column["cards"][0] for column in search(served, "makita drill 18v", *columns)["columns"]]

    def post(name: str, id_: str, rule: object) -> Any:
        return served.post(name, {"namespace": "store", "id": id_, "text": orjson.dumps(rule).decode()})

    plain, tried = first({}, {"rules": {"mallet": pin}})
    assert (plain["rules"], tried["id"], tried["rules"]) == ([], "mallet-rubber", ["pinned by mallet"])
    assert served.get("rules").json == {"topic": "rules", "rules": [], "refused": []}
    in_words = {"when": ["the text has “makita”"], "then": ["pin mallet-rubber at 1"]}
    assert post("check-rule", "mallet", pin).json == {"rule": pin, **in_words}
    assert post("put-rule", "mallet", pin).json == {"removed": False}
    assert served.get("rules").json["rules"] == [{"namespace": "store", "id": "mallet", "rule": pin, **in_words}]
    wait_until(lambda: first({})[0]["id"] == "mallet-rubber")
    bury = {"then": {"bury": {"ids": ["mallet-rubber"]}}}
    [other] = first({"rules": {"mallet": bury}})
    assert (other["id"], other["rules"]) == (plain["id"], [])
    assert post("put-rule", "mallet", {"then": None}).json == {"removed": True}
    wait_until(lambda: first({})[0]["id"] == plain["id"])


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ('{"then": {"pin": [{"id": "a", "position": 0}]}}', "then.pin.0.position: Input should be greater"),
        ('{"then": {"pin": [', "not JSON: "),
        ('{"then": {}, "then": {}}', "a key is repeated"),
        ('{"when": {"contains": "!"}, "then": {"bury": {"ids": ["a"]}}}', "when: 1 to 8 words are expected ('!')"),
    ],
)
def test_what_is_no_rule_is_said_and_not_put(served: Served, rule: str, said: str) -> None:
    """The errors are those of `rankstream rules put`; the flow refuses to try it, too."""
    for name in ("check-rule", "put-rule"):
        got = served.post(name, {"namespace": "store", "id": "x", "text": rule})
        assert (got.status, said in got.json["error"]) == (400, True), got.json
    assert served.post("put-rule", {"namespace": "", "id": "x", "text": '{"then": null}'}).status == 400
    assert served.get("rules").json["rules"] == []
    if said.startswith(("then", "when")):
        [column] = search(served, "hose", {"rules": {"x": orjson.loads(rule)}})["columns"]
        assert column["error"]["reason"].startswith(f"rules.x.{said}")


def test_times_say_what_answered(served: Served) -> None:
    """The waterfall has the flow's stages and the deadline."""
    [column] = search(served, "gartenschere")["columns"]
    found = served.post("time", {"key": column["key"]}).json
    assert {"keyword", "hybrid_merge"} <= {row["name"] for row in found["rows"]}
    assert found["cache"] is None
    assert 0 < found["total"] < found["deadline"]
