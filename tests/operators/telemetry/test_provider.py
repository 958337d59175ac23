"""OpenTelemetry's environment variables choose the exporters, of traces and of metrics alike."""

import logging
import os
import select
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import ClassVar

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NoOpTracerProvider
from structlog.testing import capture_logs

from operators.telemetry.export import MetricExport, close_traces, metric_export, tracer_provider
from operators.telemetry.metrics import Instruments
from schemas.errors import ConfigError
from tests.loopback import LoopbackServer
from tests.otlp import Receiver

REFUSED = "http://127.0.0.1:1"
SIGNALS = pytest.mark.parametrize("signal", ["TRACES", "METRICS"])
OTHER = {"TRACES": "METRICS", "METRICS": "TRACES"}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without any OTEL_* variable; what is exported gives up at once."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.01")
    return monkeypatch


def made(signal: str) -> object:
    """The signal's provider of tracers, or export."""
    return tracer_provider() if signal == "TRACES" else metric_export(Instruments())


def ended(provider: object) -> None:
    """Shut down what exports."""
    if isinstance(provider, TracerProvider):
        provider.shutdown()
    elif isinstance(provider, MetricExport):
        provider.close(5)


@SIGNALS
@pytest.mark.parametrize(
    ("variables", "records"),
    [
        ({}, False),
        ({"OTEL_{}_EXPORTER": "none"}, False),
        ({"OTEL_{}_EXPORTER": "console"}, True),
        ({"OTEL_{}_EXPORTER": "none, console"}, True),
        ({"OTEL_{}_EXPORTER": "otlp"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": REFUSED}, True),
        ({"OTEL_EXPORTER_OTLP_{}_ENDPOINT": REFUSED}, True),
        ({"OTEL_EXPORTER_OTLP_{other}_ENDPOINT": REFUSED}, False),
        ({"OTEL_{other}_EXPORTER": "console"}, False),
        ({"OTEL_{}_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": REFUSED}, False),
        ({"OTEL_{}_EXPORTER": "console", "OTEL_SDK_DISABLED": "True"}, False),
    ],
)
def test_the_standard_variables_choose_the_exporter(
    environment: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    signal: str,
    variables: dict[str, str],
    records: bool,
) -> None:
    """Nothing is sent unless an exporter is asked for; an endpoint asks for one, unless `none` is said."""
    for name, value in variables.items():
        environment.setenv(name.format(signal, other=OTHER[signal]), value)
    provider = made(signal)
    caplog.set_level(logging.CRITICAL, "opentelemetry")
    ended(provider)
    recording = TracerProvider if signal == "TRACES" else MetricExport
    assert isinstance(provider, recording if records else NoOpTracerProvider | None)


@SIGNALS
@pytest.mark.parametrize("names", ["nonsense", "otlp,nonsense", "otlp,", "prometheus"])
def test_any_other_exporter_is_a_config_error(environment: pytest.MonkeyPatch, signal: str, names: str) -> None:
    """The message names the variable, the name that is unknown, and what the variable may hold."""
    environment.setenv(f"OTEL_{signal}_EXPORTER", names)
    unknown = names.rpartition(",")[2]
    with pytest.raises(ConfigError, match=rf"^OTEL_{signal}_EXPORTER: '{unknown}' is not one of otlp, console, none$"):
        made(signal)


@SIGNALS
@pytest.mark.parametrize("variable", ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_{}_PROTOCOL"])
@pytest.mark.parametrize("protocol", ["grpc", "http/json", "HTTP/protobuf"])
def test_another_protocol_is_a_config_error(
    environment: pytest.MonkeyPatch, signal: str, variable: str, protocol: str
) -> None:
    """The message names the variable, and what is spoken."""
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", REFUSED)
    environment.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    environment.setenv(variable.format(signal), protocol)
    with pytest.raises(
        ConfigError, match=rf"^{variable.format(signal)}: '{protocol}' is not spoken, only http/protobuf"
    ):
        made(signal)


@SIGNALS
@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_{}_PROTOCOL": "http/protobuf"},
        {"OTEL_EXPORTER_OTLP_{other}_PROTOCOL": "grpc"},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_{}_EXPORTER": "none"},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_{}_EXPORTER": "console"},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": ""},
    ],
)
def test_a_protocol_that_is_not_used_is_no_error(
    environment: pytest.MonkeyPatch, signal: str, variables: dict[str, str]
) -> None:
    """The signal's own variable goes before; and who does not export by OTLP speaks no protocol of it."""
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", REFUSED)
    for name, value in variables.items():
        environment.setenv(name.format(signal, other=OTHER[signal]), value)
    ended(made(signal))


