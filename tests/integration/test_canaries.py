"""Secrets planted wherever one can be given, then looked for in everything that comes out of a process."""

import base64
import contextlib
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.kafka.broker import Broker
from bench.kafka.certificates import KEY_PASSWORD
from bench.kafka.listeners import PASSWORD, unsigned_token
from bench.ports import free_port
from tests import warm
from tests.integration.deployment import PATIENCE, Deployment
from tests.kafka.issuer import Issuer
from tests.loopback import LoopbackServer
from tests.otlp import Receiver

pytestmark = pytest.mark.slow

TOKEN = unsigned_token(3600, canary="canary-token-0c2f")
KEYS = {
    f"RANKSTREAM_{section}__API_KEY": f"canary-{section.lower()}-key-93ad"
    for section in ("QDRANT", "EMBEDDER", "RERANK")
}
CLIENT = {"RANKSTREAM_KAFKA__SASL__CLIENT_SECRET": "canary-client-secret-5b77"}
USER = {"RANKSTREAM_KAFKA__SASL__PASSWORD": PASSWORD}
KEY = {"RANKSTREAM_KAFKA__TLS__KEY_PASSWORD": KEY_PASSWORD}
PLANTED = [*KEYS.values(), *CLIENT.values(), *USER.values(), *KEY.values(), TOKEN]

Secrets = Mapping[str, str]


def found(text: str) -> list[str]:
    """The canaries in a text, as they are or in base64, however its lines are broken; and anything called one."""
    whole = "".join(text.split())
    encoded = [base64.b64encode(f"rankstream:{canary}".encode()).decode() for canary in PLANTED]
    return [canary for canary in (*PLANTED, *encoded, TOKEN.split(".")[1], "canary-") if canary in whole]


class Echo(LoopbackServer):
    """A backend that refuses every call, 401 and 500 in turn, and sends the request's headers back wherever it can."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        echo = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                echo.heard.append(str(self.headers))
                body = json.dumps({"status": {"error": str(self.headers)}, "message": str(self.headers)}).encode()
                self.send_response((401, 500)[len(echo.heard) % 2], f"Refused {self.headers['Authorization']}")
                self.send_header("X-Heard", self.headers.get("Authorization", ""))
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_PUT = do_POST  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Say nothing on stderr."""

        super().__init__(Handler, "echo")


@pytest.fixture
def echo() -> Iterator[Echo]:
    """A backend that runs."""
    with Echo() as running:
        yield running


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """An issuer that runs."""
    with Issuer(TOKEN) as running:
        yield running


def backends(echo: Echo) -> dict[str, Any]:
    """Sections that send every call to the echo, and log all there is to log."""
    return {
        "qdrant": {"url": echo.base_url},
        "embedder": {"kind": "openai", "url": echo.base_url},
        "rerank": {"kind": "cohere", "url": echo.base_url},
        "telemetry": {"host": "127.0.0.1", "log_level": "debug"},
        # Queries are asked before the flow has its partitions.
        "limits": {"timeout": 60},
    }


def planted(how: str, secrets: Secrets, directory: Path) -> dict[str, str]:
    """The environment that gives the secrets: themselves, or files with them."""
    if how == "environment":
        return dict(secrets)
    files = {}
    for variable, value in secrets.items():
        files[f"{variable}_FILE"] = str(directory / variable)
        (directory / variable).write_text(f"{value}\n")
    return files


def secured_kafka(broker: Broker, mechanism: str, issuer: Issuer) -> tuple[dict[str, Any], dict[str, str]]:
    """Section `kafka` over SASL_SSL with a client's key, and the secrets beside it."""
    settings = broker.listeners.settings("SASLTLS", "PLAIN" if mechanism == "OAUTHBEARER" else mechanism)
    settings["tls"] |= broker.listeners.settings("MUTUAL")["tls"]
    # So long a command tries again before it says that it can't get in.
    settings["request_timeout"] = 8
    if mechanism != "OAUTHBEARER":
        return settings, {**KEYS, **KEY, **USER}
    settings["sasl"] = {"mechanism": mechanism, "token_url": issuer.url, "client_id": "rankstream"}
    return settings, {**KEYS, **KEY, **CLIENT}


def told_by_health(port: int) -> str:
    """The answers of the two probes, headers included."""
    told = ""
    for path in ("livez", "readyz"):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5) as answer:
                told += f"{answer.headers}{answer.read()!r}"
        except urllib.error.HTTPError as error:
            told += f"{error.reason}{error.headers}{error.read()!r}"
    return told


