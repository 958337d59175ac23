"""The commands against servers: topics, index, run with replicas and query, as an operator would use them."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from bench.kafka.broker import Broker
from bench.ports import free_port
from bench.stubs import DIMENSION, stub_backends
from tests import qdrant_server, warm
from tests.integration.deployment import PATIENCE, Deployment, assert_each_once

ROLES = ("queries", "results", "dead_letters", "documents", "watermarks")


def rankstream(config: Path, *arguments: str, client: str = "librdkafka") -> subprocess.CompletedProcess[str]:
    """Run a command to its end, by that Kafka client; it must succeed."""
    environment = {**os.environ, "RANKSTREAM_KAFKA__CLIENT": client}
    done = warm.run([*arguments, "--config", str(config)], environment, 2 * PATIENCE)
    assert done.returncode == 0, done.stderr
    return done


def kafka(broker: Broker, topic_names: Callable[[str], str]) -> dict[str, Any]:
    """A section for topics that don't exist yet."""
    return {
        "bootstrap_servers": broker.bootstrap,
        "group_id": topic_names("group"),
        "topics": {role: topic_names(role.replace("_", "-")) for role in ROLES},
        "partitions": 2,
    }


def test_from_nothing_to_an_answer(broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]) -> None:
    """Topics and collection made, a file indexed, two replicas up: a query is answered, SIGTERM ends all with 0.

    Indexing and asking do the same by either Kafka client.
    """
    with qdrant_server.running(tmp_path / "engine") as qdrant, stub_backends() as stubs:
        config = tmp_path / "rankstream.yaml"
        settings = {
            "kafka": kafka(broker, topic_names),
            "qdrant": {"url": qdrant, "dimension": DIMENSION, "timeout": 20},
            "embedder": {"kind": "openai", "url": stubs.embed, "timeout": 20},
            "rerank": {"kind": "cohere", "url": stubs.rerank, "timeout": 20},
            # Two replicas take one each.
            "telemetry": {"host": "127.0.0.1", "port": free_port(1)},
            # The query waits for the replicas' start.
            "limits": {"timeout": 60},
        }
        config.write_text(yaml.safe_dump(settings))
        documents = tmp_path / "documents.jsonl"
        documents.write_text("\n".join(json.dumps({"id": f"d{n}", "text": f"blue lantern {n}"}) for n in range(30)))

        made = rankstream(config, "topics").stdout
        assert made.count("created topic") == len(ROLES)
        assert "created collection documents" in made
        assert rankstream(config, "topics").stdout == ""

        command = [sys.executable, "-m", "flows.cli"]
        own = {**os.environ, "RANKSTREAM_TELEMETRY__PORT": "0"}
        indexing = subprocess.Popen([*command, "index", "--config", str(config)], env=own)
        running = subprocess.Popen([*command, "run", "--replicas", "2", "--config", str(config)])
        try:
            for client in ("kafka-python", "librdkafka"):
                indexed = rankstream(config, "index", "--from", str(documents), client=client)
                assert "documents indexed: 30, rejected: 0" in indexed.stdout
                asked = rankstream(config, "query", "blue lantern 7", "--json", "--timeout", "60", client=client)
                answer = json.loads(asked.stdout)
                assert answer["status"] == "ok"
                assert answer["results"][0]["id"] in {f"d{n}" for n in range(30)}
            liked = ("--like", "d7", "--like", "d8", "--limit", "30")
            like = json.loads(rankstream(config, "query", *liked, "--json", "--timeout", "60").stdout)
            assert {hit["id"] for hit in like["results"]} == {f"d{n}" for n in range(30)} - {"d7", "d8"}
            further = json.dumps({"facets": [{"field": "id"}], "order_by": {"field": "updated_at"}, "limit": 2})
            given = ("blue", "--event", further, "--timeout", "60")
            counted = json.loads(rankstream(config, "query", *given, "--json").stdout)
            assert (len(counted["results"]), counted["facets"][0]["more"]) == (2, True)
            assert "\nid: d0 1, d1 1" in rankstream(config, "query", *given).stdout
            for process in (indexing, running):
                process.send_signal(signal.SIGTERM)
                assert process.wait(PATIENCE) == 0
        finally:
            for process in (indexing, running):
                process.kill()


