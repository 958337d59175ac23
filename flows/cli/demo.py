"""The demo: everything in this process, on the standard library's own documentation or on documents of the user's."""

import hashlib
import shlex
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Self

import orjson
import typer
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from flows.cli import docstrings
from flows.cli.answers import UNANSWERED, hint_of_nothing, show
from flows.cli.ingestion import read_jsonl
from flows.cli.output import Json, out, say, stderr
from flows.cli.progress import indexed
from flows.cli.query_client import QueryClient
from flows.process import logs
from flows.process.embedded import embedded
from flows.process.signals import StopSignals
from schemas.query import MAX_LIMIT
from schemas.settings import Defaults, Settings, TelemetrySettings
from schemas.texts import printable

QUERIES: Final = (
    "parse a date from a string",
    "run a command and capture its output",
    "create a temporary directory that is removed afterwards",
    "read the rows of a CSV file",
)

_ANSWER_TIMEOUT: Final = 60.0
_CONFIG: Final = "rankstream.yaml"
_DEFAULT: Final = Defaults().namespace


@dataclass(frozen=True)
class Corpus:
    """What the demo searches: documents by a name, and the namespace of the queries; None: the default one."""

    name: str
    documents: Callable[[], Iterable[Mapping[str, Any]]]
    directory: str
    namespace: str | None

    @classmethod
    def own(cls, path: Path, namespace: str | None) -> Self:
        """A JSON Lines file. What it held before it was changed is no part of its index."""
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        return cls(path.name, lambda: read_jsonl(path), f"own-{digest}", namespace)

    @classmethod
    def shipped(cls) -> Self:
        """The documentation of Python's standard library."""
        found = list(docstrings.docstrings())
        return cls("the standard library's docstrings", lambda: found, "demo", docstrings.NAMESPACE)


def demonstrate(
    cache: Path, corpus: Corpus, queries: Sequence[str], *, limit: int, serve: bool, console: Console
) -> Iterator[dict[str, Any]]:
    """Index, once, and yield the result event of each query as it comes; with `serve`, go on until a signal.

    Progress, and at the end the spans of the last query, go to `console`.
    """
    spans = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: "rankstream"}))
    provider.add_span_processor(SimpleSpanProcessor(spans))
    directory = cache / corpus.directory
    with embedded(directory, provider=provider) as running:
        indexed(running, corpus.name, corpus.documents, directory, console)
        kafka = running.settings.kafka
        asking = QueryClient.connected(running.kafka, kafka.topics, provider.get_tracer("producer"))
        with running.searching(), asking as query_client:
            for number, text in enumerate(queries, 1):
                spans.clear()
                event = {"query_id": f"demo-{number}", "text": text, "limit": limit}
                if corpus.namespace is not None:
                    event["namespace"] = corpus.namespace
                yield from query_client.ask([event], _ANSWER_TIMEOUT)
            if serve:
                stopped = threading.Event()
                StopSignals(stopped.set)
                served = f"broker {kafka.bootstrap_servers}, topics {kafka.topics.queries} and {kafka.topics.results}"
                say(console, f"{served}; ask from another terminal:")
                say(console, _command(_described(running.settings, directory), corpus))
                stopped.wait()
    console.print(span_tree(spans.get_finished_spans()))


def demo(
    query: Annotated[
        list[str] | None, typer.Option("--query", help="Query to send in place of the examples; may be repeated.")
    ] = None,
    documents: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="JSON Lines file of your own documents, in place of the documentation."
        ),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(help="Namespace of your own documents to search. Default: `default`.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_LIMIT, help="Number of results per query.")] = 5,
    serve_on: Annotated[
        bool, typer.Option("--serve", help="Keep the broker and the flow running until Ctrl-C.")
    ] = False,
    cache_dir: Annotated[
        Path, typer.Option(envvar="RANKSTREAM_CACHE_DIR", help="Directory for the model's graph and the index.")
    ] = Path("~/.cache/rankstream"),
    as_json: Json = False,
) -> None:
    """Search the documentation of Python's standard library, or your own documents, which need a --query.

    Broker and index run in this process. Exit code 1 if a query is refused, or if no leg could be searched.
    """
    logs.configure(TelemetrySettings(log_level="error", log_format="console"))
    if documents is not None and not (query or serve_on):
        raise typer.BadParameter("own documents need a --query, or --serve", param_hint="--documents")
    queries = query or (QUERIES if documents is None else ())
    corpus = Corpus.shipped() if documents is None else Corpus.own(documents, namespace)
    cache = cache_dir.expanduser()
    results = demonstrate(cache, corpus, queries, limit=limit, serve=serve_on, console=stderr if as_json else out)
    failed = False
    for result, text in zip(results, queries, strict=False):
        show(result, text, as_json)
        if not as_json:
            hint_of_nothing(result, corpus.namespace or _DEFAULT, filtered=False)
        failed = failed or result["status"] in UNANSWERED
    raise typer.Exit(1 if failed else 0)


def _described(settings: Settings, directory: Path) -> Path:
    """A configuration file with which other commands reach the demo while it runs."""
    config = directory / _CONFIG
    kafka = {"bootstrap_servers": settings.kafka.bootstrap_servers, "client": "librdkafka"}
    # JSON is YAML.
    config.write_bytes(orjson.dumps({"kafka": kafka, "qdrant": {"path": str(directory)}}, option=orjson.OPT_INDENT_2))
    return config


def _command(config: Path, corpus: Corpus) -> str:
    namespace = f"--namespace {corpus.namespace} " if corpus.namespace is not None else ""
    return f'rankstream query --config {shlex.quote(str(config))} {namespace}"your question"'


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
                line = Text.assemble(printable(span.name), (f" {span.kind.name.lower()} {taken:.1f} ms", "dim"))
                add(branch.add(line), span.context.span_id)

    add(tree, None)
    return tree


def _start(span: ReadableSpan) -> int:
    return span.start_time or 0
