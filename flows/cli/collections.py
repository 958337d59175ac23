"""`rankstream collections` and `rankstream topics`: print what exists and its gaps; create missing parts on demand."""

from collections.abc import Iterator
from contextlib import closing
from typing import Annotated, Any, Final

import typer

from flows.assembly.clients import InProcess
from flows.assembly.collections import ensure_collections, make, survey_collections
from flows.cli.config import begin
from flows.cli.output import Config, Json, out, print_record, say, stderr
from operators.collections.requirements import MADE, Surveyed, parse_schema
from operators.delivery import topics as kafka_topics
from schemas.fields import leaves

_TIMEOUT: Final = 10.0


def collections(
    config: Config = None,
    create: Annotated[bool, typer.Option("--create", help="Create the collections that do not exist.")] = False,
    add_indexes: Annotated[
        bool,
        typer.Option(
            "--add-indexes",
            help="Add the missing indexes, also to collections that rankstream did not create. No index that is there"
            " is changed.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what --create and --add-indexes would do, and do nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print what each configured Qdrant collection has and lacks. Create it, or its indexes, if an option says so.

    --dry-run without the other two is for both. Exit code 1 if a collection cannot be read or a step fails.
    """
    settings = begin(config)
    with closing(InProcess(settings)) as in_process:
        surveyed = survey_collections(settings, in_process, _TIMEOUT)
        if not (create or add_indexes or dry_run):
            for each in surveyed:
                print_record(record(each), *describe_collection(each), as_json=as_json)
        else:
            from operators.collections.making import steps

            every = dry_run and not (create or add_indexes)
            # What another tool fills, it creates.
            creating = (create or every) and not settings.qdrant.of_another_tool
            planned = steps(surveyed, settings.qdrant, create=creating, add=add_indexes or every, foreign=True)
            for step in planned if dry_run else make(settings, in_process, planned):
                need, created = step.need, not dry_run
                index, schema = (need.name, need.wanted) if need is not None else (None, None)
                made = {"collection": step.collection, "index": index, "schema": schema, "created": created}
                print_record(made, f"{'created' if created else 'would create'} {step}", as_json=as_json)
    failed = [each for each in surveyed if each.error is not None]
    for each in failed:
        say(stderr, f"collection {each.name}: {each.error}", "red")
    raise typer.Exit(1 if failed else 0)


def record(surveyed: Surveyed) -> dict[str, Any]:
    """One collection as JSON."""
    info, error = surveyed.info, surveyed.error
    found: dict[str, Any] = {
        "collection": surveyed.name,
        "exists": info is not None if error is None else None,
        "alias_of": surveyed.physical if surveyed.physical != surveyed.name else None,
        "owned_by": surveyed.owner,
        "error": str(error) if error is not None else None,
    }
    if info is None:
        return found
    return found | {
        "points": info.points,
        "shards": info.shards,
        "strict_mode": info.strict,
        "vectors": info.vectors,
        "sparse_vectors": info.sparse_vectors,
        "indexes": {field: parse_schema(index) for field, index in info.indexes.items()},
        "missing_indexes": {each.need.name: each.need.wanted for each in surveyed.gaps if each.kind == "missing index"},
        "differences": [gap.what for gap in surveyed.gaps if gap.kind in MADE],
    }


def describe_collection(surveyed: Surveyed) -> Iterator[str]:
    """One collection for people: each value of its record that there is, on a line."""
    cure = "" if surveyed.info is not None or surveyed.error is not None else " does not exist; make it with --create"
    yield f"{surveyed.name}:{cure}"
    for (name, *path), value in leaves(record(surveyed)) if surveyed.info is not None else ():
        if name != "collection" and value not in (None, {}, []):
            said = ", ".join(value) if isinstance(value, list) else str(value)
            yield f"  {' '.join([name.replace('_', ' '), *path])}: {said}"


def topics(config: Config = None) -> None:
    """Create the Kafka topics and Qdrant collections that do not exist yet.

    Collections that rankstream created get the indexes that they lack; those of other programs are left alone.
    """
    settings = begin(config)
    for name in kafka_topics.create(settings.kafka):
        say(out, f"created topic {name}")
    with closing(InProcess(settings)) as in_process:
        ensured = ensure_collections(settings, in_process, writes=False)
    for name in ensured.created:
        say(out, f"created collection {name}")
    for name in ensured.foreign:
        left = "left alone, since rankstream did not create it (see qdrant.owned, and rankstream collections)"
        say(out, f"collection {name}: {left}")
