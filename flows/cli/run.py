"""`rankstream run` and `index`: the flows until a signal; `index --from` and `forget`: requests to a running flow.

What is deleted, a namespace or those of its documents that match filters, does not come back.
"""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from flows.assembly.clients import InProcess
from flows.assembly.collections import count_points, indexing_kafka
from flows.cli.config import begin
from flows.cli.ingestion import SHOWN, TIMEOUT, Ingested, ingest, ingest_with_bar
from flows.cli.output import Config, Json, emit, input_file, out, say, stderr
from flows.cli.query import EXAMPLE, FilterOption, filter_option
from flows.cli.records import Records
from flows.process.replica import Build, feedback_replica, indexing_replica, search_replica
from flows.process.serve import serve
from flows.process.supervision import run_replicas
from operators.access.filters import condition as in_qdrant
from operators.indexing.decode import read_deletion
from operators.indexing.deletion import Forgotten, within
from operators.mapping.own_names import OwnNames
from schemas.document import DELETE_WHERE, DeletionEvent
from schemas.errors import ConfigError, InputError
from schemas.settings import QdrantSettings, Settings

_UNCOUNTED: Final = "not counted: the index is open in another process. The log of the indexing flow has the counts"


def run(
    config: Config = None,
    replicas: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of processes to start on this machine; each is a member of the consumer group, and is started"
            " again if it ends. The health port of each is telemetry.port plus its index, from 0; the first free one,"
            " if it is not set.",
        ),
    ] = 1,
    with_indexing: Annotated[
        bool,
        typer.Option(
            "--with-indexing",
            help="Run the indexing flow, too, in the same process: with qdrant.path only one can open the index.",
        ),
    ] = False,
) -> None:
    """Run the search flow: read queries, write results, until SIGTERM."""
    settings = begin(config, as_replica=replicas == 1)
    delivery, telemetry = settings.delivery, settings.telemetry
    if replicas > 1:
        arguments = ["run"] if config is None else ["run", "--config", str(config)]
        arguments += ["--with-indexing"] if with_indexing else []
        port = None if telemetry.finds_port else telemetry.port
        raise typer.Exit(run_replicas(arguments, delivery.replica, port, replicas, delivery.drain_timeout))
    # The indexing flow first: it makes the collections that do not exist.
    indexing: dict[str, Build] = {"indexing": indexing_replica} if with_indexing else {}
    raise typer.Exit(serve(settings, {**indexing, "search": search_replica}, telemetry.port))


