"""Faults of the broker's disk."""

from bench.kafka.broker import BrokerError
from tests.faults.scenario import scenario
from tests.faults.trial import Trial
from tests.integration.deployment import wait_until


@scenario("storage", broker="volume")
def disk_full(trial: Trial) -> None:
    """The disk of the broker's logs fills up, which ends it; with room again it goes on where it was."""
    trial.disk.fill()
    wait_until(lambda: _ended(trial))
    trial.disk.free()
    trial.broker.start()
    trial.await_answer()


def _ended(trial: Trial) -> bool:
    try:
        trial.broker.check()
    except BrokerError:
        return True
    return False
