"""The command line, with a count of the Python calls of each of its threads.

The count goes to the file that COUNTS_TO names, once for each file beside it that asks: `NAME.1.ask` brings `NAME.1`.
"""

import os
import sys
import threading
import time
from collections import Counter
from itertools import count
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import orjson

from flows.cli.__main__ import main

COUNTS_TO: Final = "COUNTS_TO"
_PAUSE: Final = 0.1

_calls: Final[dict[int, Counter[CodeType]]] = {}
"""By thread: none waits for another, and none loses a call."""


def counted() -> None:
    """Count the Python calls of this thread, and of those that begin after it. A generator that goes on is called."""
    threading.setprofile(_count)
    sys.setprofile(_count)


def _count(frame: FrameType, event: str, _: Any) -> None:
    if event == "call":
        thread = threading.get_ident()
        if thread not in _calls:
            _calls[thread] = Counter()
        _calls[thread][frame.f_code] += 1


def by_function() -> Counter[str]:
    """The calls so far of each function, as FILE:NAME."""
    found: Counter[str] = Counter()
    for calls in list(_calls.values()):
        for code, number in list(calls.items()):
            found[f"{code.co_filename}:{code.co_qualname}"] += number
    return found


def answer(path: Path) -> None:
    """Write the counts as they are asked for, for ever."""
    for number in count(1):
        while not path.with_name(f"{path.name}.{number}.ask").exists():
            time.sleep(_PAUSE)
        written = path.with_name(f"{path.name}.part")
        written.write_bytes(orjson.dumps(by_function()))
        written.rename(path.with_name(f"{path.name}.{number}"))


if __name__ == "__main__":
    # Before the count: this thread's calls are not the command line's.
    threading.Thread(target=answer, args=(Path(os.environ[COUNTS_TO]),), daemon=True).start()
    counted()
    main()
