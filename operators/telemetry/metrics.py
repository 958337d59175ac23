"""Metrics: the instruments by which a process says how busy it is."""

from collections.abc import Callable

from opentelemetry.metrics import Meter


def rerank_in_flight(meter: Meter, stage: str, most: int) -> Callable[[int], None]:
    """Report the calls under way to the reranker of `stage`, and their limit `most`; 0 or less is no limit.

    Gauges `rankstream_rerank_in_flight` and `rankstream_rerank_in_flight_max`, in calls.
    """
    attributes = {"rankstream.stage": stage}
    now = meter.create_gauge("rankstream_rerank_in_flight", "{call}", "Calls to the reranker under way")
    bound = meter.create_gauge("rankstream_rerank_in_flight_max", "{call}", "Limit of the calls to the reranker")
    bound.set(most, attributes)

    def report(count: int) -> None:
        now.set(count, attributes)

    report(0)
    return report


def producer_replacements(meter: Meter, client: str, topic: str) -> Callable[[], None]:
    """Count the replaced transactional producers of `client`, in the flow that reads `topic`.

    Counter `rankstream_producer_replacements_total`, in producers.
    """
    attributes = {"messaging.destination.name": topic, "rankstream.kafka.client": client}
    count = meter.create_counter("rankstream_producer_replacements_total", "{producer}", "Producers replaced")

    def replaced() -> None:
        count.add(1, attributes)

    count.add(0, attributes)
    return replaced
