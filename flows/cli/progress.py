"""Indexing with a progress bar, once: an index that holds the corpus already is left as it is."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from flows.assembly.kafka_client import kafka_client
from flows.cli.ingestion import ingest, read_jsonl
from flows.process.embedded import Embedded
from operators.delivery.kafka_python import EMBEDDED, KAFKA, Dialect
from schemas.settings import KafkaSettings

Corpus = Callable[[], Iterable[Mapping[str, Any]]]

_TIMEOUT: Final = 120.0
_MARK: Final = "indexed"


def fed(
    settings: KafkaSettings,
    dialect: Dialect,
    name: str,
    documents: Iterable[Mapping[str, Any]],
    total: int | None,
    console: Console,
) -> int:
    """Feed documents with a progress bar on a terminal, and a line at the end elsewhere; their number."""
    columns = (TextColumn("indexing {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=total)

        def moved(applied: int, produced: int) -> None:
            bar.update(task, completed=applied, total=max(total or 0, produced))

        client = kafka_client(settings.indexing, dialect)
        count = ingest(client, settings.topics.documents, documents, moved, _TIMEOUT)
    if not console.is_terminal:
        console.print(f"indexed {count} documents of {name}")
    return count


def index_file(settings: KafkaSettings, path: Path, console: Console) -> int:
    """Produce a JSON Lines file of document events and wait until the indexing flow has applied it; their number.

    Raises InputError naming the line that isn't an object, and DeliveryError.
    """
    total = sum(1 for _ in read_jsonl(path))
    return fed(settings, KAFKA, path.name, read_jsonl(path), total, console)


def indexed(running: Embedded, name: str, corpus: Corpus, directory: Path, console: Console) -> None:
    """Index `corpus` into the embedded engine, unless `directory` has it already under the same configuration."""
    digest = hashlib.sha256(running.settings.index_hash().encode())
    total = 0
    for document in corpus():
        digest.update(orjson.dumps(document))
        total += 1
    mark = directory / _MARK
    if mark.exists() and mark.read_text(encoding="ascii") == digest.hexdigest():
        return
    with running.indexing():
        fed(running.settings.kafka, EMBEDDED, name, corpus(), total, console)
    mark.write_text(digest.hexdigest(), encoding="ascii")
