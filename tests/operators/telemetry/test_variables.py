"""OpenTelemetry's variables hold what people and injectors write: a command runs, or says in one line what is wrong."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from operators.telemetry import absent_propagators, remove_absent_propagators
from operators.telemetry.export import close_traces, metric_export, tracer_provider
from operators.telemetry.metrics import Instruments
from schemas.errors import ConfigError

pytestmark = pytest.mark.slow


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """An environment whose spans and metrics go to an address where nothing listens."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    yield monkeypatch
    absent_propagators.clear()


@pytest.mark.parametrize(
    ("value", "rest", "absent"),
    [
        ("b3", None, ["b3"]),
        ("tracecontext, b3multi,baggage", "tracecontext,baggage", ["b3multi"]),
        ("tracecontext,", "tracecontext", []),
        ("tracecontext,baggage", "tracecontext,baggage", []),
        ("None", "None", []),
    ],
)
def test_propagators_that_are_not_installed_are_left_out(
    environment: pytest.MonkeyPatch, value: str, rest: str | None, absent: list[str]
) -> None:
    """The others stay, and those that are left out are noted for the log."""
    environment.setenv("OTEL_PROPAGATORS", value)
    remove_absent_propagators(os.environ)
    assert (os.environ.get("OTEL_PROPAGATORS"), absent_propagators) == (rest, absent)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "abc"),
        ("OTEL_BSP_SCHEDULE_DELAY", "0"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4096"),
    ],
)
def test_a_value_that_opentelemetry_refuses_is_a_config_error(
    environment: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """The message has OpenTelemetry's own reason."""
    environment.setenv(name, value)
    with pytest.raises(ConfigError, match=r"^a variable OTEL_\* is refused: .* must be "):
        tracer_provider()


@pytest.mark.parametrize(("name", "value"), [("OTEL_TRACES_SAMPLER_ARG", "nan"), ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s")])
def test_a_value_that_opentelemetry_passes_over_stops_nothing(
    environment: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """Spans and metrics are recorded as without it."""
    environment.setenv(name, value)
    traces, metrics = tracer_provider(0.01), metric_export(Instruments())
    assert metrics is not None
    traces.get_tracer("x").start_span("x").end()
    close_traces(traces)
    metrics.close(0.01)


@pytest.mark.parametrize("interval", ["0", "-1", "9" * 5000, "١٠"])
def test_an_interval_of_any_form_is_refused_in_words(environment: pytest.MonkeyPatch, interval: str) -> None:
    """Numbers that no clock can wait for are a ConfigError, too."""
    environment.setenv("OTEL_METRIC_EXPORT_INTERVAL", interval)
    with pytest.raises(ConfigError, match="is not a number of milliseconds"):
        metric_export(Instruments())


def test_a_command_runs_with_propagators_that_are_not_installed(environment: pytest.MonkeyPatch) -> None:
    """It has one line for them, and no traceback: OpenTelemetry reads the variable when it is imported."""
    environment.setenv("OTEL_PROPAGATORS", "b3,tracecontext")
    environment.setenv("RANKSTREAM_KAFKA__BOOTSTRAP_SERVERS", "127.0.0.1:1")
    environment.setenv("RANKSTREAM_QDRANT__URL", "http://127.0.0.1:2")
    environment.setenv("RANKSTREAM_TELEMETRY__LOG_FORMAT", "json")
    command = [sys.executable, "-m", "flows.cli", "query", "hello"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    warning, failure = done.stderr.splitlines()
    assert '"propagators": "b3"' in warning
    assert failure.startswith("no Kafka broker answers")
    assert done.returncode == 1


def test_a_replica_of_bytewax_starts_with_them_too(environment: pytest.MonkeyPatch) -> None:
    """No traceback of OpenTelemetry ends it, but the lack of a broker."""
    environment.setenv("OTEL_PROPAGATORS", "b3")
    environment.setenv("RANKSTREAM_KAFKA__BOOTSTRAP_SERVERS", "127.0.0.1:1")
    environment.setenv("RANKSTREAM_QDRANT__URL", "http://127.0.0.1:2")
    environment.setenv("RANKSTREAM_TELEMETRY__LOG_FORMAT", "json")
    command = [sys.executable, "-m", "bytewax.run", "flows.process.standalone"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert '"propagators": "b3"' in done.stderr
    assert "no Kafka broker answers" in done.stderr
