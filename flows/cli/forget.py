"""`rankstream forget`: deletes a namespace, its documents that match filters, or those that an export no longer has.

Rules:
- A namespace, and what matches filters, is deleted up to a version, and a tombstone keeps both: no document of that
  version or an older one comes back, and none that matches the same filters comes for the first time.
- What an export no longer has is deleted by id, each document at the version that the index has. So a newer version
  that comes meanwhile stays, and a document that a later export has is indexed again, also an unchanged one.
- A namespace or a field that no document has is a mistake, and so is an export that lacks most documents.
"""

import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence, Set
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from flows.assembly.clients import InProcess
from flows.assembly.collections import ask_collections, indexing_kafka
from flows.cli.config import begin
from flows.cli.exports import Place, read_places
from flows.cli.ingestion import SHOWN, ingest
from flows.cli.output import Config, Json, emit, input_file, out, say, stderr
from flows.cli.query import EXAMPLE, FilterOption, filter_option
from flows.cli.records import Records
from operators.access.filters import condition as in_qdrant
from operators.access.filters import on_fields
from operators.clients.qdrant.client import QdrantClient
from operators.collections.requirements import Surveyed
from operators.indexing.decode import NAMES, read_deletion
from operators.indexing.deletion import Forgotten
from operators.indexing.point import has_value
from operators.mapping.own_names import OwnNames
from operators.query.search import Condition
from operators.query.zero_results import suggest
from schemas.document import DELETE_WHERE, DESTINATION, INDEXED, NAMESPACE, VERSION, DeletionEvent, point_id
from schemas.errors import ConfigError, DeadLetterClass, IndexInUse, InputError, join_first
from schemas.fields import rfc3339
from schemas.filters import Exists
from schemas.settings import Settings

Event = dict[str, Any]
Answer = TypeVar("Answer")
AskOne = Callable[[QdrantClient, Surveyed, Condition], Awaitable[Answer]]

_UNCOUNTED: Final = "not counted: the index is open in another process. The log of the indexing flow has the counts"
_UNREAD: Final = (
    "--not-in reads the index, which is open in another process: use a Qdrant server (qdrant.url), or delete what was"
    " sent before a time with --until"
)
_TIMEOUT: Final = 60.0
_PAGE: Final = 1_000
_NAMESPACES: Final = 10_000
_MOST: Final = 0.5
"""Share of the documents that an export may lack: beyond it, another file or another id is likelier."""


