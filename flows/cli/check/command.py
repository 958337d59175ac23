"""`rankstream check`: whether everything that the flows need is there and fits, and what to do if not.

Here are the findings about Kafka and Qdrant; those about models and clocks are in flows.cli.check.servers.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import aclosing, closing
from enum import StrEnum
from typing import Annotated, Final

import typer

from flows.assembly import query
from flows.assembly.clients import InProcess
from flows.assembly.collections import indexing_kafka, read_version, survey_collections
from flows.assembly.delivery import kafka_client
from flows.cli.check import Finding, Level, PartCheck, show
from flows.cli.check.servers import check_chat, check_clocks, check_embedder, check_reranker, check_sparse_encoder
from flows.cli.output import Config, Json
from flows.process import logs
from operators.collections.gaps import find_server_gaps
from operators.collections.requirements import CORRECT, INDEXES, STOPPED, VECTORS, Gap, Severity, Surveyed, merge_gaps
from operators.delivery import topics
from operators.delivery.broker import MEMBERS, TRANSACTIONS, describe_group, find_lag, lacking
from operators.delivery.schema_registry import SchemaRegistry
from operators.delivery.topics import MAX
from schemas.errors import ConfigError, DeliveryError, IndexInUse, Reason, Unreachable
from schemas.settings import KafkaSettings, Settings, load

_PROBE: Final = "check"
"""End of a transactional id that no replica has."""


def check_kafka(settings: Settings, _: InProcess) -> Iterator[Finding]:
    """The findings about the broker, and about all that the flows need of it."""
    section = settings.kafka
    try:
        described = topics.describe_topics(section)
    except Unreachable as error:
        yield Finding("error", "kafka", error.what, f"{error.cure[0].upper()}{error.cure[1:]}.")
        return
    except DeliveryError as error:
        remedy = "Correct the section kafka: bootstrap_servers, security_protocol, tls and sasl."
        yield Finding("error", "kafka", str(error), remedy)
        return
    yield Finding("ok", "kafka", f"{section.bootstrap_servers} answers")
    yield from _schema_registry(section)
    missing_features = lacking(section, settings.delivery.mode)
    for each in missing_features:
        what = f"the broker has no {each.name}: {each.follows}"
        yield Finding("error" if each.needed else "warning", "kafka features", what, each.remedy)
    if missing := [name for name, config in described.items() if config is None]:
        what = f"topics that do not exist: {', '.join(missing)}"
        yield Finding("error", "kafka topics", what, "Run rankstream topics, or correct kafka.topics.")
    else:
        yield Finding("ok", "kafka topics", "all of them are there")
    yield from _sizes(section, described)
    yield from _compaction(section, described)
    queries, documents = (
        name if described[name] is not None else None for name in (section.topics.queries, section.topics.documents)
    )
    describes = MEMBERS not in missing_features
    yield _group(section, queries, "rankstream run", "error", describes=describes)
    # The credentials of the search flow need not be those of the indexing flow.
    yield _group(indexing_kafka(settings), documents, "rankstream index", "warning", describes=describes)
    if TRANSACTIONS not in missing_features:
        yield from _transactions(settings)


def _schema_registry(section: KafkaSettings) -> Iterator[Finding]:
    if section.schema_registry.url is None:
        return

    async def ask() -> str:
        async with aclosing(SchemaRegistry(section.schema_registry)) as registry:
            await registry.check()
        return registry.url

    try:
        url = asyncio.run(ask())
    except (ConfigError, DeliveryError) as error:
        remedy = "Start the registry, or correct the section kafka.schema_registry. Until then events in Avro wait."
        yield Finding("error", "kafka schema registry", str(error), remedy)
    else:
        yield Finding("ok", "kafka schema registry", f"{url} answers")


Described = Mapping[str, Mapping[str, str] | None]


def _sizes(section: KafkaSettings, described: Described) -> Iterator[Finding]:
    letters = section.topics.dead_letters
    room = described.get(letters)
    for name in (section.topics.queries, section.topics.documents):
        config = described.get(name)
        if not room or not config:
            continue
        wanted, largest = topics.room_wanted(topics.max_of(config)), topics.max_of(room)
        if largest < wanted:
            what = f"{MAX} is {largest}: a dead letter of the largest message of {name} is kept without the message"
            yield Finding("warning", f"kafka {letters}", what, f"Set {MAX} of {letters} to {wanted} or more.")


def _compaction(section: KafkaSettings, described: Described) -> Iterator[Finding]:
    for role, name in (("watermarks", section.topics.watermarks), ("rules", section.topics.rules)):
        config = described.get(name) if name is not None else None
        if config and "compact" not in config.get("cleanup.policy", "compact"):
            follows = f"{role} are lost after the retention, and a replica reads all of them at its start"
            remedy = f"Set cleanup.policy of {name} to compact."
            yield Finding("warning", f"kafka {name}", f"it is not compacted: {follows}", remedy)


def _group(section: KafkaSettings, topic: str | None, command: str, refused: Level, *, describes: bool) -> Finding:
    subject = f"kafka group {section.group_id}"
    allow = f"Allow rankstream to read the group {section.group_id} and its topic, or correct kafka.group_id."
    try:
        group = describe_group(section) if describes else None
        lag = find_lag(kafka_client(section), topic) if topic is not None else 0
    except DeliveryError as error:
        return Finding(refused, subject, f"{command} cannot join it: {error}", allow)
    if group is not None and not group.readable:
        return Finding(refused, subject, f"{command} cannot join it: the broker lets it be described only", allow)
    members = "members not known" if group is None else f"{group.members} member{'s' if group.members != 1 else ''}"
    if topic is None:
        return Finding("ok", subject, members)
    what = f"{members}, lag {lag} on {topic}"
    if lag and group is not None and not group.members:
        return Finding("warning", subject, f"{what}: nobody reads it", f"Start {command}.")
    return Finding("ok", subject, what)


def _transactions(settings: Settings) -> Iterator[Finding]:
    section, delivery = settings.kafka, settings.delivery
    if delivery.mode != "exactly_once":
        what = "delivery.mode is at_least_once: after a crash some queries are answered twice"
        yield Finding("warning", "kafka transactions", what, "Set delivery.mode to exactly_once where that hurts.")
        return
    transactional_id = f"{section.group_id}-{_PROBE}"
    try:
        kafka_client(section).transactional_producer(transactional_id, topics.DEFAULT_MAX).close()
    except DeliveryError as error:
        remedy = f"Allow the transactional ids {section.group_id}-*, or set delivery.mode to at_least_once."
        yield Finding("error", "kafka transactions", f"{transactional_id} cannot begin: {error}", remedy)
    else:
        yield Finding("ok", "kafka transactions", "a transactional producer can be initialised")


_TIMEOUT: Final = 10.0

_OUTAGES: Final = frozenset({Reason.UNAVAILABLE, Reason.TIMEOUT, Reason.BAD_RESPONSE})

_OWNERS: Final = {
    "metadata": "the collection is rankstream's own",
    "configuration": "the collection is rankstream's own, by qdrant.owned",
}

_DENIED: Final = "Correct qdrant.api_key, or give the key access to this collection by the name in the configuration."
_UNREADABLE: Final = "Correct qdrant.url, or see the log of Qdrant."

_FITTING: Final = {
    VECTORS | {"contexts"}: "the vectors fit the configuration",
    INDEXES | {"missing index"}: "the indexes are there",
}
"""Kinds of gaps, and what is so where a collection has none of them."""


def check_qdrant(settings: Settings, in_process: InProcess) -> Iterator[Finding]:
    """The findings about Qdrant and each configured collection."""
    try:
        surveyed = survey_collections(settings, in_process, _TIMEOUT)
    except IndexInUse:
        of_flow = f"{settings.qdrant.path} is open in another process, as while `rankstream run --with-indexing` runs"
        yield Finding("ok", "qdrant", f"not looked at: {of_flow}, so its collections, vectors and indexes are not seen")
        return
    except (ConfigError, TimeoutError) as error:
        remedy = f"Correct {'the section qdrant' if settings.qdrant.url else 'qdrant.path'}."
        yield Finding("error", "qdrant", str(error) or "no answer in time", remedy)
        return
    outages = [each.error for each in surveyed if each.error is not None and each.error.reason in _OUTAGES]
    if len(outages) == len(surveyed):
        remedy = "Start Qdrant, or correct qdrant.url, which names its HTTP port (6333), and what the network allows."
        yield Finding("error", "qdrant", f"no answer: {outages[0]}", remedy)
        return
    yield Finding("ok", "qdrant", f"{settings.qdrant.url or f'the engine on {settings.qdrant.path}'} answers")
    for gap in find_server_gaps(read_version(settings, in_process, _TIMEOUT)):
        yield _finding("qdrant", gap)
    for each in surveyed:
        subject = f"qdrant {each.name}"
        if each.error is not None:
            denied = each.error.reason is Reason.UNAUTHORIZED
            yield Finding("error", subject, str(each.error), _DENIED if denied else _UNREADABLE)
        else:
            yield from _collection(subject, each)


def _collection(subject: str, surveyed: Surveyed) -> Iterator[Finding]:
    if surveyed.info is not None:
        alias = f", by its alias {surveyed.name}" if surveyed.physical != surveyed.name else ""
        points = f"with {surveyed.info.points} points"
        yield Finding("ok", subject, f"the collection {surveyed.physical} is there{alias}, {points}")
    if surveyed.owner is not None:
        yield Finding("ok", subject, _OWNERS[surveyed.owner])
    for gap in merge_gaps(each for each in surveyed.gaps if each.kind != "unread"):
        yield _finding(subject, gap)
    stopping = [each.what for each in surveyed.gaps if each.stops and each.kind in VECTORS - {"dense"}]
    if stopping:
        yield Finding("error", subject, f"{STOPPED}: {'; '.join(stopping)}", CORRECT)
    there = {each.kind for each in surveyed.gaps}
    for kinds, what in _FITTING.items():
        if surveyed.info is not None and not kinds & there:
            yield Finding("ok", subject, what)


def _finding(subject: str, gap: Gap) -> Finding:
    if gap.severity == Severity.NONE:
        return Finding("ok", subject, str(gap))
    return Finding("error" if gap.severity >= Severity.ERROR else "warning", subject, str(gap), gap.cure)


CheckPart = StrEnum("CheckPart", ["kafka", "qdrant", "embedder", "sparse_encoder", "reranker", "chat", "clock"])
"""Parts that can be checked alone."""

CHECKS: Final[Mapping[CheckPart, PartCheck]] = {
    CheckPart.kafka: check_kafka,
    CheckPart.qdrant: check_qdrant,
    CheckPart.embedder: check_embedder,
    CheckPart.sparse_encoder: check_sparse_encoder,
    CheckPart.reranker: check_reranker,
    CheckPart.chat: check_chat,
    CheckPart.clock: check_clocks,
}


def check(
    config: Config = None,
    parts: Annotated[
        list[CheckPart] | None, typer.Option("--part", help="Check this part alone; may be repeated. Default: all.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check Kafka, Qdrant's collections, the models and the clocks. Exit code 1 if there is an error.

    Each line is ok, a warning or an error, and says what to do. Nothing is changed.
    """
    settings = load(config)
    # Without the secret that an experiment needs, the search flow does not start.
    query.tokens(settings)
    # Each finding says what they log, and what is logged of a backend that fails.
    quiet = {"log_level": "error"} if settings.telemetry.log_level != "debug" else {}
    logs.configure(settings.telemetry.model_copy(update=quiet), clients=False)
    failed = False
    if settings.unread_decay:
        what = f"no profile's recipe has the stage decay: {', '.join(settings.unread_decay)} are not read"
        show(Finding("warning", "decay", what, "Give a profile such a recipe, or remove the tiers."), as_json=as_json)
    with closing(InProcess(settings)) as in_process:
        for part in parts or CheckPart:
            for finding in CHECKS[part](settings, in_process):
                show(finding, as_json=as_json)
                failed = failed or finding.level == "error"
    raise typer.Exit(1 if failed else 0)
