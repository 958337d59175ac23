"""OpenTelemetry's variables hold what people and injectors write; a value that cannot be read is ignored, and named."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from operators.telemetry import ignored, remove_invalid
from operators.telemetry.export import close_traces, metric_export, tracer_provider
from operators.telemetry.metrics import Instruments
from schemas.errors import ConfigError

pytestmark = pytest.mark.slow

CASES = [
    ("OTEL_PROPAGATORS", "b3", None),
    ("OTEL_PROPAGATORS", "tracecontext, b3multi,baggage", "tracecontext,baggage"),
    ("OTEL_PROPAGATORS", "tracecontext,", "tracecontext"),
    ("OTEL_PYTHON_CONTEXT", "nonsense", None),
    ("OTEL_EXPERIMENTAL_RESOURCE_DETECTORS", "otel,nonsense", "otel"),
    ("OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER", "nonsense", None),
    ("OTEL_RESOURCE_ATTRIBUTES", "a=b,c", "a=b"),
    ("OTEL_TRACES_SAMPLER", "sometimes", None),
    ("OTEL_TRACES_SAMPLER_ARG", "2", None),
    ("OTEL_TRACES_SAMPLER_ARG", "nan", None),
    ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "abc", None),
    ("OTEL_SPAN_EVENT_COUNT_LIMIT", "-1", None),
    ("OTEL_SPAN_LINK_COUNT_LIMIT", "1.5", None),
    ("OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", "9" * 5000, None),
    ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", " ", None),
    ("OTEL_BSP_SCHEDULE_DELAY", "0", None),
    ("OTEL_BSP_SCHEDULE_DELAY", "9" * 20, None),
    ("OTEL_BSP_EXPORT_TIMEOUT", "30s", None),
    ("OTEL_BSP_MAX_QUEUE_SIZE", "-5", None),
    ("OTEL_BSP_MAX_QUEUE_SIZE", "9" * 20, None),
    ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4096", "2048"),
    ("OTEL_EXPORTER_OTLP_TIMEOUT", "inf", None),
    ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "-1", None),
    ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "10s", None),
    ("OTEL_EXPORTER_OTLP_COMPRESSION", "brotli", None),
    ("OTEL_EXPORTER_OTLP_HEADERS", "a=b,Authorization: Bearer x", "a=b"),
    ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=b%0Ac", None),
    ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "a=%E2%82%AC", None),
    ("OTEL_EXPORTER_OTLP_HEADERS", "a%20b=c,d=e;f", None),
    ("OTEL_SDK_DISABLED", "yes", None),
]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """An environment whose spans and metrics go to an address where nothing listens."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    yield monkeypatch
    ignored.clear()


@pytest.mark.parametrize(("name", "value", "rest"), CASES)
def test_a_value_that_cannot_be_read_is_ignored(
    environment: pytest.MonkeyPatch, name: str, value: str, rest: str | None
) -> None:
    """The valid members of a list stay; the variable is named; and spans and metrics are recorded as without it."""
    environment.setenv(name, value)
    remove_invalid(os.environ)
    assert (os.environ.get(name), ignored) == (rest, [name])
    traces, metrics = tracer_provider(0.01), metric_export(Instruments())
    assert metrics is not None
    traces.get_tracer("x").start_span("x").end()
    close_traces(traces)
    metrics.close(0.01)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_PROPAGATORS", "tracecontext,baggage"),
        ("OTEL_PROPAGATORS", "None"),
        ("OTEL_PYTHON_CONTEXT", "contextvars_context"),
        ("OTEL_TRACES_SAMPLER", "ParentBased_TraceIdRatio"),
        ("OTEL_TRACES_SAMPLER_ARG", "1e-3"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "0"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2048"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "GZIP"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer a b=, x-key = %C3%A9%2C"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a=b,c="),
        ("OTEL_SERVICE_NAME", ""),
    ],
)
def test_a_value_that_can_be_read_stays(environment: pytest.MonkeyPatch, name: str, value: str) -> None:
    """As it was written."""
    environment.setenv(name, value)
    remove_invalid(os.environ)
    assert (os.environ[name], ignored) == (value, [])


def test_a_queue_bounds_the_batch(environment: pytest.MonkeyPatch) -> None:
    """A queue that is smaller than the default batch is no mistake."""
    environment.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100")
    remove_invalid(os.environ)
    assert ignored == []
    close_traces(tracer_provider(0.01))


@pytest.mark.parametrize("interval", ["0", "-1", "9" * 5000, "١٠"])
def test_an_interval_of_any_form_is_refused_in_words(environment: pytest.MonkeyPatch, interval: str) -> None:
    """Numbers that no clock can wait for are a ConfigError, too."""
    environment.setenv("OTEL_METRIC_EXPORT_INTERVAL", interval)
    with pytest.raises(ConfigError, match="is not a number of milliseconds"):
        metric_export(Instruments())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_PROPAGATORS", "b3"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "abc"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4096"),
        ("OTEL_PYTHON_CONTEXT", "nonsense"),
    ],
)
def test_a_command_runs_whatever_a_variable_holds(environment: pytest.MonkeyPatch, name: str, value: str) -> None:
    """It has one line for the variable, and no traceback, also where the SDK reads the variable when it is imported."""
    environment.setenv(name, value)
    environment.setenv("RANKSTREAM_KAFKA__BOOTSTRAP_SERVERS", "127.0.0.1:1")
    environment.setenv("RANKSTREAM_QDRANT__URL", "http://127.0.0.1:2")
    environment.setenv("RANKSTREAM_TELEMETRY__LOG_FORMAT", "json")
    command = [sys.executable, "-m", "flows.cli", "query", "hello"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    warning, failure = done.stderr.splitlines()
    assert f'"variable": "{name}"' in warning
    assert failure.startswith("no Kafka broker answers")
    assert done.returncode == 1


def test_a_replica_of_bytewax_starts_whatever_a_variable_holds(environment: pytest.MonkeyPatch) -> None:
    """No traceback of OpenTelemetry ends it, but the lack of a broker."""
    environment.setenv("OTEL_PROPAGATORS", "b3")
    environment.setenv("RANKSTREAM_KAFKA__BOOTSTRAP_SERVERS", "127.0.0.1:1")
    environment.setenv("RANKSTREAM_QDRANT__URL", "http://127.0.0.1:2")
    environment.setenv("RANKSTREAM_TELEMETRY__LOG_FORMAT", "json")
    command = [sys.executable, "-m", "bytewax.run", "flows.process.standalone"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert '"variable": "OTEL_PROPAGATORS"' in done.stderr
    assert "no Kafka broker answers" in done.stderr
