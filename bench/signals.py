"""The signals of a flow that runs in the benchmark's own process: nothing is traced, and all is counted."""

from typing import Final

from opentelemetry.trace import NoOpTracer

from operators.telemetry.metrics import FlowMetrics, Instruments
from operators.telemetry.traces import Signals

SIGNALS: Final = Signals(NoOpTracer(), FlowMetrics(Instruments(), "search"), "rankstream")
