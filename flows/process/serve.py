"""Serving: a replica of one flow, or of several, until a signal, a failure or a stand-still.

Exit codes: 0 after SIGTERM, SIGINT or SIGHUP and a drain, 1 after a failure or a stand-still, 130 at a second signal.
"""

import threading
import time
from collections.abc import Mapping
from typing import Final

import structlog
from opentelemetry.trace import TracerProvider
from prometheus_client import disable_created_metrics

from flows.assembly.clients import InProcess
from flows.process.health import Health, Probe, announce, end_process, lasting, watch
from flows.process.replica import Build, Replica, freeze_heap
from flows.process.supervision import StopSignals
from operators.telemetry.export import close_traces, metric_export
from schemas.errors import BackendError, DeliveryError, RetriableDelivery
from schemas.result import VERSION
from schemas.settings import Settings

log = structlog.stdlib.get_logger(__name__)

_PORTS: Final = 16
"""Ports of which the first free one is the health port, unless it is set."""

_PATIENCE: Final = 60.0
"""Seconds in which what a broker can't do yet is tried again; a supervisor then starts the process again."""

_RETRY: Final = 1.0
"""Seconds."""

_EXPORT_TIMEOUT: Final = 1.0
"""Seconds that the last metrics have to be sent."""


def serve(settings: Settings, flows: Mapping[str, Build], port: int | None) -> int:
    """Run a replica of each of these flows until all have ended; the exit code. Raises ConfigError.

    What can be wrong on this machine is found before a replica, in their order, fences another one of its name.
    """
    # When each counter began is of no use: all did when the process did.
    disable_created_metrics()
    in_process = InProcess(settings)
    registry = in_process.instruments.registry
    tries = _PORTS if settings.telemetry.finds_port else 1
    health = Health(settings.telemetry.host, port, registry, tries=tries) if port is not None else None
    log.info("starting", version=VERSION, flows=sorted(flows))
    export = metric_export(in_process.instruments)
    traces = in_process.traces
    replicas = _build(settings, in_process, flows)
    if replicas is None:
        return 1
    freeze_heap()

    def stop() -> None:
        for replica in replicas.values():
            replica.stop()

    StopSignals(stop)
    live: dict[str, Probe] = {}
    ready: dict[str, Probe] = {}
    joined: dict[str, Probe] = {}
    for name, replica in replicas.items():
        # A process of one flow needn't say which.
        of = f"{name}." if len(replicas) > 1 else ""
        live |= {f"{of}worker": replica.live, f"{of}delivery": replica.delivering}
        own = {"group": replica.stable, "transactions": replica.committing, **replica.pings}
        ready |= {f"{of}{what}": check for what, check in own.items()}
        joined[f"{of}group"] = lasting(replica.stable_until_end, settings.kafka.max_poll_interval)
    announce(ready)
    if health is not None:
        health.begin(live, ready)
        log.info("health port open", port=health.port)
    watch(live | joined)
    *beside, last = replicas.values()
    threads = [threading.Thread(target=_run, args=(replica, traces), name="flow") for replica in beside]
    for thread in threads:
        thread.start()
    _run(last, traces)
    for thread in threads:
        thread.join()
    if export is not None:
        export.close(_EXPORT_TIMEOUT)
    in_process.close()
    if health is not None:
        health.close()
    log.info("drained")
    return 0


def _build(settings: Settings, in_process: InProcess, flows: Mapping[str, Build]) -> dict[str, Replica] | None:
    """A replica of each flow; None, and a line in the log, if one cannot start.

    A broker that is just starting refuses for seconds what it will take then: it is tried again.
    """
    limit, replicas = time.monotonic() + _PATIENCE, dict[str, Replica]()
    while True:
        try:
            for name, build in flows.items():
                if name not in replicas:
                    replicas[name] = build(settings, in_process)
        except RetriableDelivery as error:
            if time.monotonic() > limit:
                log.error("cannot start", reason=str(error))
                return None
            log.warning("cannot start yet", reason=str(error), retry_in_s=_RETRY)
            time.sleep(_RETRY)
        except (DeliveryError, BackendError) as error:
            log.error("cannot start", reason=str(error))
            return None
        else:
            return replicas


def _run(replica: Replica, traces: TracerProvider) -> None:
    try:
        replica.run()
    except Exception:  # noqa: BLE001  whatever ended the flow, which is logged, ends the process
        close_traces(traces)
        end_process()
