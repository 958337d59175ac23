"""`rankstream forget`: deletes a namespace, or its documents that match filters.

They are deleted up to a version, and a tombstone keeps both: no document of that version or an older one comes back,
and none that matches the same filters comes for the first time.
"""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from flows.assembly.clients import InProcess
from flows.assembly.collections import ask_collections, indexing_kafka
from flows.cli.config import begin
from flows.cli.ingestion import ingest
from flows.cli.output import Config, Json, emit, out, say, stderr
from flows.cli.query import EXAMPLE, FilterOption, filter_option
from operators.access.filters import condition as in_qdrant
from operators.clients.qdrant.client import QdrantClient
from operators.collections.requirements import Surveyed
from operators.indexing.decode import read_deletion
from operators.indexing.deletion import Forgotten
from operators.indexing.point import has_value
from operators.mapping.own_names import OwnNames
from operators.query.search import Condition
from schemas.document import DELETE_WHERE, DESTINATION, NAMESPACE, DeletionEvent
from schemas.errors import ConfigError, IndexInUse, InputError
from schemas.fields import rfc3339
from schemas.settings import Settings

_UNCOUNTED: Final = "not counted: the index is open in another process. The log of the indexing flow has the counts"
_TIMEOUT: Final = 60.0


@dataclass(frozen=True)
class _Deletion:
    """The deletion of many that is asked for, and the index as far as it is about that."""

    settings: Settings
    event: DeletionEvent

    @property
    def targets(self) -> Iterator[tuple[dict[str, Any], str]]:
        """Each destination, and each part of one, as a document names it, with the Qdrant collection that holds it."""
        for destination, collection in self.settings.qdrant.destinations.items():
            yield {DESTINATION: destination}, collection
            for part, held in self.settings.qdrant.collections.get(destination, {}).items():
                yield {DESTINATION: destination, "collection": part}, held

    def count_matching(self) -> tuple[int, int] | None:
        """The numbers of documents to be deleted, and of those that stay for a later version; None if none can tell."""
        assert self.event.updated_at is not None
        forgotten = Forgotten.of(round(self.event.updated_at * 1000), [in_qdrant(each) for each in self.event.filters])
        names: dict[str, list[str]] = {}
        for target, held in self.targets:
            names.setdefault(held, []).append(target[DESTINATION])
        wheres = {}
        for held, there in names.items():
            scope = [has_value(NAMESPACE, self.event.namespace), {"key": DESTINATION, "match": {"any": there}}]
            wheres[held] = [{"must": [*scope, each]} for each in (forgotten.condition(), forgotten.later())]

        async def count(client: QdrantClient, each: Surveyed, where: Condition) -> int:
            return await client.count(each.physical, where, timeout=_TIMEOUT)

        try:
            with closing(InProcess(self.settings)) as in_process:
                found = ask_collections(self.settings, in_process, wheres, count)
        except IndexInUse:
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
            f"Delete only documents that match it, or a filter as JSON, such as '{EXAMPLE}'; may be repeated: all must"
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

    Without --yes nothing is deleted. Documents with a later version stay, and are counted. Exit code 1 if the indexing
    flow refuses. See docs/how-to/deleting.md.
    """
    settings = begin(config)
    if settings.qdrant.of_another_tool:
        raise ConfigError("qdrant.fields, ids, namespaces and vectors describe collections that are only read")
    read = [each.read(settings) for each in filters or ()]
    given = {"op": DELETE_WHERE, "namespace": namespace, "filters": read, "updated_at": until or rfc3339(time.time())}
    names = OwnNames(settings.documents.columns)
    try:
        deletion = _Deletion(settings, read_deletion(names.read(given)))
    except InputError as error:
        raise typer.BadParameter(names.reword(str(error))) from None
    before = deletion.count_matching()
    if not yes:
        would = f"{_documents(before[0])} would be deleted" if before is not None else _UNCOUNTED
        say(stderr if as_json else out, f"{would}. Give --yes to delete them: nothing as old that matches comes back")
        raise typer.Exit(2)
    # As a producer of rows would write them.
    columns = settings.documents.columns
    events = [{**given, **target} for target, _ in deletion.targets]
    rows = [{columns.get(name, name): value for name, value in each.items()} for each in events]
    done = ingest(indexing_kafka(settings), enumerate(rows, 1), lambda *_: None, timeout, settings.documents)
    for rejected in done.rejected:
        say(stderr, f"refused: {rejected.kind}: {rejected.reason}", "red")
    after = deletion.count_matching()
    deleted, later = (before[0] - after[0], after[1]) if before is not None and after is not None else (None, None)
    if deleted is None:
        say(stderr, _UNCOUNTED)
    if as_json:
        emit({"namespace": namespace, "deleted": deleted, "later_versions": later, "refused": len(done.rejected)})
    elif deleted is not None:
        say(out, f"{_documents(deleted)} deleted; {later} with a later version stayed")
    raise typer.Exit(1 if done.rejected else 0)
