"""One replica of the search flow for Bytewax's own command: `python -m bytewax.run flows.process.standalone`.

RANKSTREAM_CONFIG names the configuration file; without it the environment's variables are all. The replica drains at a
signal like that of `rankstream run`, which adds the health port, the watchdog, and several replicas.

Bytewax imports the module and runs what `flow` returns, in a call that ends with the flow. So the replica is fed before
that call, and closed at the end of the process.
"""

import atexit
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bytewax.dataflow import Dataflow

from flows.process import health, logs
from flows.process.supervision import StopSignals
from operators.telemetry import remove_absent_propagators
from schemas.settings import load

CONFIG: Final = "RANKSTREAM_CONFIG"
"""The variable that names the configuration file."""


def flow() -> Dataflow:
    """The search flow of a new replica, fed until the process ends. Raises ConfigError and DeliveryError."""
    remove_absent_propagators(os.environ)
    # They import OpenTelemetry's SDK.
    from flows.assembly.clients import InProcess
    from flows.process.replica import search_replica

    # All variables of this prefix are settings, and this one is none.
    path = os.environ.pop(CONFIG, None)
    settings = load(Path(path) if path else None)
    logs.configure(settings.telemetry, settings.delivery.replica)
    feeding = ExitStack()
    in_process = feeding.enter_context(InProcess(settings))
    replica = search_replica(settings, in_process)
    StopSignals(replica.stop)
    fed = feeding.enter_context(replica.feeding())
    atexit.register(_close, feeding)
    return fed


def _close(feeding: ExitStack) -> None:
    try:
        feeding.close()
    except Exception:  # noqa: BLE001  whatever ended the flow, which is logged, ends the process
        health.end_process()
