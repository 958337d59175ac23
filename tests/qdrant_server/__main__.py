"""Serve a directory in the foreground until SIGINT or SIGTERM."""

import argparse
import signal
import threading
from pathlib import Path

from tests.qdrant_server import Behaviour, Keys, serve


def main() -> None:
    """Serve as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--path", type=Path, required=True)
    parser.add_argument("--api-key")
    parser.add_argument("--read-only-api-key")
    options = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    behaviour = Behaviour(keys=Keys(options.api_key, options.read_only_api_key))
    with serve(options.path, behaviour, options.port):
        stop.wait()


if __name__ == "__main__":
    main()
