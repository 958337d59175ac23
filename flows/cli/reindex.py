"""`rankstream reindex`: a new generation of the index next to the one that answers, and the switch to it.

Rules:
- The process is a replica of the indexing flow, in a consumer group of the new collections' own. So it is resumed from
  its offsets, and further replicas share its work.
- The aliases are switched once: when the group has caught up with the topic, and the numbers of documents agree.
- Documents that the topic no longer has are copied from the present collections before the group's first event. Its
  first offsets are those of the present collections, noted before the copy begins.
- After the switch the process goes on indexing until a replica of `rankstream index` is in its group, or a signal
  comes: no event is missed in between.
"""

import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Annotated, Final, TypeVar

import structlog
import typer

from flows.assembly.clients import InProcess
from flows.assembly.collections import AskQdrant, choice, ensure_collections, open_client
from flows.assembly.delivery import kafka_client
from flows.assembly.indexing import CopyPage, open_copier
from flows.cli.config import begin
from flows.cli.output import Config, Json, print_record, say, stderr
from flows.process.replica import Replica, indexing_replica
from flows.process.serve import serve
from operators.clients.qdrant.client import QdrantClient
from operators.collections import reindexing
from operators.collections.notes import Generation
from operators.collections.reindexing import AliasMove, CatchUp, Plan, differing, unread
from operators.delivery import topics
from operators.delivery.broker import describe_group, has_offsets, reach, set_offsets
from operators.indexing.apply import until_answered
from schemas.errors import BackendTimeout, ConfigError, FatalDelivery, RankstreamError
from schemas.settings import KafkaSettings, Settings

log = structlog.stdlib.get_logger(__name__)

Answer = TypeVar("Answer")

_TIMEOUT: Final = 60.0
_TURN: Final = 0.5
_QUIET: Final = 5.0
"""Seconds between two lines of progress."""

_COMPARISONS: Final = 10
"""Comparisons of the counts, one a second, until they agree."""

_EMBEDDED: Final = (
    "qdrant.path: Qdrant's engine in this process has no aliases, and only one process can open the directory. Let"
    " qdrant.path name a new directory, and index all documents into it; the old one stays as it is."
)


