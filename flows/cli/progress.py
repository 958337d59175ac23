"""Indexing with a progress bar, once: an index that holds the corpus already is left as it is."""

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from flows.assembly.kafka_client import kafka_client
from flows.cli.ingestion import Ingested, Numbered, ingest, numbered_jsonl
from flows.cli.output import say
from flows.process.embedded import Embedded
from operators.delivery.broker import reach
from operators.delivery.kafka_python import EMBEDDED, KAFKA, Dialect
from schemas.errors import DeadLetterClass, InputError
from schemas.printable import printable
from schemas.settings import KafkaSettings

Corpus = Callable[[], Iterable[Mapping[str, Any]]]

SHOWN: Final = 10
"""How many rejected documents are told."""

_TIMEOUT: Final = 120.0
_EMBEDDED_TIMEOUT: Final = 900.0
"""Seconds: the model shares a machine that may be small, and busy with other work."""

_QUIET: Final = 10.0
_MARK: Final = "indexed"


def fed(
    settings: KafkaSettings,
    dialect: Dialect,
    name: str,
    documents: Iterable[Numbered],
    total: int,
    console: Console,
    timeout: float,
) -> Ingested:
    """Feed documents with a progress bar on a terminal, else with a line now and then; what became of them.

    Raises FatalDelivery if nothing happens to them for `timeout` seconds.
    """
    told = time.monotonic()
    columns = (
        TextColumn("indexing {task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(printable(name), total=total)

        def moved(done: int, produced: int) -> None:
            nonlocal told
            if not console.is_terminal and time.monotonic() - told > _QUIET:
                told = time.monotonic()
                say(console, f"indexing {name}: {done} of {max(total, produced)}")
            bar.update(task, completed=done, total=max(total, produced))

        return ingest(kafka_client(settings.indexing, dialect), settings.topics, documents, moved, timeout)


def index_file(settings: KafkaSettings, path: Path, console: Console) -> Ingested:
    """Produce a JSON Lines file of document events and wait until the indexing flow has dealt with all of them.

    Raises InputError naming the line that isn't an object, and DeliveryError.
    """
    try:
        total = sum(1 for _ in numbered_jsonl(path))
    except InputError as error:
        raise InputError(error.kind, f"{error}; nothing was sent") from None
    reach(settings.bootstrap_servers)
    return fed(settings, KAFKA, path.name, numbered_jsonl(path), total, console, _TIMEOUT)


def indexed(running: Embedded, name: str, corpus: Corpus, directory: Path, console: Console) -> None:
    """Index `corpus` into the embedded engine, unless `directory` has it already under the same configuration.

    Raises InputError if a document is rejected: figures about the others alone would mislead.
    """
    digest = hashlib.sha256(running.settings.index_hash().encode())
    total = 0
    for document in corpus():
        digest.update(orjson.dumps(document))
        total += 1
    mark = directory / _MARK
    if mark.exists() and mark.read_text(encoding="ascii") == digest.hexdigest():
        return
    with running.indexing():
        documents, kafka = enumerate(corpus(), 1), running.settings.kafka
        ingested = fed(kafka, EMBEDDED, name, documents, total, console, _EMBEDDED_TIMEOUT)
    if ingested.rejected:
        for each in ingested.rejected[1:SHOWN]:
            say(console, str(each))
        rejected = f"{name}: {len(ingested.rejected)} of {ingested.sent} documents were rejected"
        raise InputError(DeadLetterClass.INVALID, f"{rejected}, first {ingested.rejected[0]}")
    if not console.is_terminal:
        say(console, f"documents of {name} indexed: {ingested.applied}")
    mark.write_text(digest.hexdigest(), encoding="ascii")