@pytest.mark.both_clients
@pytest.mark.parametrize(
    ("mechanism", "how", "client"),
    [
        ("PLAIN", "environment", "kafka-python"),
        ("SCRAM-SHA-256", "files", "librdkafka"),
        ("OAUTHBEARER", "environment", "librdkafka"),
        ("OAUTHBEARER", "files", "kafka-python"),
    ],
)
def test_no_secret_leaves_a_running_flow(
    secured: Broker,
    tmp_path: Path,
    topic_names: Callable[[str], str],
    echo: Echo,
    issuer: Issuer,
    mechanism: str,
    how: str,
    client: str,
) -> None:
    """At debug level, with backends that send the keys back: not in logs, spans, records or the probes' answers."""
    kafka, secrets = secured_kafka(secured, mechanism, issuer)
    with Receiver() as collector, Deployment.on(secured, tmp_path, topic_names, backends(echo)) as running:
        running.settings["kafka"] |= {**kafka, "client": client}
        running.environment = {
            **planted(how, secrets, tmp_path),
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        flow = running.start(wait=False)
        running.ask([{"query_id": f"q{n}", "text": "harbor lantern"} for n in range(6)])
        running.produce("queries", [b"not json"])
        output_records = running.output_records(7)
        health = told_by_health(flow.port)
        assert flow.terminate() == 0
        outside = {
            "log": flow.log.read_text(),
            "spans": str(collector.spans),
            "records": str(output_records),
            "health": health,
        }
    assert len(output_records) == 7
    assert collector.spans
    heard = "".join(echo.heard)
    assert all(key in heard for key in (secrets[f"RANKSTREAM_{name}__API_KEY"] for name in ("QDRANT", "EMBEDDER")))
    assert bool(issuer.asked) == (mechanism == "OAUTHBEARER")
    assert {place: found(text) for place, text in outside.items()} == {place: [] for place in outside}


def run_commands(config: Path, environment: Mapping[str, str], codes: Mapping[str, int]) -> str:
    """Run the commands side by side, each to its end with the code that is expected; all that they printed."""
    documents = config.with_name("documents.jsonl")
    documents.write_text('{"id": "d", "text": "harbor"}\n')
    more = {"query": ["harbor", "--timeout", "3"], "feed": ["--from", str(documents)]}
    processes, logs = {}, {name: config.with_name(f"{name}.log") for name in codes}
    with contextlib.ExitStack() as stack:
        for name in codes:
            arguments = [name.replace("feed", "index"), *more.get(name, []), "--config", str(config)]
            port = {"RANKSTREAM_TELEMETRY__PORT": str(free_port())}
            with logs[name].open("wb") as out:
                processes[name] = warm.start(arguments, {**os.environ, **port, **environment}, out)
            stack.callback(processes[name].kill)
        ended = {name: process.wait(2 * PATIENCE) for name, process in processes.items()}
    printed = {name: log.read_text() for name, log in logs.items()}
    assert ended == codes, printed
    assert "Traceback" not in "".join(printed.values())
    return "".join(printed.values())


ALL = ("run", "index", "feed", "query", "topics")

FAULTS = [
    ("credentials", "PLAIN", "environment", dict.fromkeys(ALL, 1)),
    ("credentials", "SCRAM-SHA-512", "files", {"run": 1, "query": 1}),
    ("credentials", "OAUTHBEARER", "environment", {"run": 1, "query": 1}),
    ("issuer", "OAUTHBEARER", "files", dict.fromkeys(ALL, 1)),
    ("authority", "PLAIN", "environment", {"run": 1, "topics": 1}),
    ("key", "PLAIN", "files", {"run": 2, "feed": 2, "query": 2, "topics": 2}),
    ("backend", "PLAIN", "environment", {"index": 1, "topics": 1}),
]


@pytest.mark.parametrize(("fault", "mechanism", "how", "codes"), FAULTS)
def test_no_secret_is_in_what_a_failing_command_prints(
    secured: Broker,
    tmp_path: Path,
    echo: Echo,
    issuer: Issuer,
    fault: str,
    mechanism: str,
    how: str,
    codes: Mapping[str, int],
) -> None:
    """A command that can't start ends with 1, or 2 for what the settings name, without a traceback or a secret."""
    kafka, secrets = secured_kafka(secured, mechanism, issuer)
    if fault == "credentials":
        secrets |= {name: f"canary-wrong-{value}" for name, value in secrets.items() if name in USER}
        issuer.body = json.dumps({"access_token": unsigned_token(-60, canary="canary-expired")}).encode()
    elif fault == "issuer":
        issuer.status, issuer.body = 401, json.dumps({"error": "invalid_client", "x": CLIENT}).encode()
    elif fault == "authority":
        kafka["tls"]["ca_file"] = str(secured.listeners.certificates.stranger)
    elif fault == "key":
        secrets |= dict.fromkeys(KEY, "canary-wrong")
    config = tmp_path / "rankstream.yaml"
    config.write_text(yaml.safe_dump({"kafka": kafka, **backends(echo)}))
    assert found(run_commands(config, planted(how, secrets, tmp_path), codes)) == []


def test_no_secret_is_printed_about_a_wrong_file_or_a_broker_that_is_not_there(tmp_path: Path, echo: Echo) -> None:
    """A secret in the YAML, YAML that is none, and a broker that nobody can reach: one error, and no secret."""
    config = tmp_path / "rankstream.yaml"
    for text in (
        f"kafka:\n  sasl:\n    password: {PASSWORD}\n",
        f"kafka:\n  sasl: {PASSWORD}\n",
        f"kafka: {{sasl: [{PASSWORD}\n",
        f"kafka:\n  sasl:\n    mechanism: {PASSWORD}\n    passwort: {PASSWORD}\n",
        f"qdrant:\n  url: {PASSWORD}\n",
    ):
        config.write_text(text)
        assert found(run_commands(config, KEYS, {"run": 2})) == []
    kafka: dict[str, Any] = {"bootstrap_servers": f"localhost:{free_port()}", "security_protocol": "SASL_PLAINTEXT"}
    kafka |= {"sasl": {"mechanism": "PLAIN", "username": "u"}}
    config.write_text(yaml.safe_dump({"kafka": kafka, **backends(echo)}))
    assert found(run_commands(config, {**KEYS, **USER}, dict.fromkeys(("run", "topics"), 1))) == []


def test_a_canary_would_be_found() -> None:
    """The search sees a secret in the open, broken by a line's end, and in a header's base64."""
    assert found(f"... {PASSWORD[:9]}\n{PASSWORD[9:]} ...")
    credentials = base64.b64encode(f"rankstream:{CLIENT['RANKSTREAM_KAFKA__SASL__CLIENT_SECRET']}".encode()).decode()
    assert found(f"Basic {credentials}")
    assert found(f"auth=Bearer {TOKEN}")
    assert not found("nothing here")
