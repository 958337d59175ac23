"""`rankstream console`: a page on loopback that searches by one recipe or two, side by side."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

import typer
from opentelemetry.trace import Tracer, format_trace_id

from flows.assembly.kafka_client import reached
from flows.cli.console_server import Answers, ConsoleServer
from flows.cli.output import Config, out, say
from flows.cli.query_client import Event, QueryClient
from flows.process import logs
from flows.process.signals import StopSignals
from operators.telemetry.export import tracer_provider
from schemas.settings import KafkaSettings, Settings, load
from schemas.settings.ranking import BALANCED

_TIMEOUT: Final = 30.0
"""Seconds to wait for an answer, as `rankstream query` does by default."""


def console(
    config: Config = None,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port of the page on 127.0.0.1; 0: any that is free.")
    ] = 8082,
) -> None:
    """Serve a page on which to search, and to compare the results of two recipes, until Ctrl-C.

    Only browsers on this machine reach it. Each search is a query event for each recipe, through Kafka.
    """
    settings = load(config)
    logs.configure(settings.telemetry)
    tracer = tracer_provider().get_tracer("rankstream.console")
    with ConsoleServer(port, choices(settings), asking(settings.kafka, tracer)) as server:
        reached(settings.kafka)
        StopSignals(server.shutdown)
        say(out, f"console: http://127.0.0.1:{server.port}")
        server.serve_forever()


def choices(settings: Settings) -> dict[str, Any]:
    """The recipes and profiles that a search may name, and what is searched if it names nothing."""
    return {
        "recipes": sorted(settings.recipes),
        "profiles": {name: profile.recipe for name, profile in settings.profiles.items()},
        "defaults": {"namespace": settings.defaults.namespace, "profile": BALANCED},
    }


def asking(
    settings: KafkaSettings, tracer: Tracer, timeout: float = _TIMEOUT
) -> Callable[[Sequence[Mapping[str, Any]]], Answers]:
    """What asks queries side by side, and returns their results in the same order; any thread may call it."""

    def ask(searches: Sequence[Mapping[str, Any]]) -> Answers:
        events: list[Event] = [{"query_id": f"console-{uuid.uuid4()}", **search} for search in searches]
        # Each search has a query client of its own. So a client is used by one thread, and no search waits for another.
        # A client that was kept would have to read all that others were answered in the meantime, too.
        with (
            tracer.start_as_current_span("search") as span,
            QueryClient.connected(reached(settings), settings.topics, tracer) as query_client,
        ):
            found = {result["query_id"]: result for result in query_client.ask(events, timeout)}
        context = span.get_span_context()
        trace_id = format_trace_id(context.trace_id) if context.is_valid else None
        return Answers([found[event["query_id"]] for event in events], trace_id)

    return ask
