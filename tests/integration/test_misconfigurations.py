"""Mistakes that users make at first: each is one line that names the setting and says what to do, and no traceback.

A row is the command that meets it, a configuration, and its line; … stands for any words. $NAME is the address of what
is there for the row. Where Qdrant is not named, `qdrant: {url: http://q}` is set, too. Of `check` it is the one line
that is no `ok`.
"""

import logging
import re
import socket
import string
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import structlog

from bench.kafka.broker import Broker
from bench.ports import free_port
from bench.stubs import stub_backends
from flows.cli.main import run_command_line
from operators.delivery import listener

CONFIGURATION = """
# The file
$ config
kafka:
\tclient: librdkafka
    configuration: c.yaml: not YAML at line 2: indent by spaces, not by a tab
$ config
kafka:
  client: librdkafka
   group_id: a
    configuration: c.yaml: not YAML at line 3: a colon where none may be: indent keys of a section alike, …
$ config
kafka:
    client: librdkafka
  group_id: a
    configuration: c.yaml: not YAML at line 3: indent keys of a section alike, and put nothing behind a quoted value
$ config
kafka
  client: librdkafka
    configuration: c.yaml: not YAML at line 2: a colon where none may be: …, end the line above with a colon, or …
$ config
kafka: {client: librdkafka
    configuration: c.yaml: not YAML at line 2: the mapping in braces does not end
$ config
rerank: {query_template: @query}
    configuration: c.yaml: not YAML at line 1: quote a value that begins with @, % or `
$ config
kafka: {client: librdkafka, client: kafka-python}
    configuration: c.yaml: 'client' is set twice (line 1)
$ config
qdrant: {url: http://q, api_key: secret}
    configuration: qdrant.api_key: secrets come from the environment or from a file (..._file), not from YAML

# Variables
$ config
RANKSTREAM_KAFKA_BOOTSTRAP_SERVERS=b:9092
    configuration: RANKSTREAM_KAFKA_BOOTSTRAP_SERVERS: …; did you mean RANKSTREAM_KAFKA__BOOTSTRAP_SERVERS?
$ config
RANKSTREAM_TELEMETRY_PORT=9000
    configuration: RANKSTREAM_TELEMETRY_PORT: no such setting; did you mean RANKSTREAM_TELEMETRY__PORT?
$ config
RANKSTREAM_KAFKA__BOOTSTRAP_SERVER=b:9092
    configuration: RANKSTREAM_KAFKA__BOOTSTRAP_SERVER: no such key; did you mean bootstrap_servers?
$ config
RANKSTREAM_QDRANT=http://q:6333
    configuration: RANKSTREAM_QDRANT: a section is set by a JSON object, or its keys one by one: RANKSTREAM_QDRANT__...
$ config
RANKSTREAM_FIREWALL__BLOCKED_LABELS=draft
    configuration: RANKSTREAM_FIREWALL__BLOCKED_LABELS: JSON is expected, such as ["a", "b"]

# Keys and values
$ config
kafka: {client: librdkafka}
qdrant: {}
    configuration: qdrant: set one of url and path
$ config
kafka: {bootstrap_servers: "http://localhost:9092"}
    configuration: kafka.bootstrap_servers: host:port of brokers is expected, such as localhost:9092: no scheme, …
$ config
qdrant: {url: "localhost:6333"}
    configuration: qdrant.url: a URL http(s)://host[:port][/path] is expected, without user, password and query
$ config
qdrant: {url: http://q, bm25: {language: germn}}
    configuration: qdrant.bm25.language: no such language; did you mean german?
$ config
kafka: {topics: {query: q}}
    configuration: kafka.topics.query: no such key; did you mean queries?
$ config
kafka: {topics: {results: a, queries: a}}
    configuration: kafka.topics: queries and results: the same topic
$ config
recipes: {mine: {stages: [rrff]}}
    configuration: recipes.mine.stages.0: no such stage; did you mean rrf?
$ config
profiles: {fast: {group_by: brand}}
    configuration: profiles.fast.group_by: nothing to group by; index it as keyword, integer or bool in qdrant.indexes

# Keys that do not go together, and keys without effect
$ config
qdrant: {url: http://q, path: /x}
    configuration: qdrant: set one of url and path, not both
$ config
embedder: {kind: openai, model: e5}
    configuration: embedder: openai needs url
$ config
embedder: {model: intfloat/e5-small-v2}
    configuration: embedder: model: no effect with kind minilm; remove, or set kind, which says what the server is
$ config
rerank: {url: "http://reranker:80", model: bge}
    configuration: rerank: url, model: no effect with kind late_interaction; remove, or set kind, which says what the …
$ config
embedder: {kind: tei, url: "http://e"}
    configuration: rerank.kind: late_interaction reads token vectors, and embedder.kind tei gives none; name …
$ config
kafka: {sasl: {mechanism: PLAIN, username: u, password_file: /p}}
    configuration: kafka: sasl: no effect with security_protocol PLAINTEXT; remove, or set it to SASL_PLAINTEXT or …
$ config
kafka: {security_protocol: SASL_SSL}
    configuration: kafka: security_protocol SASL_SSL needs sasl.mechanism
$ config
firewall: {blocked_labels: [draft]}
    configuration: firewall: blocked_labels: no effect without the firewall; set firewall.enabled to true, or to false …
$ config
qdrant: {url: http://q, context: {before: 3}}
    configuration: qdrant.context: before: no effect without order_by; remove, or set order_by

# Files
$ topics
kafka: {security_protocol: SSL, bootstrap_servers: "$SILENT", tls: {ca_file: /none/ca.pem}}
    configuration: kafka.tls.ca_file: /none/ca.pem: No such file or directory
$ config
policies: {files: [/none/policies.yaml]}
    configuration: policies.files: /none/policies.yaml: No such file or directory

# Servers
$ topics
kafka: {bootstrap_servers: "$AWAY"}
    no Kafka broker answers at $AWAY (connection refused): start it, or correct kafka.bootstrap_servers
$ topics
kafka: {bootstrap_servers: "broker.invalid:9092"}
    no Kafka broker answers at broker.invalid:9092 (unknown host): start it, or correct kafka.bootstrap_servers
$ query x
kafka: {bootstrap_servers: "$SILENT"}
    no Kafka broker answers at $SILENT (accepts connections and never answers): look at the broker's log, or correct …
$ topics
kafka: {bootstrap_servers: "$HTTP"}
    no Kafka broker answers at $HTTP (is an HTTP server): correct kafka.bootstrap_servers
$ check --part qdrant
qdrant: {url: "http://$AWAY"}
    error qdrant: no answer: qdrant at http://$AWAY: connection refused. Start Qdrant, or correct qdrant.url, …
$ check --part embedder
embedder: {kind: tei, url: "http://$AWAY"}
rerank: {kind: none}
    error embedder: embedder at http://$AWAY: connection refused. Start the server, or correct embedder.url and …
$ check --part embedder
embedder: {kind: openai, url: "$EMBEDDER", model: m}
qdrant: {url: http://q, dimension: 5}
rerank: {kind: none}
    error embedder: vectors of another dimension than 5: 384. Correct qdrant.dimension, or …
$ run
kafka: {bootstrap_servers: "$AWAY"}
telemetry: {host: 127.0.0.1, port: $TAKEN}
    configuration: telemetry.port: cannot listen on 127.0.0.1:$TAKEN (…); set another port in the file or by …
"""

