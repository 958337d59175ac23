"""`rankstream init`: a look at somebody's documents, of a file, a topic or a collection, becomes a configuration."""

import json
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, Self

import orjson
import typer
from rich.console import Console

from flows.assembly.clients import InProcess
from flows.assembly.collections import open_client
from flows.assembly.delivery import connect
from flows.cli.config import yaml_lines
from flows.cli.ingestion import print_skipped, read_topic
from flows.cli.output import STDIN, folder_or_stdin, out, say, stderr
from flows.cli.records import Record, Records
from operators.clients.qdrant.answers import CollectionInfo
from operators.clients.qdrant.client import QdrantClient
from operators.collections.notes import OURS
from operators.delivery.client import ConsumerRecord
from operators.mapping.collection import Layout, map_collection
from operators.mapping.inference import ROLES, DocumentMapping, infer
from operators.mapping.profile import MOST
from operators.wire.message import Message, Origin
from operators.wire.parsing import parse_message
from schemas.document import MAX_DOCUMENT_PARTS
from schemas.errors import BackendError, ConfigError, DeadLetterClass, InputError
from schemas.fields import leaves, merge_objects
from schemas.settings import Settings, load
from schemas.settings.reading import EffectiveValue
from schemas.texts import printable

_PAGE: Final = 250
_TIMEOUT: Final = 60.0
"""Seconds for a page of points, or for a record to come."""

_VECTORS: Final = 16
"""Points whose sparse vectors are looked at."""

SERVERS: Final = "localhost:9092"
_FILE: Final[Mapping[str, Any]] = {
    "kafka": {"bootstrap_servers": SERVERS},
    "documents": {},
    "qdrant": {"path": "./index", "vectors": {"fuzzy": "fuzzy"}},
}
"""Sections of documents that come from a file."""


@dataclass(frozen=True)
class Sample:
    """The first documents of a source, in words its name and form; `skipped` of `total` are none, with the reasons.

    `plain`: texts are plain, whatever they look like. `sections` of the configuration say where the documents are.
    """

    name: str
    form: str
    documents: Sequence[dict[str, Any]]
    skipped: Sequence[str]
    total: int
    plain: bool = False
    sections: Mapping[str, Any] = field(default_factory=lambda: _FILE)
    layout: Layout | None = None

    @classmethod
    def of_file(cls, records: Records, name: str) -> Self:
        """The first documents of a file or folder; all of it is looked through for what is none."""
        documents = [document for _, document in islice(records.usable(), MOST)]
        wrong, total = records.survey()
        return cls(name, records.form, documents, [*map(str, wrong)], total, plain=records.path.is_dir())

    @classmethod
    def of_topic(cls, topic: str, servers: str) -> Self:
        """The first documents of each partition. Raises ConfigError and DeliveryError."""
        place = {"bootstrap_servers": servers, "topics": {"documents": topic}}
        settings = load(None, {"kafka": place}, index=Path())
        records, most = read_topic(connect(settings.kafka), topic, _TIMEOUT, MOST), settings.limits.max_document_bytes
        found = [_read_record(each, most) for each in records if each.value is not None]
        skipped = [f"{place}: {each}" for place, each in found if isinstance(each, InputError)]
        documents = [each for _, each in found if not isinstance(each, InputError)]
        return cls(topic, "a topic", documents, skipped, len(found), sections={**_FILE, "kafka": place})

    @classmethod
    def of_collection(cls, name: str, url: str) -> Self:
        """The first points of a collection. Raises ConfigError and BackendError."""
        place = {"url": url, "destinations": {"default": name}}
        settings = load(None, {"qdrant": place})
        with closing(InProcess(settings)) as in_process:
            info, payloads, layout = _read_collection(settings, in_process, name)
        if OURS in info.metadata:
            raise ConfigError(f"{name}: rankstream's own: look at its documents, in a file or the documents topic")
        sections = {"kafka": {"bootstrap_servers": SERVERS}, "qdrant": place}
        further = {"embedder": {"kind": "none"}, "rerank": {"kind": "none"}}
        form = f"a collection of {info.points} points"
        return cls(name, form, payloads, (), len(payloads), sections={**sections, **further}, layout=layout)

    def infer(self, given: Mapping[str, str] | None = None) -> DocumentMapping:
        """The mapping; `given` has the columns of roles, "" for none. Raises InputError without a document."""
        if not self.documents:
            why = f": {self.skipped[0]}" if self.skipped else ""
            raise InputError(DeadLetterClass.INVALID, f"{self.name}: there is no document in it{why}")
        layout, given = self.layout, given or {}
        if layout is not None and len(layout.ids) == 1:
            given = {**given, "id": ""}
        mapping = infer(self.documents, time.time(), markup=not self.plain, given=given, stored=layout is not None)
        return mapping if layout is None else map_collection(mapping, layout)


