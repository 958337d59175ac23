"""Logs of a process: events and key-values on standard error, the libraries' lines beside them, and nothing quoted."""

import json
import subprocess
import sys

import pytest

CANARY = "the secret text of a query"
SCRIPT = f"""
import logging
from opentelemetry.trace import NoOpTracerProvider
from flows.process import logs
from operators.runtime.dispatcher import defect_of_call
from operators.telemetry.instruments import Instruments
from operators.telemetry.metrics import FlowMetrics
from operators.telemetry.traces import QueryTrace
from schemas.settings import TelemetrySettings

logs.configure(TelemetrySettings(log_format="{{}}"))
headers = [("traceparent", b"{CANARY}"), ("tracestate", b"{CANARY}"), ("baggage", b"{CANARY}")]
metrics = FlowMetrics(Instruments(), "search")
QueryTrace(NoOpTracerProvider().get_tracer("x"), metrics, headers, "queries", 0.0, 0.0, {{{{}}}})
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
