"""Indexes of Qdrant's engine in the process, of several sizes, each the beginning of the next one."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.corpus import documents
from bench.rig import Rig
from bench.rounds import Progress
from bench.subject import Launch, Subject, Surroundings, launch

SLOW: Final = 60.0
"""Seconds for a call: an answer that is late costs as much as one in time, and a failure would cost less."""


def index_path(directory: Path, size: int) -> Path:
    """The directory of the index of so many documents."""
    return directory / str(size)


def engine_settings(around: Surroundings, path: Path) -> dict[str, Any]:
    """The settings of flows on the engine in the process, with vectors of the stub embedder."""
    return {
        "qdrant": {"path": str(path), "timeout": SLOW, "vectors": {"tokens": None}},
        "embedder": {"kind": "openai", "url": around.embed, "model": "stub"},
    }


def write_indexes(rig: Rig, client: str, sizes: Sequence[int], directory: Path, progress: Progress) -> None:
    """Write the corpus by the indexing flow, and copy its index at each of the ascending sizes.

    Raises BenchError if the flow ends, or does not go on.
    """
    growing = directory / "growing"

    def start(around: Surroundings) -> Launch:
        return launch(client, around, engine_settings(around, growing), command="index")

    written = 0
    for size in sizes:
        progress(f"indexing documents {written + 1} to {size}")
        # The flow ends before the copy: it writes the log to the index then.
        with rig.indexing(Subject(client, start)) as indexing:
            indexing.measure(documents(written, size - written))
        shutil.copytree(growing, index_path(directory, size))
        written = size
    shutil.rmtree(growing)
