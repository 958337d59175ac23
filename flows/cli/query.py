"""`rankstream query`: one query event and its result."""

import uuid
from typing import Annotated, Any

import typer

from flows.assembly.kafka_client import kafka_client
from flows.cli.answers import refusal, show
from flows.cli.output import Config, Json
from flows.cli.query_client import QueryClient
from flows.process import logs
from operators.telemetry.provider import tracer_provider
from schemas.query import MAX_LIMIT
from schemas.settings import load


def query(
    text: Annotated[str, typer.Argument(help="Search text; it may be a keyword expression.")],
    config: Config = None,
    namespace: Annotated[
        str | None, typer.Option(help="Namespace (tenant) to search. Default: defaults.namespace.")
    ] = None,
    profile: Annotated[str | None, typer.Option(help="Profile: fast, balanced, deep, or a configured one.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Recipe that ranks the results. Default: the profile's.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_LIMIT, help="Number of results.")] = 10,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the result.")] = 30.0,
    as_json: Json = False,
) -> None:
    """Send one query to Kafka, wait for its result, and print it. Exit code 1 if the query is refused."""
    settings = load(config)
    logs.configure(settings.telemetry)
    event: dict[str, Any] = {"query_id": f"cli-{uuid.uuid4()}", "text": text, "limit": limit}
    given = {"namespace": namespace, "profile": profile, "recipe": recipe}
    event |= {name: value for name, value in given.items() if value is not None}
    kafka, tracer = settings.kafka, tracer_provider().get_tracer("rankstream.query")
    with QueryClient.connected(kafka_client(kafka), kafka.topics, tracer) as query_client:
        for result in query_client.ask([event], timeout):
            if as_json or "error" not in result:
                show(result, text, as_json)
            if "error" in result:
                raise refusal(result["error"])