def reindex(
    config: Config = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Give the aliases back to the collections before; nothing is deleted.")
    ] = False,
    drop_old: Annotated[
        bool, typer.Option("--drop-old", help="Delete the collections that the present ones replaced.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Index again although the present collections have these settings.")
    ] = False,
    from_collection: Annotated[
        bool,
        typer.Option(
            "--from-collection", help="Copy the documents of the present collections: the topic no longer has them all."
        ),
    ] = False,
    allow_differences: Annotated[
        bool, typer.Option("--allow-differences", help="Switch although the numbers of documents differ.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Index all documents again, with the settings of this configuration, into new collections, and switch to them.

    Queries and the indexing flow go on. The same command resumes it. After the switch it runs until `rankstream index`
    with this configuration has taken over, or until SIGTERM. Exit code 1 if it did not switch.
    """
    settings = begin(config)
    if settings.qdrant.path is not None:
        raise ConfigError(_EMBEDDED)
    in_process = InProcess(settings)
    names = settings.qdrant.physical
    with open_client(settings, in_process) as ask:
        if undo:
            for move in ask(partial(reindexing.undo, names=names, timeout=_TIMEOUT), _TIMEOUT):
                _tell(move, as_json)
            return
        if drop_old:
            for name in ask(partial(reindexing.drop_old, names=names, timeout=_TIMEOUT), _TIMEOUT):
                print_record({"dropped": name}, f"collection {name}: deleted", as_json=as_json)
            return
        plan = partial(reindexing.plan, names=names, choice=choice(settings), unique=secrets.token_hex(4), again=again)
        found: Plan = _wait(ask, partial(plan, timeout=_TIMEOUT))
        noted = partial(reindexing.group_before, moves=found.moves, default=settings.kafka.indexing.group_id)
        group_before = _wait(ask, partial(noted, timeout=_TIMEOUT))
    if found.generation is None:
        for move in found.moves:
            say(stderr, f"{move.name}: {move.after} was made with these settings; --again indexes once more")
        return
    reach(settings.kafka)
    group = _make(settings, in_process, found.moves, found.generation, group_before if from_collection else None)
    in_process.close()
    delivery = settings.delivery.model_copy(update={"replica": f"{settings.delivery.replica}-reindex"})
    renamed = _into(settings, found.moves).model_copy(update={"delivery": delivery})
    after, before = _in_group(settings.kafka, group), _in_group(settings.kafka, group_before)
    run = _Run(renamed, found.moves, after, before, allow_differences, as_json)
    code = serve(renamed, {"reindex": run.build}, settings.telemetry.indexing_port)
    run.stopping.set()
    raise typer.Exit(code or (0 if run.switched else 1))


def _wait(ask: AskQdrant, read: Callable[[QdrantClient], Awaitable[Answer]]) -> Answer:
    """The answer of a server that may be restarting: it is asked until _TIMEOUT is over. Raises BackendError."""

    async def patient(qdrant: QdrantClient) -> Answer:
        return await until_answered(lambda: read(qdrant))

    try:
        return ask(patient, _TIMEOUT)
    except TimeoutError:
        raise BackendTimeout(f"Qdrant: no answer within {_TIMEOUT:.0f} s") from None


def _make(
    settings: Settings, in_process: InProcess, moves: Sequence[AliasMove], generation: Generation, copied: str | None
) -> str:
    """Make the new collections, and return the group that they note: that of a run that was quicker, if there is one.

    `copied` is the group of those whose documents are copied, None: the topic has all. A copy that was stopped begins
    again: documents may have been deleted since.
    """
    kafka, topic = _in_group(settings.kafka, generation.group), settings.kafka.topics.documents
    starts = None
    if copied is None:
        _check_beginning(kafka)
    elif not has_offsets(kafka, topic):
        if lacking := [move.name for move in moves if move.before is None]:
            raise ConfigError(f"--from-collection: {', '.join(lacking)} has no collection to copy")
        before = kafka_client(_in_group(settings.kafka, copied))
        with closing(before.bounded_reader(topic)) as reader, open_client(settings, in_process) as ask:
            starts = reader.committed()
            for move in moves:
                if ask(partial(QdrantClient.exists, collection=move.after, timeout=_TIMEOUT), _TIMEOUT):
                    ask(partial(QdrantClient.drop_collection, collection=move.after, timeout=_TIMEOUT), _TIMEOUT)
    for move in moves:
        ensure_collections(_into(settings, [move]), in_process, generation=Generation(generation.group, move.before))
    if starts is not None:
        with open_copier(_into(settings, moves), in_process) as copy_page:
            for move in moves:
                _copy(copy_page, move)
        set_offsets(kafka, topic, starts)
    return ensure_collections(_into(settings, moves), in_process).group or generation.group


def _in_group(kafka: KafkaSettings, group: str) -> KafkaSettings:
    return kafka.model_copy(update={"group_id": group})


def _copy(copy_page: CopyPage, move: AliasMove) -> None:
    """Copy the documents of the collection before, and log every few seconds how many there were."""
    assert move.before is not None
    told, documents, offset = time.monotonic(), 0, None
    while True:
        number, offset = copy_page(move.before, move.after, offset)
        documents += number
        if offset is None or time.monotonic() - told >= _QUIET:
            log.info("copying", collection=move.before, to=move.after, documents=documents)
            told = time.monotonic()
        if offset is None:
            return


def _into(settings: Settings, moves: Sequence[AliasMove]) -> Settings:
    """The same settings with the new collections, by their own names; a name without a move is left out."""
    section, after = settings.qdrant, {move.name: move.after for move in moves}

    def rename(names: Mapping[str, str]) -> dict[str, str]:
        return {each: after[name] for each, name in names.items() if name in after}

    named = {
        "destinations": rename(section.destinations),
        "collections": {destination: rename(parts) for destination, parts in section.collections.items()},
        "analysers": {after[name]: each for name, each in section.analysers.items() if name in after},
        "owned": [],
    }
    return settings.model_copy(update={"qdrant": section.model_copy(update=named)})


def _tell(move: AliasMove, as_json: bool) -> None:
    before = f", before {move.before}" if move.before is not None else ""
    print_record(asdict(move), f"{move.name}: {move.after} answers from now on{before}", as_json=as_json)


def _check_beginning(kafka: KafkaSettings) -> None:
    """Raise FatalDelivery if the retention has cut documents off the topic that the group has not read."""
    topic = kafka.topics.documents
    with closing(kafka_client(kafka).bounded_reader(topic)) as reader:
        committed = reader.committed()
        cut = sorted(number for number, start in reader.positions().items() if start > 0 and committed[number] <= start)
    policy = (topics.describe_topics(kafka)[topic] or {}).get("cleanup.policy", "delete")
    if cut and "delete" in policy:
        partitions = ", ".join(map(str, cut))
        raise FatalDelivery(
            f"{topic}: the retention has deleted the beginning of the partitions {partitions}, and documents with it."
            " --from-collection copies those of the present collections; or send all documents again to a topic that"
            " keeps them (retention.ms -1), and let kafka.topics.documents name it"
        )


@dataclass
class _Run:
    """The replica, in the new collections' group, and the thread that watches it, switches, and awaits a successor."""

    settings: Settings
    moves: Sequence[AliasMove]
    kafka: KafkaSettings
    kafka_before: KafkaSettings
    allow_differences: bool
    as_json: bool
    stopping: threading.Event = field(default_factory=threading.Event)
    switched: bool = False

    def build(self, settings: Settings, in_process: InProcess) -> Replica:
        """The replica, watched from now on."""
        replica = indexing_replica(settings, in_process)
        threading.Thread(target=self._watch, args=(replica, in_process), name="reindexing", daemon=True).start()
        return replica

    def _watch(self, replica: Replica, in_process: InProcess) -> None:
        try:
            if self._catch_up() and self._agree(in_process):
                with open_client(self.settings, in_process) as ask:
                    ask(partial(reindexing.switch, moves=self.moves, timeout=_TIMEOUT), _TIMEOUT)
                self.switched = True
                for move in self.moves:
                    _tell(move, self.as_json)
                log.info("start rankstream index with this configuration", group=self.kafka.group_id)
                self._await_successor()
        except (RankstreamError, TimeoutError) as error:
            log.error("reindexing failed", reason=str(error), switched=self.switched)
        finally:
            replica.stop()

    def _catch_up(self) -> bool:
        """True once the new index has what the topic has; False if the process stops before."""
        catching_up, told, applied = CatchUp(), time.monotonic(), 0
        with closing(kafka_client(self.kafka).bounded_reader(self.kafka.topics.documents)) as reader:
            before = sum(reader.committed().values())
            while not self.stopping.wait(_TURN):
                ends, committed, now = reader.ends(), reader.committed(), time.monotonic()
                if catching_up.observe(ends, committed, now):
                    return True
                if now - told >= _QUIET:
                    read = sum(committed.values()) - before
                    rate = round((read - applied) / (now - told), 1)
                    log.info("reindexing", documents=read, per_second=rate, left=unread(ends, committed))
                    told, applied = now, read
        return False

    def _agree(self, in_process: InProcess) -> bool:
        """True if each namespace has as many documents as before, apart from those of events that one index lacks."""
        compared = [(move.before, move.after) for move in self.moves if move.before is not None]
        topic = self.kafka.topics.documents
        with (
            open_client(self.settings, in_process) as ask,
            closing(kafka_client(self.kafka).bounded_reader(topic)) as reader,
            closing(kafka_client(self.kafka_before).bounded_reader(topic)) as reader_before,
        ):
            for attempt in range(_COMPARISONS):
                if attempt and self.stopping.wait(1.0):
                    return False
                read, read_before = reader.committed(), reader_before.committed()
                count = partial(reindexing.count_documents, now=time.time(), timeout=_TIMEOUT)
                counts = [[ask(partial(count, collection=each), _TIMEOUT) for each in pair] for pair in compared]
                both = {number: min(offset, read_before.get(number, 0)) for number, offset in read.items()}
                slack = unread(reader.ends(), both)
                different = [each for old, new in counts for each in differing(old, new, slack).items()]
                if not different:
                    log.info("numbers of documents agree", namespaces=[after for _, after in counts], slack=slack)
                    return True
            for name, (before, after) in different:
                log.warning("numbers of documents differ", namespace=name, before=before, after=after)
        if not self.allow_differences:
            log.error("not switched: --allow-differences switches all the same")
        return self.allow_differences

    def _await_successor(self) -> None:
        while not self.stopping.wait(2 * _TURN):
            try:
                if describe_group(self.kafka).members > 1:
                    log.info("rankstream index has taken over")
                    return
            except FatalDelivery:
                # A broker that does not say so: a signal ends the process.
                continue
