"""The program: `rankstream`, and `python -m flows.cli`."""

INTERRUPTED = 130
"""Exit code of what Ctrl-C has ended."""


def main() -> None:
    """Run the command line; Ctrl-C ends it without a traceback, while it is still being imported, too."""
    try:
        from flows.cli.main import main as command_line

        command_line()
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


if __name__ == "__main__":
    main()
