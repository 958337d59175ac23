"""`rankstream replay`: dead letters back to the topics that they came from."""

from typing import Annotated

import typer

from flows.assembly.kafka_client import reached
from flows.cli import replaying
from flows.cli.output import Config, Json, emit, out, say, stderr
from flows.cli.replaying import moment
from flows.process import logs
from operators.delivery.replay import Filter, Position
from schemas.errors import DeadLetterClass
from schemas.settings import load


def replay(
    config: Config = None,
    kinds: Annotated[
        list[DeadLetterClass] | None, typer.Option("--class", help="Error class of the dead letter; may be repeated.")
    ] = None,
    stage: Annotated[str | None, typer.Option(help="Stage that rejected the message.")] = None,
    topic: Annotated[str | None, typer.Option(help="Topic from which the message came.")] = None,
    places: Annotated[
        list[Position] | None,
        typer.Option(
            "--offset",
            parser=Position.parse,
            metavar="TOPIC:PARTITION:OFFSET",
            help="Position from which the message came; may be repeated.",
        ),
    ] = None,
    since: Annotated[
        float | None, typer.Option(parser=moment, metavar="TIME", help="Sent at this time or later.")
    ] = None,
    until: Annotated[float | None, typer.Option(parser=moment, metavar="TIME", help="Sent before this time.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Greatest number of messages to send.")] = None,
    rate: Annotated[
        float, typer.Option(min=0.001, max=100_000, help="Greatest number of messages per second.")
    ] = replaying.RATE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be sent, and send nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Send dead letters back to their topics as new queries and documents: those that match every given filter.

    If --class or --offset is repeated, one of its values must match. TIME is RFC 3339 with an offset, or Unix seconds;
    it is compared with the time at which the original was sent. To replay twice is to send twice: two queries with two
    results.
    """
    settings = load(config)
    logs.configure(settings.telemetry)
    wanted = Filter(frozenset(kinds or ()), stage, topic, frozenset(places or ()), since, until)
    client, topics, tally = reached(settings.kafka), settings.kafka.topics, replaying.Tally()
    try:
        if dry_run:
            rows = replaying.rehearse(client, topics, wanted, limit, stderr, tally)
            if as_json:
                for row in rows:
                    emit(row)
            else:
                out.print(replaying.table(rows))
        else:
            replaying.replay(client, topics, wanted, limit, rate, stderr, tally)
    finally:
        if as_json and not dry_run:
            emit(tally.report())
        else:
            for line in tally.lines("would be sent" if dry_run else "sent"):
                say(stderr, line)
    raise typer.Exit(1 if tally.refused else 0)
