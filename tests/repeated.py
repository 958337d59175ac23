"""A test's background work."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeated(turn: Callable[[], None]) -> Iterator[None]:
    """Call `turn` again and again, on a thread of its own, until the block is left."""
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            turn()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
