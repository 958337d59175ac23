"""`rankstream console`: a page on loopback on which ranking is searched, compared, explained, changed and judged."""

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from rich.console import Console as RichConsole

from flows.assembly.clients import InProcess
from flows.assembly.delivery import connect
from flows.cli.config import begin
from flows.cli.console.judgements import JudgementFile
from flows.cli.console.overview import Overview
from flows.cli.console.server import Console, ConsoleServer
from flows.cli.console.waterfall import trace_spans
from flows.cli.console.workbench import Configuration, TracedResults, Workbench, searcher
from flows.cli.output import Config, input_file, out, say
from flows.process.embedded import Embedded
from flows.process.supervision import StopSignals
from operators.telemetry.export import tracer_provider
from schemas.errors import ConfigError
from schemas.settings import KafkaSettings, load

QRELS: Final = Path("judgements.qrels")

_ORIGIN: Final = re.compile(r"https?://[a-z0-9.-]+(:[0-9]+)?")


def console(
    config: Config = None,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port of the page on 127.0.0.1; 0: any that is free.")
    ] = 8082,
    origin: Annotated[
        str | None,
        typer.Option(help="Address at which a proxy on this machine serves the page: https://console.example.com."),
    ] = None,
    other: Annotated[
        list[Path] | None,
        input_file(
            "Another YAML configuration to compare with; may be repeated. One of the same topics ranks the same"
            " candidates in this process.",
            once=True,
        ),
    ] = None,
    judgements: Annotated[
        Path, typer.Option(dir_okay=False, help="File for judgements in TREC format (qrels), which `evaluate` reads.")
    ] = QRELS,
    queries: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="JSON Lines file of a query set, or of results with pools; judged queries are added to it. Default:"
            " next to the judgements.",
        ),
    ] = None,
) -> None:
    """Serve a page on which to search, compare, explain, change and judge rankings, until Ctrl-C.

    Only browsers on this machine reach it, by the link that it prints, or a proxy on it. Each search is a query event
    for each column, through Kafka.
    """
    if origin is not None and not _ORIGIN.fullmatch(origin):
        raise ConfigError("--origin: expected a scheme and a host in lower case, such as https://console.example.com")
    settings = begin(config)
    tracer = tracer_provider().get_tracer("rankstream.console")
    name = config.stem if config is not None else "default"
    configurations = {name: Configuration.of(name, settings, searcher(settings.kafka, tracer))}
    for path in other or ():
        if path.stem in configurations:
            raise ConfigError(f"--other: {path}: a configuration is called {path.stem} already")
        its = load(path)
        ask = None if _same_flow(settings.kafka, its.kafka) else searcher(its.kafka, tracer)
        configurations[path.stem] = Configuration.of(path.stem, its, ask)
    with closing(InProcess(settings)) as in_process:
        bench = Workbench(configurations, JudgementFile(judgements, queries), Overview(settings, in_process))
        server = ConsoleServer(Console(bench, origin), port)
        connect(settings.kafka)
        _serve(server, out)


def _same_flow(one: KafkaSettings, other: KafkaSettings) -> bool:
    """True if a query of the one is answered by the flow of the other."""
    return (one.bootstrap_servers, one.topics.queries) == (other.bootstrap_servers, other.topics.queries)


def _serve(server: ConsoleServer, console: RichConsole) -> None:
    StopSignals(server.stop)
    say(console, f"console: {server.link}")
    server.serve()


def serve_embedded(
    running: Embedded, provider: TracerProvider, spans: InMemorySpanExporter, judgements: Path, console: RichConsole
) -> None:
    """Serve the console of a broker and a flow in this process until a signal; it keeps the last queries' spans."""
    settings = running.settings
    ask = searcher(settings.kafka, provider.get_tracer("rankstream.console"))

    def ask_alone(searches: Sequence[Mapping[str, Any]]) -> TracedResults:
        spans.clear()
        return ask(searches)

    def spans_of(trace_id: str) -> Sequence[ReadableSpan]:
        return trace_spans(spans.get_finished_spans(), trace_id)

    overview = Overview(settings, running.in_process, own_broker=True)
    configurations = {"demo": Configuration.of("demo", settings, ask_alone)}
    bench = Workbench(configurations, JudgementFile(judgements), overview, spans_of)
    _serve(ConsoleServer(Console(bench), 0), console)
