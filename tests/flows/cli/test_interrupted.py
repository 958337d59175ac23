"""Ctrl-C, whatever a command does at that moment."""

import pytest

from flows.cli import __main__ as program
from flows.cli import main as command_line


def test_an_interrupt_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is 130, as a shell has it for SIGINT."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command_line, "main", interrupted)
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == program.INTERRUPTED == 130
