"""Traces as a collector receives them."""

from collections.abc import Callable
from pathlib import Path

from bench.kafka.broker import Broker
from bench.stubs import DIMENSION, stub_backends
from tests.integration.deployment import Deployment
from tests.otlp import Receiver, Span

TRACE = "0af7651916cd43dd8448eb211c80319c"
PRODUCER = "b7ad6b7169203331"


def test_one_trace_from_producer_to_result(broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]) -> None:
    """A query's spans continue the producer's, and its result's headers continue them; texts are in none."""
    with stub_backends() as stubs, Receiver() as collector:
        sections = {
            "qdrant": {"url": stubs.qdrant, "dimension": DIMENSION, "timeout": 20},
            "embedder": {"kind": "openai", "url": stubs.embed, "timeout": 20},
            "rerank": {"kind": "cohere", "url": stubs.rerank, "timeout": 20},
            "limits": {"timeout": 60},
        }
        with Deployment.on(broker, tmp_path, topic_names, sections) as running:
            running.environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "100"}
            flow = running.start()
            headers = [("traceparent", f"00-{TRACE}-{PRODUCER}-01".encode())]
            running.ask([{"query_id": "q", "text": "xylophone canary"}], headers)
            (result,) = running.output_records(1)
            queries, results = running.names["queries"], running.names["results"]

            def whole(spans: list[Span]) -> bool:
                return any(span.name == f"process {queries}" for span in spans)

            spans = {span.name: span for span in collector.wait_for(whole, 30) if span.trace_id == TRACE}
            flow.terminate()
    process = spans[f"process {queries}"]
    assert process.parent_span_id == PRODUCER
    assert spans[f"receive {queries}"].parent_span_id == PRODUCER
    children = {"embed", "query documents", "fuse", "rank", "retrieve documents", "rerank", f"send {results}"}
    children |= {f"call {each}" for each in ("embed", "query documents", "fetch", "rerank")}
    assert children == {name for name, span in spans.items() if span.parent_span_id == process.span_id}
    handed_on = result.headers["traceparent"].decode()
    assert handed_on == f"00-{TRACE}-{spans[f'send {results}'].span_id}-01"
    leg = spans["query documents"]
    assert leg.attributes["db.system.name"] == "qdrant"
    assert len(leg.links) == 1
    batches = [span for span in collector.spans if span.span_id == leg.links[0].span_id]
    assert [(span.name, span.attributes["rankstream.batch.size"]) for span in batches] == [("call query documents", 1)]
    assert batches[0].parent_span_id == process.span_id
    assert not any("xylophone" in str(span.attributes) for span in collector.spans)
