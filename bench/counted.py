"""The command line, with a count of the Python calls of each of its threads.

The count goes to the file that COUNTS_TO names, once for each file beside it that asks: `NAME.1.ask` brings `NAME.1`.
"""

import cProfile
import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Final

import orjson

from flows.cli.__main__ import main

COUNTS_TO: Final = "COUNTS_TO"
_PAUSE: Final = 0.1


class Counts:
    """A count of all threads that begin after it, and of the one that makes it."""

    def __init__(self) -> None:
        self._profiles: list[cProfile.Profile] = []
        self._run = threading.Thread.run

    def begin(self) -> None:
        """Count on this thread from now on."""
        profile = cProfile.Profile(builtins=False)
        self._profiles.append(profile)
        profile.enable()

    def run(self, thread: threading.Thread) -> None:
        """Run a thread, counted."""
        self.begin()
        self._run(thread)

    def by_function(self) -> Counter[str]:
        """The calls so far of each function, as FILE:NAME."""
        found: Counter[str] = Counter()
        for profile in list(self._profiles):
            for entry in profile.getstats():
                assert not isinstance(entry.code, str)  # only those of builtins are
                found[f"{entry.code.co_filename}:{entry.code.co_qualname}"] += entry.callcount
        return found

    def answer(self, path: Path) -> None:
        """Write the counts as they are asked for, for ever."""
        for number in range(1, 1_000_000):
            while not path.with_name(f"{path.name}.{number}.ask").exists():
                time.sleep(_PAUSE)
            written = path.with_name(f"{path.name}.part")
            written.write_bytes(orjson.dumps(self.by_function()))
            written.rename(path.with_name(f"{path.name}.{number}"))


def counted(path: Path) -> None:
    """Count the calls of this process's threads from now on."""
    counts = Counts()
    threading.Thread(target=counts.answer, args=(path,), daemon=True).start()

    threading.Thread.run = lambda self: counts.run(self)  # type: ignore[method-assign]
    counts.begin()


if __name__ == "__main__":
    counted(Path(os.environ[COUNTS_TO]))
    main()