def test_one_process_indexes_and_searches_the_embedded_engine(
    broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]
) -> None:
    """`run --with-indexing`: a document that is indexed while it runs is found by the next query, and its new text by
    the one after. A second process, which cannot open the index, says so in one line, and hurts the first one not.
    """
    with stub_backends() as stubs:
        config = tmp_path / "rankstream.yaml"
        port = free_port()
        settings = {
            "kafka": kafka(broker, topic_names),
            "qdrant": {"path": str(tmp_path / "engine"), "dimension": DIMENSION, "timeout": 20},
            "embedder": {"kind": "openai", "url": stubs.embed, "timeout": 20},
            "rerank": {"kind": "none"},
            "telemetry": {"host": "127.0.0.1", "port": port},
            "limits": {"timeout": 60},
        }
        config.write_text(yaml.safe_dump(settings))
        rankstream(config, "topics")
        document = tmp_path / "document.jsonl"
        command = [sys.executable, "-m", "flows.cli", "run", "--config", str(config)]
        running = subprocess.Popen([*command, "--with-indexing"])
        try:
            for text in ("a blue lantern", "a green lantern"):
                document.write_text(json.dumps({"id": "lamp", "text": text}))
                told = rankstream(config, "index", "--from", str(document)).stdout
                assert "documents sent: 1, rejected: 0" in told
                asked = rankstream(config, "query", "lantern", "--json", "--timeout", "60")
                assert [hit["text"] for hit in json.loads(asked.stdout)["results"]] == [text]
            document.write_text('{"id": "desk", "text": "a desk"}\n[1]\n')
            told_wrong = rankstream(config, "index", "--from", str(document), "--allow-rejected")
            assert "documents sent: 2, rejected: 1" in told_wrong.stdout
            assert "line 2, document without id: invalid: a JSON object is expected, not list" in told_wrong.stderr
            piped = [sys.executable, "-m", "flows.cli", "index", "--config", str(config), "--from", "-"]
            read = subprocess.run(piped, input=b'{"id": "bed", "text": "a bed"}', capture_output=True, timeout=PATIENCE)
            assert (read.returncode, read.stdout) == (0, b"documents sent: 1, rejected: 0\n"), read.stderr
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=PATIENCE) as answer:
                checks = json.load(answer)["checks"]
            assert {"indexing.group", "indexing.qdrant", "search.group", "search.qdrant"} <= checks.keys()
            own = {**os.environ, "RANKSTREAM_TELEMETRY__PORT": "0"}
            second = subprocess.run(command, env=own, capture_output=True, text=True, timeout=PATIENCE)
            assert second.returncode == 2
            assert "both flows in one, `rankstream run --with-indexing`" in second.stderr.splitlines()[-1]
            rankstream(config, "query", "lantern", "--json", "--timeout", "60")
            running.send_signal(signal.SIGTERM)
            assert running.wait(PATIENCE) == 0
        finally:
            running.kill()


def test_bytewaxs_own_command_runs_a_replica(broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]) -> None:
    """Configured by the file that a variable names, it answers a query, and SIGTERM ends it with 0 after a drain."""
    with qdrant_server.running(tmp_path / "engine") as qdrant, stub_backends() as stubs:
        config = tmp_path / "rankstream.yaml"
        settings = {
            "kafka": kafka(broker, topic_names),
            "qdrant": {"url": qdrant, "dimension": DIMENSION, "timeout": 20},
            "embedder": {"kind": "openai", "url": stubs.embed, "timeout": 20},
            "rerank": {"kind": "none"},
            "limits": {"timeout": 60},
        }
        config.write_text(yaml.safe_dump(settings))
        rankstream(config, "topics")
        command = [sys.executable, "-m", "bytewax.run", "flows.process.standalone"]
        running = subprocess.Popen(command, env={**os.environ, "RANKSTREAM_CONFIG": str(config)})
        try:
            asked = rankstream(config, "query", "lantern", "--json", "--timeout", "60")
            assert json.loads(asked.stdout)["status"] == "ok"
            running.send_signal(signal.SIGTERM)
            assert running.wait(PATIENCE) == 0
        finally:
            running.kill()


def test_at_least_once_answers_every_query(broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]) -> None:
    """Without transactions, and without a crash, each query is answered once, and its successor has nothing to do."""
    with stub_backends() as stubs:
        sections = {"qdrant": {"url": stubs.qdrant}, "delivery": {"mode": "at_least_once"}}
        with Deployment.on(broker, tmp_path, topic_names, sections) as running:
            first = running.start()
            running.ask([{"query_id": f"q{n}", "text": "harbor"} for n in range(200)])
            assert_each_once(running, running.output_records(200))
            assert first.terminate() == 0
            running.start()
            assert_each_once(running, running.output_records(200))
