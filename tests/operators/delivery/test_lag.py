"""Consumer lag as the metrics are told it."""

from operators.delivery.ledger import Ledger
from operators.delivery.source import LAG_INTERVAL, Lag
from operators.delivery.tracker import Commit
from operators.telemetry.instruments import Instruments
from operators.telemetry.metrics import FlowMetrics
from tests.operators.delivery.reading import FIRST, SECOND
from tests.operators.delivery.scripted import ScriptedConsumer


def test_the_lag_is_what_is_not_committed() -> None:
    """In offsets, of each partition that is assigned and whose end is known; read but not committed counts."""
    instruments = Instruments()
    ledger = Ledger(100)
    consumer = ScriptedConsumer({FIRST: range(10), SECOND: range(4)})
    lag = Lag(consumer, ledger, FlowMetrics(instruments, "search"))

    def told(looks: int) -> list[float | None]:
        lag.look(looks * LAG_INTERVAL)
        labels = {"flow": "search", "topic": "queries"}
        return [
            instruments.registry.get_sample_value(
                "rankstream_consumer_lag", {**labels, "partition": str(each.partition)}
            )
            for each in (FIRST, SECOND)
        ]

    assert told(1) == [None, None]
    ledger.assign(FIRST, Commit(3, ""))
    ledger.see(FIRST, 3)
    assert told(2) == [7, None]
    ledger.assign(SECOND, Commit(4, ""))
    assert told(3) == [7, 0]
    ledger.revoke([FIRST])
    assert told(4) == [None, 0]
