"""The demo: everything in this process, on the standard library's own documentation."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from flows import docstrings
from flows.asking import Asker
from flows.embedded import embedded
from flows.progress import indexed
from flows.signals import StopSignals
from operators.delivery.kafka_python import EMBEDDED

QUERIES: Final = (
    "parse a date from a string",
    "run a command and capture its output",
    "create a temporary directory that is removed afterwards",
    "read the rows of a CSV file",
)

_ANSWER_TIMEOUT: Final = 60.0
_SNIPPET: Final = 200
_NAME_WIDTH: Final = 32


def demo(cache: Path, queries: Sequence[str], *, limit: int, serve: bool, console: Console) -> Iterator[dict[str, Any]]:
    """Index, once, and yield the result event of each query as it comes; with `serve`, go on until a signal.

    Progress, and at the end the spans of the last query, go to `console`.
    """
    spans = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: "rankstream"}))
    provider.add_span_processor(SimpleSpanProcessor(spans))
    directory = cache / "demo"
    with embedded(directory, provider=provider) as running:
        corpus = list(docstrings.docstrings())
        indexed(running, "the standard library's docstrings", lambda: corpus, directory, console)
        kafka = running.settings.kafka
        with running.searching(), Asker(kafka, EMBEDDED, provider.get_tracer("producer")) as asker:
            for number, text in enumerate(queries, 1):
                spans.clear()
                event = {"query_id": f"demo-{number}", "text": text, "namespace": docstrings.NAMESPACE, "limit": limit}
                yield from asker.ask([event], _ANSWER_TIMEOUT)
            if serve:
                stopped = threading.Event()
                StopSignals(stopped.set)
                console.print(
                    f"broker {kafka.bootstrap_servers}, topics {kafka.topics.queries} and {kafka.topics.results}"
                )
                stopped.wait()
    console.print(span_tree(spans.get_finished_spans()))


def answer_table(result: dict[str, Any], query: str) -> Table:
    """One result event for people."""
    legs = [leg["name"] for leg in result["legs"]]
    shown = Table(title=escape(query), title_justify="left", expand=True)
    names = [hit["id"] for hit in result["results"]]
    shown.add_column("", min_width=2)
    shown.add_column("document", no_wrap=True, min_width=min(max(map(len, names), default=0), _NAME_WIDTH))
    for name in ("score", *legs):
        shown.add_column(name, justify="right", min_width=max(len(name), len("10.000")))
    # What is left of the line.
    shown.add_column("text", no_wrap=True, overflow="ellipsis", ratio=1)
    for hit in result["results"]:
        scores = [f"{hit['legs'][leg]['score']:.3f}" if leg in hit["legs"] else "-" for leg in legs]
        snippet = " ".join((hit["text"] or "").split())[:_SNIPPET]
        shown.add_row(str(hit["rank"]), escape(hit["id"]), f"{hit['score']:.3f}", *scores, escape(snippet))
    why = ", ".join(f"{part['stage']}: {part['reason']}" for part in result["degraded"])
    if "denied" in result:
        why = result["denied"]["reason"]
    shown.caption = f"{result['status']}{' (' + why + ')' if why else ''}, {result['total']} candidates"
    shown.caption_justify = "left"
    return shown


def span_tree(spans: Sequence[ReadableSpan]) -> Tree:
    """The spans of a trace, children under their parents, in the order in which they began."""
    # The trace before may have ended late: the last one that a producer began is meant, and the batches it links to.
    began = max(
        (span for span in spans if span.kind is SpanKind.PRODUCER and not span.parent), key=_start, default=None
    )
    trace_id = began.context.trace_id if began is not None and began.context is not None else None
    own = [span for span in spans if span.context is not None and span.context.trace_id == trace_id]
    linked = {link.context.span_id for span in own for link in span.links}
    spans = own + [span for span in spans if span.context is not None and span.context.span_id in linked]
    ids = {span.context.span_id for span in spans if span.context is not None}
    tree = Tree("trace")

    def add(branch: Tree, parent: int | None) -> None:
        for span in sorted(spans, key=_start):
            above = span.parent.span_id if span.parent is not None and span.parent.span_id in ids else None
            if above == parent and span.context is not None:
                taken = ((span.end_time or 0) - (span.start_time or 0)) / 1e6
                add(branch.add(f"{span.name} [dim]{span.kind.name.lower()} {taken:.1f} ms[/dim]"), span.context.span_id)

    add(tree, None)
    return tree


def _start(span: ReadableSpan) -> int:
    return span.start_time or 0
