"""The program: `rankstream`, and `python -m flows.cli`."""

import io
import os
import signal
import sys

INTERRUPTED = 130
"""Exit code of what Ctrl-C has ended."""

_TERMINATED = 143


def main() -> None:
    """Run the command line; Ctrl-C ends it without a traceback, while it is still being imported, too."""
    if os.getpid() == 1:
        # The kernel keeps signals without a handler from a container's first process: SIGTERM would not end a start.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(_TERMINATED))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that is not of UTF-8 gets question marks for what it has no characters for.
            stream.reconfigure(errors="replace")
    try:
        from flows.cli.main import run_command_line

        run_command_line()
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


if __name__ == "__main__":
    main()