def _read_record(record: ConsumerRecord, max_bytes: int) -> Record:
    """A record as the indexing flow reads it; one without a value deletes, and is no document."""
    place = f"partition {record.partition.partition}, offset {record.offset}"
    origin = Origin(*record.partition, record.offset, 0)
    stamps = record.timestamp, record.timestamp, 0.0
    try:
        message = Message(origin, record.key, record.value, record.headers or (), *stamps)
        return place, parse_message(message, max_bytes, MAX_DOCUMENT_PARTS).event
    except InputError as error:
        return place, error


def _read_collection(
    settings: Settings, in_process: InProcess, name: str
) -> tuple[CollectionInfo, Sequence[dict[str, Any]], Layout]:
    async def read(client: QdrantClient) -> tuple[CollectionInfo, Sequence[dict[str, Any]], Layout]:
        client = client.without_retries()
        scroll = partial(client.scroll, name, timeout=_TIMEOUT)
        info, found = await client.collection_info(name, timeout=_TIMEOUT), await scroll(limit=_PAGE)
        records = list(found.records)
        while found.next_offset is not None and len(records) < MOST:
            found = await scroll(limit=_PAGE, offset=found.next_offset)
            records += found.records
        sparse = {}
        for vector in info.sparse_vectors:
            some = await scroll(limit=_VECTORS, fields=False, vector=vector)
            numbers = (number for each in some.records if each.vector for number in each.vector["indices"])
            sparse[vector] = max(numbers, default=0)
        ids = frozenset("integer" if each.id.isdecimal() else "uuid" for each in records)
        indexes = {path: index.get("data_type", "") for path, index in info.indexes.items()}
        layout = Layout(name, info.points, ids, info.vectors, sparse, indexes)
        return info, [_open_strings(each.payload) for each in records], layout

    with open_client(settings, in_process) as ask:
        try:
            return ask(read, 2 * _TIMEOUT)
        except BackendError as error:
            if error.status != 404:
                raise
            raise ConfigError(f"--collection: {name}: {settings.qdrant.url} has no collection of this name") from None


