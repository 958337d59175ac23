"""The directory in which tests write: in memory where the machine has room, since tests sync many small files."""

import os
import tempfile
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")

ROOM: Final = 10 << 30
"""The bytes that must be free: a whole run writes half of that, and its processes need memory, too. Containers often
have no more than some megabytes.
"""


def in_memory(directory: Path = MEMORY, room: int = ROOM) -> Path | None:
    """`directory`, if it has room and programs there can run; else None."""
    try:
        volume = os.statvfs(directory)
    except OSError:
        return None
    free, executes = volume.f_bavail * volume.f_frsize, not volume.f_flag & os.ST_NOEXEC
    return directory if free >= room and executes and os.access(directory, os.W_OK) else None


def choose() -> None:
    """Have this process, and those that it starts, write there; the environment's TMPDIR goes before."""
    if "TMPDIR" not in os.environ and (directory := in_memory()) is not None:
        os.environ["TMPDIR"] = tempfile.tempdir = str(directory)