class Hanging(BaseHTTPRequestHandler):
    """A collector that answers nobody before its `release`, and says in `left` whose client went away before."""

    asked: ClassVar[threading.Event]
    release: ClassVar[threading.Event]
    left: ClassVar[list[str]]

    def do_POST(self) -> None:
        """Take a batch, and hang."""
        self.rfile.read(int(self.headers["content-length"]))
        self.asked.set()
        while not self.release.is_set():
            if select.select([self.connection], [], [], 0.02)[0]:
                self.left.append(self.path)
                return
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing on stderr."""


@pytest.fixture
def hanging() -> Iterator[tuple[str, type[Hanging]]]:
    """The address of a collector that hangs, and its handler."""

    class Handler(Hanging):
        asked = threading.Event()
        release = threading.Event()
        left: ClassVar[list[str]] = []

    with LoopbackServer(Handler, "hanging") as server:
        yield server.base_url, Handler
        Handler.release.set()


@pytest.mark.parametrize("under_way", [False, True])
@SIGNALS
def test_a_collector_that_hangs_keeps_nobody(
    environment: pytest.MonkeyPatch, hanging: tuple[str, type[Hanging]], signal: str, under_way: bool
) -> None:
    """The end gives up a batch that the collector has not answered before the exporter does so, and a line says it."""
    endpoint, collector = hanging
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    environment.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "20")
    if under_way:
        environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
        environment.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1")
    with capture_logs() as lines:
        if signal == "TRACES":
            traces = tracer_provider(0.5)
            traces.get_tracer("x").start_span("x").end()
            assert not under_way or collector.asked.wait(30)
            close_traces(traces)
        else:
            metrics = metric_export(Instruments())
            assert metrics is not None
            assert not under_way or collector.asked.wait(30)
            metrics.close(0.5)
    assert collector.asked.is_set()
    assert collector.left == []
    assert [(line["event"], line["reason"]) for line in lines] == [
        ("spans were not exported" if signal == "TRACES" else "metrics were not exported", "not in time")
    ]


@SIGNALS
@pytest.mark.parametrize("variables", [{"OTEL_SDK_DISABLED": "true"}, {"OTEL_{}_EXPORTER": "otlp,nonsense"}])
def test_where_nothing_is_recorded_no_thread_exports(
    environment: pytest.MonkeyPatch, signal: str, variables: dict[str, str]
) -> None:
    """A disabled SDK and a configuration that can't be used start none of the threads that export now and then."""
    environment.setenv(f"OTEL_{signal}_EXPORTER", "otlp")
    for name, value in variables.items():
        environment.setenv(name.format(signal), value)
    before = threading.enumerate()
    try:
        made(signal)
    except ConfigError:
        assert "OTEL_SDK_DISABLED" not in variables
    assert set(threading.enumerate()) <= set(before)


@pytest.mark.parametrize(
    ("variables", "service"),
    [
        ({}, "rankstream"),
        ({"OTEL_SERVICE_NAME": ""}, "rankstream"),
        ({"OTEL_SERVICE_NAME": "searching"}, "searching"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=listed"}, "listed"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=listed", "OTEL_SERVICE_NAME": "searching"}, "searching"),
    ],
)
def test_both_signals_are_of_one_service(
    environment: pytest.MonkeyPatch, variables: dict[str, str], service: str
) -> None:
    """Spans and metrics name the service that the standard variables name, else rankstream."""
    with Receiver() as receiver:
        environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
        environment.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "5")
        for name, value in variables.items():
            environment.setenv(name, value)
        traces, metrics = tracer_provider(), metric_export(Instruments())
        traces.get_tracer("x").start_span("x").end()
        ended(traces)
        ended(metrics)
        resources = [receiver.spans[0].resource, receiver.wait_for_points(bool)[0].resource]
    assert [resource["service.name"] for resource in resources] == [service, service]


@pytest.mark.parametrize("interval", ["0", "-1", "soon"])
def test_an_interval_that_is_none_is_a_config_error(environment: pytest.MonkeyPatch, interval: str) -> None:
    """The message names the variable and what it holds."""
    environment.setenv("OTEL_METRICS_EXPORTER", "otlp")
    environment.setenv("OTEL_METRIC_EXPORT_INTERVAL", interval)
    with pytest.raises(ConfigError, match=rf"^OTEL_METRIC_EXPORT_INTERVAL: '{interval}' is not a number of millisec"):
        metric_export(Instruments())