def index(
    config: Config = None,
    source: Annotated[
        Path | None,
        input_file(
            "File of documents (JSON Lines, a JSON array or CSV), folder of Markdown or HTML, or - for standard input:"
            " send it to a running indexing flow, and wait until each is applied or rejected.",
            "--from",
            folder=True,
            stdin=True,
        ),
    ] = None,
    allow_rejected: Annotated[
        bool, typer.Option("--allow-rejected", help="Exit with 0 although documents were rejected.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run the indexing flow until SIGTERM, or send a file to a running one (--from).

    With --from the exit code is 1 if a document was rejected. --json prints each rejected document, and the counts.
    """
    settings = begin(config, as_replica=source is None)
    if source is None:
        raise typer.Exit(serve(settings, {"indexing": indexing_replica}, settings.telemetry.indexing_port))
    with Records.open(source, settings.documents) as records:
        wrong, total = records.survey()
        name, key = records.path.name, settings.documents.id_column
        kafka, sent = indexing_kafka(settings), total - len(wrong)
        ingested = ingest_with_bar(kafka, name, records.usable(), sent, stderr, TIMEOUT, key)
    ingested = Ingested(total, [*wrong, *ingested.rejected])
    print_outcome(ingested, as_json=as_json)
    raise typer.Exit(1 if ingested.rejected and not allow_rejected else 0)


def learn(config: Config = None) -> None:
    """Run the feedback flow until SIGTERM: read what users did with results of experiments, write their preferences."""
    settings = begin(config, as_replica=True)
    raise typer.Exit(serve(settings, {"feedback": feedback_replica}, settings.telemetry.port))


def print_outcome(ingested: Ingested, *, as_json: bool) -> None:
    """Print the outcome of the documents; for people, with the first rejected ones alone."""
    if as_json:
        for each in ingested.rejected:
            emit(asdict(each))
        emit({"sent": ingested.sent, "applied": ingested.applied, "rejected": len(ingested.rejected)})
        return
    say(out, f"documents indexed: {ingested.applied}, rejected: {len(ingested.rejected)}")
    for each in ingested.rejected[:SHOWN]:
        say(stderr, str(each))
    if (more := len(ingested.rejected) - SHOWN) > 0:
        say(stderr, f"{more} more were rejected: --json prints all")


def _targets(settings: QdrantSettings) -> Iterator[tuple[dict[str, str], str]]:
    """Each destination, and each part of one, as a document names it, with the Qdrant collection that holds it."""
    for destination, collection in settings.destinations.items():
        yield {"destination": destination}, collection
        for part, held in settings.collections.get(destination, {}).items():
            yield {"destination": destination, "collection": part}, held


def _counts(settings: Settings, event: DeletionEvent) -> tuple[int, int] | None:
    """The numbers of documents that are to be forgotten, and that stay for a later version; None if none can tell."""
    assert event.updated_at is not None
    forgotten = Forgotten.of(round(event.updated_at * 1000), [in_qdrant(each) for each in event.filters])
    wheres: dict[str, list[dict[str, Any]]] = {}
    for target, collection in _targets(settings.qdrant):
        documents = within(target["destination"], event.namespace)
        both = ({"must": [*documents, each]} for each in (forgotten.condition(), forgotten.later()))
        wheres.setdefault(collection, []).extend(both)
    with closing(InProcess(settings)) as in_process:
        try:
            found = count_points(settings, in_process, wheres)
        except ConfigError:
            return None
    return sum(found[::2]), sum(found[1::2])


def _documents(number: int) -> str:
    return f"{number} document{'s' if number != 1 else ''}"


def forget(
    namespace: Annotated[str, typer.Option(help="Namespace (tenant) whose documents are deleted.")],
    config: Config = None,
    filters: Annotated[
        list[FilterOption] | None,
        filter_option(
            f"Delete only documents that match it; or a filter as JSON, such as '{EXAMPLE}'; may be repeated: all must"
            " hold. Default: the whole namespace."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Delete only versions of this time, in RFC 3339, or older. Default: now."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete them. Default: print how many there are.")] = False,
    timeout: Annotated[
        float, typer.Option(min=1, max=86_400, help="Seconds to wait for the indexing flow while nothing moves.")
    ] = 600.0,
    as_json: Json = False,
) -> None:
    """Delete a namespace, or its documents that match every filter, from all destinations; nothing older comes back.

    Documents with a later version stay, and are counted. Without --yes nothing is deleted. The command ends when the
    indexing flow has deleted them. Exit code 1 if it refuses to. See docs/how-to/deleting.md.
    """
    settings = begin(config)
    if settings.qdrant.of_another_tool:
        raise ConfigError("qdrant.fields, ids, namespaces and vectors describe collections that are only read")
    read = [each.read(settings) for each in filters or ()]
    given = {"op": DELETE_WHERE, "namespace": namespace, "filters": read, "updated_at": until or time.time()}
    names = OwnNames(settings.documents.columns)
    try:
        event = read_deletion(names.read(given))
    except InputError as error:
        raise typer.BadParameter(names.reword(str(error))) from None
    before = _counts(settings, event)
    if not yes:
        would = f"{_documents(before[0])} would be deleted" if before is not None else _UNCOUNTED
        none = ": look at the spelling of the namespace and the filters" if before == (0, 0) else ""
        say(stderr if as_json else out, f"{would}{none}. Give --yes to delete them: they do not come back")
        raise typer.Exit(2)
    columns = settings.documents.columns
    # As a producer of rows would write them.
    events = [
        {columns.get(name, name): value for name, value in {**given, **target}.items()}
        for target, _ in _targets(settings.qdrant)
    ]
    done = ingest(indexing_kafka(settings), enumerate(events, 1), lambda *_: None, timeout)
    for rejected in done.rejected:
        say(stderr, f"refused: {rejected.kind}: {rejected.reason}", "red")
    after = _counts(settings, event)
    deleted, stayed = (before[0] - after[0], after[1]) if before is not None and after is not None else (None, None)
    if deleted is None:
        say(stderr, _UNCOUNTED)
    if as_json:
        emit({"namespace": namespace, "deleted": deleted, "later_versions": stayed, "refused": len(done.rejected)})
    elif deleted is not None:
        say(out, f"{_documents(deleted)} deleted; {stayed} with a later version stayed")
    raise typer.Exit(1 if done.rejected else 0)
