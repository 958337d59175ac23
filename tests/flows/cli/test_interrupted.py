"""Ctrl-C, whatever a command does at that moment."""

import subprocess
import sys

import pytest

from flows.cli import __main__ as program
from flows.cli import main as command_line


def test_an_interrupt_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is 130, as a shell has it for SIGINT."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command_line, "run_command_line", interrupted)
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == program.INTERRUPTED == 130


def test_the_first_process_of_a_container_ends_while_it_starts() -> None:
    """The kernel keeps a signal from it that it has no handler for: SIGTERM would be lost until the flow runs."""
    script = """
import os, signal
from flows.cli import __main__ as program
own, os.getpid = os.getpid(), lambda: 1
import flows.cli.main
flows.cli.main.run_command_line = lambda: os.kill(own, signal.SIGTERM)
program.main()
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 143
