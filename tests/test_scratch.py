"""Tests write to memory only where there is room."""

import os
from pathlib import Path

import pytest

from tests.scratch import in_memory


def test_a_directory_with_room_is_chosen(tmp_path: Path) -> None:
    """One with as many free bytes as are asked for."""
    assert in_memory(tmp_path, 1) == tmp_path


def test_a_small_or_missing_one_is_not(tmp_path: Path) -> None:
    """A container's memory of 64 MB, and a machine without the directory, leave tests on the disk."""
    assert in_memory(tmp_path, 1 << 60) is None
    assert in_memory(tmp_path / "missing", 1) is None


def test_one_where_no_program_runs_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests run what they have built: a file system that is mounted `noexec` is of no use."""
    volume = list(os.statvfs(tmp_path))
    volume[8] |= os.ST_NOEXEC
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(volume))
    assert in_memory(tmp_path, 1) is None
