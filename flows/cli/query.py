"""`rankstream query`: one query event and its result."""

import uuid
from typing import Annotated, Any, Final

import orjson
import typer

from flows.assembly.delivery import connect
from flows.cli.config import begin
from flows.cli.output import SHOWN, UNANSWERED, Config, Json, hint_of_nothing, out, print_result, say
from flows.cli.query_client import QueryClient
from operators.telemetry.export import tracer_provider
from schemas.query import MAX_GROUP_SIZE, MAX_LIMIT

EXAMPLE: Final = '{"field": "price", "op": "range", "value": {"lt": 50}}'
"""A filter as a command takes it."""


class Condition(dict[str, Any]):
    """A filter of a query event."""


def condition(text: str) -> Condition:
    """Read a JSON object as in a query event, or FIELD=VALUE. Raises typer.BadParameter."""
    if text.lstrip().startswith("{"):
        try:
            return Condition(orjson.loads(text))
        except orjson.JSONDecodeError as error:
            raise typer.BadParameter(f"not JSON: {error.msg}") from None
    field, equals, value = text.partition("=")
    if not (field and equals):
        raise typer.BadParameter(f"{text!r} is neither FIELD=VALUE nor a JSON object, such as {EXAMPLE}")
    try:
        return Condition(field=field, op="eq", value=orjson.loads(value))
    except orjson.JSONDecodeError:
        return Condition(field=field, op="eq", value=value)


def filter_option(said: str) -> Any:
    """The option --filter of a command, with its help."""
    return typer.Option("--filter", parser=condition, metavar="FIELD=VALUE", help=said)


def query(
    text: Annotated[
        str | None, typer.Argument(help="Search text; it may be a keyword expression. None: a lookup by filters.")
    ] = None,
    config: Config = None,
    namespace: Annotated[
        str | None, typer.Option(help="Namespace (tenant) to search. Default: defaults.namespace.")
    ] = None,
    filters: Annotated[
        list[Condition] | None,
        filter_option(
            f"Condition on a field of the payload, or a filter as JSON, such as '{EXAMPLE}'; may be repeated: all must"
            " hold."
        ),
    ] = None,
    profile: Annotated[str | None, typer.Option(help="Profile: fast, balanced, deep, or a configured one.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Recipe that ranks the results. Default: the profile's.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_LIMIT, help="Number of results.")] = 10,
    group_by: Annotated[
        str | None, typer.Option(metavar="FIELD", help="One result for each value of this indexed field.")
    ] = None,
    group_size: Annotated[
        int | None, typer.Option(min=1, max=MAX_GROUP_SIZE, help="Documents of each group that are printed.")
    ] = None,
    cursor: Annotated[
        str | None, typer.Option("--more", metavar="CURSOR", help="Ask for the page that an answer's cursor names.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Print how each score came about.")] = False,
    record: Annotated[
        bool,
        typer.Option("--record", help="Have the result carry the query's candidate pool, for `rank`; with --json."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Print the stages that the query passed, with times.")] = False,
    timeout: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds to wait for the result.")] = 30.0,
    as_json: Json = False,
) -> None:
    """Send one query to Kafka, wait for its result, and print it.

    Exit code 1 if the query is refused, or if no leg could be searched.
    """
    if record and not as_json:
        raise typer.BadParameter("the pool is printed with --json", param_hint="--record")
    settings = begin(config)
    event: dict[str, Any] = {"query_id": f"cli-{uuid.uuid4()}", "limit": limit}
    given = {
        "text": text,
        "namespace": namespace,
        "filters": filters,
        "profile": profile,
        "recipe": recipe,
        "group_by": group_by,
        "group_size": group_size,
        "cursor": cursor,
        "explain": explain or None,
        "record": record or None,
        "debug": debug or None,
        "return": None if as_json else SHOWN,
    }
    event |= {name: value for name, value in given.items() if value is not None}
    kafka, tracer = settings.kafka, tracer_provider().get_tracer("rankstream.query")
    with QueryClient.connect(connect(kafka), kafka.topics, tracer) as query_client:
        [result] = query_client.ask([event], timeout)
    print_result(result, text or "", as_json)
    if not as_json:
        hint_of_nothing(result, namespace or settings.defaults.namespace, filtered=bool(filters))
    if not as_json and result["next_cursor"] is not None:
        say(out, f"further results: --more {result['next_cursor']}")
    raise typer.Exit(1 if result["status"] in UNANSWERED else 0)