KAFKA = """
$ topics
kafka:
  bootstrap_servers: $PLAIN
  security_protocol: SASL_PLAINTEXT
  sasl: {mechanism: PLAIN, username: u, password_file: $FILE}
    no Kafka broker answers at $PLAIN (takes no SASL): set kafka.security_protocol to PLAINTEXT and remove kafka.sasl, …
$ topics
kafka: {bootstrap_servers: "$PLAIN", security_protocol: SSL}
    $PLAIN: TLS: …; set kafka.security_protocol to PLAINTEXT or SASL_PLAINTEXT, or name the port of TLS
$ query x
kafka: {bootstrap_servers: "$PLAIN", topics: {queries: none-q, results: none-r, dead_letters: none-d}}
    $PLAIN: topic none-q doesn't exist; `rankstream topics` creates it
$ topics
kafka: {bootstrap_servers: "$SASL"}
    no Kafka broker answers at $SASL (wants SASL): set kafka.security_protocol to SASL_PLAINTEXT, and kafka.sasl
$ query x
kafka: {bootstrap_servers: "$TLS"}
    no Kafka broker answers at $TLS (…TLS…): set kafka.security_protocol to SSL or SASL_SSL…
$ topics
kafka:
  bootstrap_servers: $SASL
  security_protocol: SASL_PLAINTEXT
  sasl: {mechanism: PLAIN, username: u, password_file: $FILE}
    $SASL: SASL PLAIN: the broker … the credentials…; correct kafka.sasl
"""