@dataclass(frozen=True)
class _Deletion:
    """The deletion of many that is asked for, and the index as far as it is about that.

    What reads the index raises IndexInUse if another process has it open, and BackendError.
    """

    settings: Settings
    event: DeletionEvent

    @property
    def targets(self) -> Iterator[tuple[Event, str]]:
        """Each destination, and each part of one, as a document names it, with the Qdrant collection that holds it."""
        for destination, collection in self.settings.qdrant.destinations.items():
            yield {DESTINATION: destination}, collection
            for part, held in self.settings.qdrant.collections.get(destination, {}).items():
                yield {DESTINATION: destination, "collection": part}, held

    def _ask(self, conditions: Sequence[Condition], ask_one: AskOne[Answer], *, within: bool = True) -> list[Answer]:
        """The answers about the points that meet each condition, in each collection; `within`: of the namespace."""
        names: dict[str, list[str]] = {}
        for target, held in self.targets:
            names.setdefault(held, []).append(target[DESTINATION])
        wheres = {}
        for held, there in names.items():
            scope = [has_value(NAMESPACE, self.event.namespace), {"key": DESTINATION, "match": {"any": there}}]
            wheres[held] = [{"must": [*scope, each] if within else [each]} for each in conditions]
        with closing(InProcess(self.settings)) as in_process:
            return ask_collections(self.settings, in_process, wheres, ask_one)

    def _count(self, conditions: Sequence[Condition], *, within: bool = True) -> list[int]:
        async def count(client: QdrantClient, each: Surveyed, where: Condition) -> int:
            return await client.count(each.physical, where, timeout=_TIMEOUT)

        found = self._ask(conditions, count, within=within)
        return [sum(found[place :: len(conditions)]) for place in range(len(conditions))]

    def count_matching(self) -> tuple[int, int] | None:
        """The numbers of documents to be deleted, and of those that stay for a later version; None if none can tell."""
        assert self.event.updated_at is not None
        forgotten = Forgotten.of(round(self.event.updated_at * 1000), [in_qdrant(each) for each in self.event.filters])
        try:
            deleted, stayed = self._count([forgotten.condition(), forgotten.later()])
        except IndexInUse:
            return None
        return deleted, stayed

    def find_mistake(self) -> str | None:
        """The namespace or the field that no document has, with the one that was likely meant.

        A namespace with a tombstone was forgotten before, and is no mistake.
        """
        name, own = self.event.namespace, OwnNames(self.settings.documents.columns).own
        fields = sorted({each.field for _, each in on_fields(self.event.filters, "")})
        having = [in_qdrant(Exists.on(each)) for each in fields]
        there, *counts = self._count([{"must": []}, *having])
        if there:
            known = sorted(map(own, {*self.settings.qdrant.indexes, *INDEXED}))
            missing = [own(each) for each, number in zip(fields, counts, strict=True) if not number]
            return f"no document has the field `{missing[0]}`{suggest(missing[0], known)}" if missing else None
        tombstones = {"has_id": sorted({point_id(target[DESTINATION], name) for target, _ in self.targets})}
        if sum(self._count([tombstones], within=False)):
            return None

        async def list_names(client: QdrantClient, each: Surveyed, where: Condition) -> list[str]:
            found = await client.facet(each.physical, NAMESPACE, where, limit=_NAMESPACES, timeout=_TIMEOUT)
            return [*map(str, found.counts)]

        names = chain.from_iterable(self._ask([{"must": []}], list_names, within=False))
        return f"no document is in the namespace `{name}`{suggest(name, sorted({*names}))}"

    def read_lacking(self, there: Set[Place]) -> tuple[int, dict[Place, Event]]:
        """The number of documents that match the filters, and the deletion of each that is not there."""

        async def read(client: QdrantClient, each: Surveyed, where: Condition) -> tuple[int, dict[Place, Event]]:
            total, gone = 0, dict[Place, Event]()
            records = client.records(each.physical, where, limit=_PAGE, fields=(*NAMES, VERSION), timeout=_TIMEOUT)
            async for record in records:
                total += 1
                if (place := (each.name, record.id)) not in there:
                    named = {name: record.payload[name] for name in NAMES if name in record.payload}
                    gone[place] = {**named, "op": "delete", "updated_at": rfc3339(record.payload[VERSION] / 1000)}
            return total, gone

        try:
            found = self._ask([{"must": [in_qdrant(each) for each in self.event.filters]}], read)
        except IndexInUse:
            raise ConfigError(_UNREAD) from None
        return sum(total for total, _ in found), dict(chain.from_iterable(gone.items() for _, gone in found))


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
    not_in: Annotated[
        Path | None,
        input_file(
            "Delete only documents that are not in this export, read as by `index --from`. A later export brings them"
            " back.",
            "--not-in",
            folder=True,
            stdin=True,
        ),
    ] = None,
    allow_most: Annotated[
        bool, typer.Option("--allow-most", help="With --not-in: delete them although they are more than half.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Delete them. Default: print how many there are.")] = False,
    timeout: Annotated[
        float, typer.Option(min=1, max=86_400, help="Seconds to wait for the indexing flow while nothing moves.")
    ] = 600.0,
    as_json: Json = False,
) -> None:
    """Delete a namespace, or its documents that match every filter, from all destinations; nothing older comes back.

    Without --yes nothing is deleted. Documents with a later version stay, and are counted. Exit code 1 if the indexing
    flow refuses, or if no document has the namespace or a field of the filters. See docs/how-to/deleting.md.
    """
    settings = begin(config)
    if settings.qdrant.of_another_tool:
        raise ConfigError("qdrant.fields, ids, namespaces and vectors describe collections that are only read")
    if not_in is not None and until is not None:
        raise typer.BadParameter("what an export no longer has goes at any version", param_hint="--until")
    read = [each.read(settings) for each in filters or ()]
    given = {"op": DELETE_WHERE, "namespace": namespace, "filters": read, "updated_at": until or rfc3339(time.time())}
    names = OwnNames(settings.documents.columns)
    try:
        deletion = _Deletion(settings, read_deletion(names.read(given)))
    except InputError as error:
        raise typer.BadParameter(names.reword(str(error))) from None
    there, lacking = set[Place](), dict[Place, Event]()
    if not_in is None:
        before, events = deletion.count_matching(), [{**given, **target} for target, _ in deletion.targets]
        total = sum(before) if before is not None else None
        fate = "nothing as old that matches comes back"
    else:
        with Records.open(not_in, settings.documents) as export:
            there = read_places(export, settings, deletion.event.namespace)
        total, lacking = deletion.read_lacking(there)
        before, events, fate = (len(lacking), 0), [*lacking.values()], "a later export brings them back"
    mistake = deletion.find_mistake() if total == 0 else None
    most = len(lacking) > _MOST * (total or 0) and not allow_most
    if not yes:
        cure = f"Give --yes{' and --allow-most, for they are more than half,' if most else ''} to delete them: {fate}"
        would = f"{_documents(before[0])} would be deleted" if before is not None else _UNCOUNTED
        hint = mistake if before == (0, 0) else f"{_list_ids(lacking.values())}. {cure}"
        say(stderr if as_json else out, f"{would}{': ' if mistake else ''}{hint or ''}")
        raise typer.Exit(2)
    if mistake is not None:
        raise InputError(DeadLetterClass.INVALID, f"nothing was deleted: {mistake}")
    if most:
        why = f"{len(lacking)} of {total} documents are not in {not_in}, which is more than half"
        raise InputError(DeadLetterClass.INVALID, f"nothing was deleted: {why}; --allow-most deletes them")
    # As a producer of rows would write them.
    columns = settings.documents.columns
    rows = [{columns.get(name, name): value for name, value in each.items()} for each in events]
    done = ingest(indexing_kafka(settings), enumerate(rows, 1), lambda *_: None, timeout, settings.documents)
    for rejected in done.rejected:
        say(stderr, f"refused: {rejected.kind}: {rejected.reason}", "red")
    stayed = len(lacking.keys() & deletion.read_lacking(there)[1].keys()) if not_in is not None else 0
    after = (stayed, stayed) if not_in is not None else deletion.count_matching()
    deleted, later = (before[0] - after[0], after[1]) if before is not None and after is not None else (None, None)
    if deleted is None:
        say(stderr, _UNCOUNTED)
    if as_json:
        emit({"namespace": namespace, "deleted": deleted, "later_versions": later, "refused": len(done.rejected)})
    elif deleted is not None:
        say(out, f"{_documents(deleted)} deleted; {later} with a later version stayed")
    raise typer.Exit(1 if done.rejected else 0)


def _list_ids(events: Collection[Event]) -> str:
    first = [str(each["id"]) for each in islice(events, SHOWN)]
    return f": {join_first(first, len(events) - len(first), ', ')}" if first else ""