def _open_strings(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload with the fields of objects that are written as JSON in strings, by their paths: `name#field`."""
    opened: dict[str, Any] = {}
    for name, value in payload.items():
        inner = None
        if isinstance(value, str) and value.startswith("{"):
            with suppress(orjson.JSONDecodeError):
                inner = orjson.loads(value)
        opened |= {f"{name}#{each}": inner[each] for each in inner} if isinstance(inner, dict) else {name: value}
    return opened


_COLUMN: Final = 11
_WIDTH: Final = 110
_LISTED: Final = 6
"""Values that a line names."""


def init(
    documents: Annotated[
        Path | None,
        typer.Argument(
            callback=folder_or_stdin,
            help="File of documents (JSON Lines, JSON or CSV), folder of Markdown or HTML, or - for standard input.",
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(help="Topic of documents or Debezium's rows, whose first records are looked at."),
    ] = None,
    bootstrap_servers: Annotated[
        str,
        typer.Option(
            help="host:port of the topic's brokers, comma-separated. Credentials: RANKSTREAM_KAFKA__SASL__USERNAME …"
        ),
    ] = SERVERS,
    collection: Annotated[
        str | None,
        typer.Option(help="Qdrant collection that another tool filled; it is only read."),
    ] = None,
    qdrant_url: Annotated[
        str, typer.Option(help="Address of the collection's server. Key: RANKSTREAM_QDRANT__API_KEY.")
    ] = "http://localhost:6333",
    write: Annotated[
        Path, typer.Option(dir_okay=False, allow_dash=True, help="File for the configuration; - prints it.")
    ] = Path("rankstream.yaml"),
    interactive: Annotated[bool, typer.Option("--interactive", help="Ask which field has each role.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
) -> None:
    """Look at documents of a file, a topic or a collection, decide which field is what, and write a configuration.

    Nothing is indexed.
    """
    if write != STDIN and write.exists() and not force:
        raise ConfigError(f"{write} exists: --force replaces it, --write names another file")
    if sum(each is not None for each in (documents, topic, collection)) != 1:
        raise typer.BadParameter("one source is expected: a file or folder, --topic or --collection")
    if topic is not None:
        sample = Sample.of_topic(topic, bootstrap_servers)
    elif collection is not None:
        sample = Sample.of_collection(collection, qdrant_url)
    else:
        assert documents is not None
        with Records.open(documents) as records:
            sample = Sample.of_file(records, records.path.name)
    mapping = sample.infer()
    if interactive:
        mapping = sample.infer(_ask_roles(mapping))
    print_mapping(mapping, sample, stderr)
    print_skipped(sample.skipped, sample.total, stderr)
    content = write_yaml(mapping, sample)
    if write == STDIN:
        out.out(content, end="")
    else:
        write.write_text(content, encoding="utf-8")
        say(stderr, f"written: {write}")


def _ask_roles(mapping: DocumentMapping) -> dict[str, str]:
    """The field of each role, as the user says."""
    columns = [each.column for each in mapping.profiles]
    say(stderr, f"fields: {', '.join(columns)}")
    answers: dict[str, str] = {}
    for role in ROLES:
        chosen = mapping.roles[role].column if role in mapping.roles else "-"
        while (said := typer.prompt(f"{role} (- for none)", chosen, err=True)) not in [*columns, "-"]:
            say(stderr, f"no field is called {said}", "red")
        answers[role] = "" if said == "-" else said
    return answers


def print_mapping(mapping: DocumentMapping, sample: Sample, console: Console) -> None:
    """Say what was chosen, a line for each part."""
    sampled = f"the first {mapping.total}" if mapping.total >= MOST else str(mapping.total)
    say(console, f"{sample.name}: {sample.form}, {sampled} documents")
    for part, chosen in [*_describe(mapping), *mapping.remarks]:
        say(console, f"  {part:{_COLUMN}} {chosen}")


def _describe(mapping: DocumentMapping) -> Iterator[tuple[str, str]]:
    """Each part of the mapping as its name and what was chosen."""
    known = {"lang": mapping.languages, "namespace": mapping.namespaces}
    for role, each in mapping.roles.items():
        remark = "" if each.presence > 0.995 else f" (in {each.presence:.0%} of the documents)"
        if role == "id" and mapping.documents.get("ids") == "integer":
            remark = " (whole numbers)"
        yield role, f"{each.column}: {_counts(known[role])}" if role in known else f"{each.column}{remark}"
    if "lang" not in mapping.roles and mapping.languages:
        yield "languages", _counts(mapping.languages)
    column, said = {each.name: each.column for each in mapping.profiles}, mapping.documents
    weights = mapping.qdrant.get("search_fields", {})
    forms = {
        name: form if isinstance(form, str) else " or ".join(form) for name, form in said.get("formats", {}).items()
    }
    for markup in ("html", "markdown"):
        for name in said.get(markup, {}).get("fields", ()):
            forms[name] = f"{forms[name]} or {markup}" if name in forms else markup
    parts = {
        "searched": [f"{column.get(name, name)} {weight:g}" for name, weight in weights.items()],
        "models read": [column.get(name, name) for name in mapping.qdrant.get("read_fields") or ()],
        "filtered": [f"{column.get(name, name)} ({kind})" for name, kind in mapping.qdrant.get("indexes", {}).items()],
        "read as": [f"{column[name]} ({form})" for name, form in forms.items()],
        "called": [f"{each} {name}" for name, each in said.get("columns", {}).items() if name not in ROLES],
    }
    yield from ((part, ", ".join(chosen)) for part, chosen in parts.items() if chosen)
    if context := mapping.qdrant.get("context"):
        group = f", within {column.get(context['group_by'])}" if "group_by" in context else ""
        yield "neighbours", f"by {column[context['order_by']]}{group}: a document is searched with these"


def _counts(found: Sequence[tuple[str, int]]) -> str:
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return ", ".join(f"{name} {count}" for name, count in found[:_LISTED]) + more


def write_yaml(mapping: DocumentMapping, sample: Sample) -> str:
    """The configuration of the documents of a sample, with comments."""
    notes = _notes(mapping) | (_OTHERS if sample.layout is not None else {})
    namespace = {"namespace": mapping.namespaces[0][0]} if mapping.namespaces else {}
    given = merge_objects(sample.sections, merge_objects(mapping.settings(), {"defaults": namespace}))
    sections = {name: section for name, section in given.items() if section}
    lines = _comment(
        f"Made by `rankstream init` from {mapping.total} documents of {sample.name} ({sample.form}). Change what is"
        " wrong: all keys are in docs/reference/configuration.md, and `rankstream check` says if they fit."
    )
    above: dict[tuple[str, ...], list[str]] = {(name,): [""] for name in sections}
    above |= {(name, key): _comment(notes[key]) for name in sections for key in sections[name] if key in notes}
    lines += yaml_lines((EffectiveValue(*each, "default", False) for each in leaves(sections)), above)
    for part, remark in mapping.remarks:
        lines += ["", *_comment(f"{part}: {remark}")]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> list[str]:
    begin, words = "# ", printable(" ".join(text.split()))
    return textwrap.wrap(words, _WIDTH, initial_indent=begin, subsequent_indent=begin, break_long_words=False)


def _notes(mapping: DocumentMapping) -> dict[str, str]:
    """Key -> the comment above it."""
    formatted = [each for each in mapping.profiles if each.name in mapping.documents.get("formats", {})]
    examples = [f"{each.column} {json.dumps(each.values[0], ensure_ascii=False)[:40]}" for each in formatted[:3]]
    several = "lang" not in mapping.roles and len(mapping.languages) > 1
    own = " A field lang with that of each document finds more: docs/how-to/languages.md." if several else ""
    folded = mapping.qdrant.get("bm25", {}).get("accents") == "fold"
    accents = " accents: fold: `cafe` finds `café`; some texts have accents." if folded else ""
    marked = "is searched and shown as text. keep_original: true keeps it, too."
    return {
        "envelope": "Rows of a database, as Debezium writes them.",
        "columns": "Field in the index: name in the documents. Queries, results and errors have the second.",
        "ids": "integer: results have ids as whole numbers, too; content: a digest of it is the"
        " id of a document that has none.",
        "formats": f"Forms of values, such as {', '.join(examples)}.",
        "html": f"HTML {marked}",
        "markdown": f"Markdown {marked}",
        "path": "Qdrant's engine in this process; for a server: url: http://localhost:6333",
        "vectors": "Finds misspelt words.",
        "search_fields": "Fields that words are searched in, and their weights. Identifiers, found by their shape, and"
        " titles count twice. They are part of the index.",
        "read_fields": "Fields that the models read. Documents that differ in one of them, such as the sizes of an"
        " article, are no duplicates.",
        "indexes": "Fields to filter and sort by. Results can be grouped by each keyword, integer and bool.",
        "context": "Documents are messages, or other parts that follow one another: each is searched with its"
        " neighbours. They are part of the index.",
        "recipe": "conversation ranks a message with those around it, and documents compares long texts. The recipe"
        " hybrid takes less time.",
        "bm25": f"Stems and stop words. Languages: {_counts(mapping.languages) or 'not recognised'}.{own}{accents}",
        "namespace": f"A query searches one namespace: {_counts(mapping.namespaces)}. Queries that name none search"
        " this one.",
    }


_OTHERS: Final = {
    "dimension": "Length of the vectors.",
    "vectors": "The collection's names of its vectors; null: there is none of this kind.",
    "fields": "Field in queries and results: its path in the payloads.",
    "ids": "The ids of documents are those of the points.",
    "namespaces": "none: all documents are in defaults.namespace.",
    "indexes": "Indexes that the collection has.",
}
"""Comments of a collection that another tool filled."""