def rows(table: str) -> list[Any]:
    """The command, the configuration and the line of each row."""
    found: list[list[str]] = []
    for line in table.splitlines():
        if line.startswith("$ "):
            found.append([line.removeprefix("$ ")])
        elif line and not line.startswith("# "):
            found[-1].append(line)
    parsed = [(command, configuration, line.strip()) for command, *configuration, line in found]
    return [pytest.param(*row, id=row[2]) for row in parsed]


@pytest.fixture(autouse=True)
def _logs_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process that runs the tests keeps its own logs: a logger that is cached would stay as the command made it."""
    root, configure = logging.getLogger(), structlog.configure
    handlers, level, before = list(root.handlers), root.level, structlog.get_config()
    monkeypatch.setattr(
        structlog, "configure", lambda **given: configure(**given | {"cache_logger_on_first_use": False})
    )
    yield
    root.handlers, root.level = handlers, level
    configure(**before)


def _serve(server: socket.socket, answer: bytes) -> None:
    while True:
        try:
            connected, _ = server.accept()
        except OSError:
            return
        with connected:
            connected.recv(1024)
            connected.sendall(answer)


@pytest.fixture(scope="module")
def places() -> Iterator[dict[str, str]]:
    """The addresses that the rows name."""
    with ExitStack() as stack:
        stubs = stack.enter_context(stub_backends())
        silent, taken, http = (stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3))
        threading.Thread(target=_serve, args=(http, b"HTTP/1.1 400 Bad Request\r\n\r\n"), daemon=True).start()
        yield {
            "AWAY": f"127.0.0.1:{free_port()}",
            "SILENT": f"127.0.0.1:{silent.getsockname()[1]}",
            "HTTP": f"127.0.0.1:{http.getsockname()[1]}",
            "TAKEN": str(taken.getsockname()[1]),
            "EMBEDDER": stubs.embed,
        }
        http.shutdown(socket.SHUT_RDWR)


Told = Callable[[str, list[str], Mapping[str, str]], list[str]]


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Told:
    """The lines that a command prints about a configuration."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(listener, "PATIENCE", 0.5)

    def run(command: str, configuration: list[str], known: Mapping[str, str]) -> list[str]:
        written = [string.Template(line).safe_substitute(known) for line in configuration]
        variables = [line for line in written if line.startswith("RANKSTREAM_")]
        for variable in variables:
            monkeypatch.setenv(*variable.split("=", 1))
        text = written[len(variables) :]
        if "qdrant" not in str(written).lower():
            text.append("qdrant: {url: http://q}")
        Path("c.yaml").write_text("\n".join(text))
        monkeypatch.setattr("sys.argv", ["rankstream", *command.split(), "--config", "c.yaml"])
        with pytest.raises(SystemExit) as ended:
            run_command_line()
        assert ended.value.code in {1, 2}
        printed = "".join(capfd.readouterr())
        return [line for line in printed.splitlines() if not line.startswith("ok")]

    return run


def check(said: list[str], line: str, known: Mapping[str, str]) -> None:
    """Fail unless this is the one line that was said."""
    expected = map(re.escape, string.Template(line).safe_substitute(known).split("…"))
    assert len(said) == 1, said
    assert re.fullmatch(".*".join(expected), re.sub(" +", " ", said[0])), said


@pytest.mark.parametrize(("command", "configuration", "line"), rows(CONFIGURATION))
def test_a_mistake_is_one_line_that_says_what_to_do(
    told: Told, places: dict[str, str], command: str, configuration: list[str], line: str
) -> None:
    """Of the file, of variables, and of servers that are not there, or are others."""
    check(told(command, configuration, places), line, places)


@pytest.mark.parametrize(("command", "configuration", "line"), rows(KAFKA))
def test_a_mistake_about_a_broker_is_one_line_that_says_what_to_do(
    told: Told, broker: Broker, secured: Broker, tmp_path: Path, command: str, configuration: list[str], line: str
) -> None:
    """Of its listeners, its topics and its credentials, at once."""
    (tmp_path / "password").write_text("wrong")
    ports = secured.listeners.ports
    known = {"PLAIN": broker.bootstrap, "FILE": str(tmp_path / "password")}
    known |= {name: f"localhost:{ports[name]}" for name in ("SASL", "TLS")}
    check(told(command, configuration, known), line, known)


def test_they_are_forty() -> None:
    """None was taken away."""
    assert len(rows(CONFIGURATION)) + len(rows(KAFKA)) >= 40
