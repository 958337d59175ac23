"""The circle of an experiment on the demo's documents, in one process: an interleaved experiment, the clicks of a
simulated crowd, the verdict, judgements from the clicks, and a recipe that is tuned on these.

Users know some of the documents, and ask with words of their texts. The experiment asks if the vector leg alone would
do: where documents are found by their own words, it does not.
"""

import random
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson
from rich.console import Console

from bench.crowd import Wish, visit
from flows.cli.demo import NAMESPACE, docstrings
from flows.cli.experiment import describe_report, make_report, read_experiment, votes_table, write_judgements
from flows.cli.ingestion import index_once
from flows.process.embedded import Embedded, embedded_settings, start_with_settings
from flows.process.replica import feedback_replica
from operators.experiments.sequential import Standing
from schemas.settings import Settings

EXPERIMENT: Final = "vector-alone"
OWN: Final = "hybrid"
"""The recipe that is compared with the vector leg alone, and tuned."""

WANTED: Final = 60
"""Documents that users look for."""

_WORDS: Final = 4
"""Words of a query."""

_LEAST: Final = 5
"""Looks at a document that is judged."""

_WINDOW: Final = 10
"""Seconds in which a query's clicks count."""

_CLOSED: Final = 90.0
"""Seconds behind the last click by which each window has closed."""

_SEED: Final = 1


def settings_of(secret: Path) -> Settings:
    """The demo's settings with the experiment; its tokens are signed by a secret in this file."""
    secret.write_text(secrets.token_hex())
    topics = {name: name for name in ("experiments", "feedback", "preferences")}
    about = {"recipe": "vector", "share": 1, "mode": "interleave", "namespaces": [NAMESPACE], "until": {}}
    own = {"kafka": {"topics": topics}, "cursor": {"signing_secret_file": str(secret)}, "feedback": {"window": _WINDOW}}
    return embedded_settings(Path(), {**own, "experiments": {EXPERIMENT: about}})


def seek(documents: Sequence[Mapping[str, Any]], wanted: int, users: int) -> Iterator[Wish]:
    """The wishes of users who look for documents by some words of their beginnings."""
    chance = random.Random(_SEED)
    worded = [(each, re.findall(r"[a-z]{4,}", each["text"][:300])) for each in documents]
    known = [(each, words) for each, words in worded if len(words) > _WORDS]
    for number, (document, words) in enumerate(chance.sample(known, wanted)):
        event = {"text": " ".join(chance.sample(words, _WORDS)), "namespace": document["namespace"], "recipe": OWN}
        for user in range(users):
            yield {"query_id": f"crowd-{number}-{user}", **event}, {document["id"]: 2}


def report_on(running: Embedded, wishes: Sequence[Wish], files: tuple[Path, Path], console: Console) -> dict[str, Any]:
    """The verdict of the crowd, and the files of queries and judgements from its clicks. Raises RankstreamError."""
    with running.searching(), running.running(feedback_replica):
        clicked = visit(running.kafka, running.settings.kafka.topics, wishes, _SEED)
        console.print(f"{len(wishes)} queries asked, {len(clicked)} with a click; their windows close in a minute")
        until = time.monotonic() + _CLOSED
        heard, comparisons = read_experiment(running.settings, EXPERIMENT)
        while len(heard) < len(clicked) and time.monotonic() < until:
            time.sleep(1.0)
            heard, comparisons = read_experiment(running.settings, EXPERIMENT)
    report = make_report(EXPERIMENT, running.settings.experiments[EXPERIMENT].until, heard, comparisons)
    console.print(*describe_report(report), sep="\n", soft_wrap=True)
    console.print(votes_table(report))
    console.print(write_judgements(heard, comparisons, *files, _LEAST))
    return report


def walk(
    cache: Path,
    output: Path,
    users: int,
    console: Console,
    documents: Sequence[Mapping[str, Any]] | None = None,
    wanted: int = WANTED,
) -> int:
    """Walk the circle on the demo's documents, or others; the exit code, that of `rankstream tune`.

    Raises RankstreamError, and OSError if `output` exists.
    """
    output.mkdir(parents=True)
    every = [*docstrings()] if documents is None else documents
    with tempfile.TemporaryDirectory() as scratch:
        settings = settings_of(Path(scratch) / "secret")
        index = cache / f"crowd-{settings.index_hash()[:16]}"
        index.mkdir(parents=True, exist_ok=True)
        config, queries, qrels = (output / name for name in ("rankstream.yaml", "clicked.jsonl", "clicked.txt"))
        with start_with_settings(settings, index) as running:
            version = f"{sys.version}{len(every)}"
            index_once(running, "the documents", lambda: enumerate(every, 1), version, index, console)
            report = report_on(running, [*seek(every, wanted, users)], (queries, qrels), console)
    vectors = settings.qdrant.vectors.model_dump(mode="json")
    # JSON is YAML.
    config.write_bytes(orjson.dumps({"qdrant": {"path": str(index), "vectors": vectors}}))
    if report["standing"] is Standing.RUNNING:
        console.print("no winner yet: more --users would find one")
    files = ("--config", config, "--queries", queries, "--qrels", qrels, "--write", output / "tuned.yaml")
    command = ["tune", "score.weights.keyword=0.2,0.5,1", *map(str, files), "--recipe", OWN]
    console.print(f"rankstream {' '.join(command)}", soft_wrap=True)
    return subprocess.run([sys.executable, "-m", "flows.cli", *command]).returncode
