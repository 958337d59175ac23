"""Serving: one replica until a signal, a failure or a stand-still.

Exit codes: 0 after SIGTERM or SIGINT and a drain, 1 after a failure or a stand-still, 130 at a second signal.
"""

import gc
from typing import Final

import structlog

from flows.assembly.clients import InProcess
from flows.process import watchdog
from flows.process.health import Health
from flows.process.replica import Build
from flows.process.signals import StopSignals
from schemas.errors import BackendError, DeliveryError
from schemas.settings import Settings

log = structlog.stdlib.get_logger(__name__)

_GC_THRESHOLDS: Final = (200_000, 20, 100)


def serve(settings: Settings, build: Build) -> int:
    """Run one replica until it ends; the exit code. Raises ConfigError."""
    in_process = InProcess(settings)
    try:
        replica = build(settings, in_process)
    except (DeliveryError, BackendError) as error:
        log.error("cannot start", reason=str(error))
        return 1
    # What there is now stays: the collector needn't look at it again. What a query makes is freed without it.
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    StopSignals(replica.stop)
    telemetry = settings.telemetry
    live = {"worker": replica.live, "delivery": replica.delivering}
    health = None
    if telemetry.port is not None:
        health = Health(telemetry.host, telemetry.port, live, {"group": replica.stable, **replica.pings})
        log.info("health port open", port=health.port)
    watchdog.watch({**live, "group": watchdog.lasting(replica.stable, settings.kafka.max_poll_interval)})
    try:
        replica.run()
    except Exception as error:  # noqa: BLE001  whatever ended the flow ends the process
        log.error("the flow ended", error=type(error).__name__, reason=str(error.__cause__ or error))
        watchdog.end()
    if health is not None:
        health.close()
    in_process.close()
    log.info("drained")
    return 0
