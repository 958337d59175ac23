"""Consumer lag as the metrics are told it."""

from operators.delivery.ledger import Ledger
from operators.delivery.source import LAG_INTERVAL, Lag
from operators.delivery.tracker import Commit
from operators.telemetry.metrics import FlowMetrics, Instruments
from tests.operators.delivery.reading import FIRST, SECOND
from tests.operators.delivery.scripted import ScriptedConsumer


def test_the_lag_is_what_is_not_committed() -> None:
    """In offsets, of each partition that is assigned and whose end is known; read but not committed counts.

    What an open transaction keeps from being read is told apart.
    """
    instruments = Instruments()
    ledger = Ledger(100)
    consumer = ScriptedConsumer({FIRST: range(10), SECOND: range(4)})
    lag = Lag(consumer, ledger, FlowMetrics(instruments, "search"))

    def told(looks: int, name: str = "lag") -> list[float | None]:
        lag.report(looks * LAG_INTERVAL)
        labels = {"flow": "search", "topic": "queries"}
        return [
            instruments.registry.get_sample_value(
                f"rankstream_consumer_{name}", {**labels, "partition": str(each.partition)}
            )
            for each in (FIRST, SECOND)
        ]

    assert told(1) == [None, None]
    ledger.assign(FIRST, Commit(3, ""))
    ledger.see(FIRST, 3)
    assert told(2) == [7, None]
    ledger.assign(SECOND, Commit(4, ""))
    assert told(3) == [7, 0]
    assert told(3, "unstable") == [0, 0]
    consumer.unstable = 2
    assert told(4) == [5, 0]
    assert told(4, "unstable") == [2, 2]
    ledger.revoke([FIRST])
    assert told(5) == [None, 0]
    assert told(5, "unstable") == [None, 2]
