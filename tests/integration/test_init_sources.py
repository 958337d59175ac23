"""`rankstream init` on a topic and on a collection that another tool filled: the written configuration answers."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml
from typer.testing import CliRunner

from bench.kafka.broker import Broker
from flows.cli.main import command_line
from flows.process import logs
from schemas.errors import ConfigError, FatalDelivery, InputError, RetriableDelivery
from schemas.settings import load
from tests import qdrant_server
from tests.integration.deployment import Deployment
from tests.integration.searching import asking
from tests.integration.test_other_tools import MADE, TEXTS, TOOLS, fill, terms, text_of
from tests.operators.mapping.test_inference import article

KAFKA: Final = ("kafka", "qdrant", "embedder", "reranker")


@pytest.fixture(autouse=True)
def _logs_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that runs the tests keeps its own logs."""
    monkeypatch.setattr(logs, "configure", lambda *_, **__: None)


def begin(path: Path, *source: str) -> Any:
    """The outcome of `init` on a source, which writes to this path."""
    return CliRunner().invoke(command_line(), ["init", *source, "--write", str(path), "--force"])


def check(path: Path, *parts: str) -> None:
    """The configuration passes `check`."""
    command = ["check", "--config", str(path), *(each for part in parts for each in ("--part", part))]
    done = CliRunner().invoke(command_line(), command)
    assert done.exit_code == 0, done.output


def rows(count: int) -> list[bytes | None]:
    """Articles as Debezium writes them, a deleted one with its tombstone, and a text that is no JSON."""
    made = [{"before": None, "after": article(number), "op": "c", "source": {"ts_ms": 5}} for number in range(count)]
    gone = {"before": article(count), "after": None, "op": "d", "source": {"ts_ms": 6}}
    return [*(json.dumps(row).encode() for row in [*made, gone]), None, b"hello"]


def test_the_rows_of_a_topic_are_indexed_as_they_are(
    broker: Broker, tmp_path: Path, topic_names: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configuration names the topic, reads its envelope, passes the check, and answers."""
    monkeypatch.chdir(tmp_path)
    written = tmp_path / "rankstream.yaml"
    with Deployment.on(broker, tmp_path, topic_names, {}) as system:
        topic = system.names["documents"]
        source = ("--topic", topic, "--bootstrap-servers", broker.bootstrap)
        empty = begin(written, *source)
        assert (type(empty.exception), str(empty.exception)) == (InputError, f"{topic}: there is no document in it")
        system.produce("documents", rows(40))
        done = begin(written, *source)
        assert done.exit_code == 0, done.output
        assert "skipped 1 of 42 documents:" in done.output
        made = yaml.safe_load(written.read_text())
        assert made["kafka"] == {"bootstrap_servers": broker.bootstrap, "topics": {"documents": topic}}
        assert made["documents"]["envelope"] == "debezium"
        assert made["documents"]["columns"] == {"id": "a", "title": "b", "text": "c", "lang": "d"}
        # The topics of this test, and no model.
        made["qdrant"]["path"] = str(tmp_path / "index")
        system.settings = {**system.settings, **made, "kafka": {**made["kafka"], **system.settings["kafka"]}}
        written.write_text(yaml.safe_dump(system.settings))
        made = CliRunner().invoke(command_line(), ["topics", "--config", str(written)])
        assert made.exit_code == 0, made.output
        check(written, *KAFKA)
        system.start("run --with-indexing")
        ask = asking(system, "default")
        head = article(7)
        system.produce(
            "documents", [json.dumps({"after": head, "before": None, "op": "u", "source": {"ts_ms": 7}}).encode()]
        )
        found: list[Any] = []
        while not found:
            found = [hit["id"] for hit in ask({"text": head["b"], "recipe": "keyword"})["results"]]
        assert found[0] == head["a"]


def test_a_topic_that_cannot_be_read_is_one_line(
    broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]
) -> None:
    """One that is not there, and a broker that does not answer; no topic is created by the look."""
    written = tmp_path / "rankstream.yaml"
    for _ in range(2):
        absent = begin(written, "--topic", topic_names("absent"), "--bootstrap-servers", broker.bootstrap)
        assert isinstance(absent.exception, RetriableDelivery)
        assert "doesn't exist" in str(absent.exception)
    silent = begin(written, "--topic", "documents", "--bootstrap-servers", "127.0.0.1:9")
    assert isinstance(silent.exception, FatalDelivery)
    assert "no Kafka broker answers at 127.0.0.1:9" in str(silent.exception)
    assert not written.exists()


@pytest.mark.parametrize("tool", list(MADE))
def test_a_collection_is_searched_as_it_is(
    tool: str, broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]
) -> None:
    """The fields, ids, namespaces and vectors are those that the page names by hand; check passes, and it answers."""
    page, written = TOOLS[tool]["qdrant"], tmp_path / "rankstream.yaml"
    with qdrant_server.running(tmp_path / "engine") as url:
        fill(url, tool, {"date": "integer"} if tool == "plain" else {}, {"modifier": "idf"})
        points = []
        for number in range(10, 40):
            point = MADE[tool]["points"][number % 3]
            own = number if tool == "plain" else str(uuid.uuid5(uuid.NAMESPACE_OID, str(number)))
            vector = {"": point["vector"], "terms": terms(text_of(tool, point))}
            points.append({"id": own, "payload": point["payload"], "vector": vector})
        body = {"points": points}
        httpx.put(f"{url}/collections/{tool}/points?wait=true", json=body).raise_for_status()
        done = begin(written, "--collection", tool, "--qdrant-url", url)
        assert done.exit_code == 0, done.output
        made = yaml.safe_load(written.read_text())
        names = page["fields"] if tool != "plain" else {**page["fields"], "created_at": "date"}
        assert made["qdrant"]["fields"] == names
        assert (made["qdrant"]["ids"], made["qdrant"]["dimension"]) == (page["ids"], 4)
        assert made["qdrant"]["vectors"] == {"dense": "", "sparse": "terms", "tokens": None}
        assert made["qdrant"].get("indexes") == ({"created_at": "integer"} if tool == "plain" else None)
        assert ("plain" if tool == "plain" else "acme") == made["defaults"]["namespace"]
        assert "# embedder: name the model that made the 4 numbers of each vector" in written.read_text()
        check(written, "qdrant", "embedder", "reranker")
        with Deployment.on(broker, tmp_path, topic_names, {}) as system:
            system.settings = {**made, **system.settings, "limits": {"timeout": 60}}
            system.start()
            ask = asking(system, made["defaults"]["namespace"])
            assert ask({"text": "harbor"})["results"][0]["text"] == TEXTS[0]


def test_a_collection_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    """One that is not there, one without points, and one of rankstream's own."""
    written = tmp_path / "rankstream.yaml"
    with qdrant_server.running(tmp_path / "engine") as url:
        place = {"vectors": {"size": 4, "distance": "Cosine"}}
        httpx.put(f"{url}/collections/empty", json=place).raise_for_status()
        own = {**place, "metadata": {"rankstream": {}}}
        httpx.put(f"{url}/collections/own", json=own).raise_for_status()
        for name, error, words in (
            ("absent", ConfigError, "has no collection of this name"),
            ("empty", InputError, "empty: there is no document in it"),
            ("own", ConfigError, "own: rankstream's own"),
        ):
            done = begin(written, "--collection", name, "--qdrant-url", url)
            assert isinstance(done.exception, error)
            assert words in str(done.exception)
    assert begin(written, "--collection", "absent", "--topic", "t").exit_code == 2
    assert not written.exists()
    assert load(None, {"qdrant": {"path": "."}})
