"""Logs of a process: events and key-values on standard error, the libraries' lines beside them, and nothing quoted."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from tests.loopback import LoopbackServer

CANARY = "the secret text of a query"
SCRIPT = f"""
import logging
from opentelemetry.trace import NoOpTracerProvider
from flows.process import logs
from operators.runtime.dispatcher import defect_of_call
from operators.telemetry.metrics import FlowMetrics, Instruments
from operators.telemetry.traces import Signals
from operators.wire.message import Message, Origin
from schemas.settings import TelemetrySettings

logs.configure(TelemetrySettings(log_format="{{}}"))
headers = [("traceparent", b"{CANARY}"), ("tracestate", b"{CANARY}"), ("baggage", b"{CANARY}")]
metrics = FlowMetrics(Instruments(), "search")
message = Message(Origin("queries", 0, 0, 0), None, None, (), 0.0, 0.0, 0.0)
Signals(NoOpTracerProvider().get_tracer("x"), metrics, "rankstream").trace(message, headers, {{{{}}}})
defect_of_call(KeyError("{CANARY}"))
logging.getLogger("library").warning("a line of %s", "a library")
"""


def logged(log_format: str) -> list[str]:
    """The lines of a process that meets headers that can't be read, a defect, and a library's warning."""
    command = [sys.executable, "-c", SCRIPT.format(log_format)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_each_line_is_an_object_with_an_event() -> None:
    """As JSON the operators' lines have their event and its values, a library's line is an event by itself."""
    ours, theirs = map(json.loads, logged("json"))
    assert (ours["event"], ours["error"], ours["level"]) == (
        "backend call raised an unexpected error",
        "KeyError",
        "error",
    )
    assert ours["logger"] == "operators.runtime.dispatcher"
    assert (theirs["event"], theirs["logger"], theirs["level"]) == ("a line of a library", "library", "warning")


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_no_line_quotes_a_message(log_format: str) -> None:
    """Neither a header that can't be read nor an exception's own words are in the log."""
    assert CANARY not in "\n".join(logged(log_format))


SLOW_TURN = """
import logging, time
from flows.process import logs
from kafka.net.selector import NetworkSelector
from schemas.settings import TelemetrySettings

logs.configure(TelemetrySettings(log_level="{}"))
selector = NetworkSelector()

async def slow():
    time.sleep(0.2)

selector.run(slow)
"""


@pytest.mark.parametrize(("level", "lines"), [("info", 0), ("debug", 1)])
def test_a_slow_turn_of_the_kafka_client_is_no_warning(level: str, lines: int) -> None:
    """That kafka-python's own loop was held up for a moment is said at debug level alone."""
    done = subprocess.run([sys.executable, "-c", SLOW_TURN.format(level)], capture_output=True, text=True, check=True)
    assert done.stderr.count("blocking the event loop") == lines


CLIENTS = """
import logging
from flows.process import logs
from schemas.settings import TelemetrySettings

logs.configure(TelemetrySettings(log_level="{}"), clients=False)
for name in ("kafka.conn", "kafka.net.selector", "librdkafka", "kafkaesque", "flows.cli"):
    logging.getLogger(name).error("a line")
"""


@pytest.mark.parametrize(("level", "lines"), [("info", 2), ("debug", 5)])
def test_without_the_clients_no_part_of_them_is_heard(level: str, lines: int) -> None:
    """Whatever level a part of a client has of its own; at debug level all is logged."""
    done = subprocess.run([sys.executable, "-c", CLIENTS.format(level)], capture_output=True, text=True, check=True)
    assert len(done.stderr.splitlines()) == lines


SECRET = "api-key-of-the-collector"
EXPORTS = """
import os, sys
from flows.process import logs
from operators.telemetry.export import metric_export, tracer_provider
from operators.telemetry.metrics import Instruments
from schemas.settings import TelemetrySettings

logs.configure(TelemetrySettings(log_level=sys.argv[1], log_format="json"))
traces, metrics = tracer_provider(), metric_export(Instruments())
for _ in range(3):
    traces.get_tracer("x").start_span("x").end()
    traces.force_flush()
metrics.close(20)
traces.shutdown()
"""


class Refusing(BaseHTTPRequestHandler):
    """A collector that refuses every batch."""

    def do_POST(self) -> None:
        """Refuse."""
        self.rfile.read(int(self.headers["content-length"]))
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Say nothing on stderr."""


def exported(level: str, variables: Mapping[str, str]) -> list[dict[str, Any]]:
    """The lines of a process that exports three batches of spans, and one of metrics."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    given = {"OTEL_EXPORTER_OTLP_TIMEOUT": "0.5", **variables}
    done = subprocess.run(
        [sys.executable, "-c", EXPORTS, level], env=environment | given, capture_output=True, text=True, check=True
    )
    assert SECRET not in done.stdout + done.stderr
    return [json.loads(line) for line in done.stderr.splitlines()]


@pytest.mark.parametrize(
    ("level", "variables", "reason"),
    [
        ("info", {"OTEL_EXPORTER_OTLP_HEADERS": f"Authorization: Bearer {SECRET}"}, "HTTP 404"),
        ("info", {"OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{SECRET}%0Ax"}, "InvalidHeader"),
        ("info", {"OTEL_EXPORTER_OTLP_HEADERS": f"a=%E2%82%AC{SECRET}"}, "UnicodeEncodeError"),
        ("info", {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:1/?api-key={SECRET}&x="}, "ConnectionError"),
        ("debug", {"OTEL_EXPORTER_OTLP_ENDPOINT": f"{{}}/?api-key={SECRET}&x="}, "HTTP 404"),
        ("debug", {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{SECRET}@127.0.0.1:1"}, "ConnectionError"),
        ("debug", {"OTEL_EXPORTER_OTLP_ENDPOINT": f"{SECRET}:4318"}, "InvalidSchema"),
        ("info", {"OTEL_RESOURCE_ATTRIBUTES": SECRET}, "HTTP 404"),
    ],
)
def test_a_failed_export_is_one_line_without_a_secret(level: str, variables: dict[str, str], reason: str) -> None:
    """No line quotes a header, a URL or a path of the exporters; ours names the exporter, and the status or the error's
    type.
    """
    with LoopbackServer(Refusing, "collector") as collector:
        given = {"OTEL_EXPORTER_OTLP_ENDPOINT": "{}", **variables}
        lines = exported(level, {name: value.replace("{}", collector.base_url) for name, value in given.items()})
    spans, *others = [line for line in lines if line["event"] == "spans were not exported"]
    [metrics] = [line for line in lines if line["event"] == "metrics were not exported"]
    assert len(others) == (2 if level == "debug" else 0)
    assert (spans["exporter"], metrics["exporter"]) == ("otlp", "otlp")
    assert (spans["reason"], metrics["reason"]) == (reason, reason)
