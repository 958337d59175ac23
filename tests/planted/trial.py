"""A trial: a defect is planted in a copy of the work tree, and the tests run there.

Rules
-----
- A test catches a defect if it fails with it and passes without it. A run that ends in any other way, as by an import
  that fails or a fixture, catches nothing.
- The tests near the defect run first; if these pass, all that `make test` runs.
- The processes that tests start import the copy's packages, too. The copy shares the cache of the tree, with the
  broker's jars and the models: no defect may be in what fills it.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.planted.defects import Defect

ROOT: Final = Path(__file__).parents[2]

_PASSED: Final = 0
_WHOLE: Final = re.compile(r"^\S+/python -m pytest (.+)$", re.MULTILINE)
_FAILURE: Final = re.compile(r"^FAILED ([^\[\s]+(?:\[.*?\])?)(?: - .*)?$", re.MULTILINE)
_ERROR: Final = re.compile(r"^(?:ERROR|E  ) .*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a defect: the test that caught it, or None and why not."""

    defect: Defect
    caught_by: str | None
    why: str
    seconds: float


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of pytest: whether all passed, else the first test that failed, else what went wrong."""

    passed: bool
    failed: str | None = None
    error: str = ""


def whole(directory: Path) -> list[str]:
    """The arguments of `make test` for pytest, by the directory's Makefile. Raises ValueError if it runs no pytest."""
    planned = subprocess.run(["make", "--dry-run", "test"], cwd=directory, check=True, capture_output=True, text=True)
    # In a fresh work tree the tests are collected before they are run.
    if not (found := _WHOLE.findall(planned.stdout)):
        raise ValueError("`make test` runs no `python -m pytest`")
    return shlex.split(found[-1])


def copied(directory: Path, root: Path = ROOT) -> "Trial":
    """Copy what Git knows of the work tree, as it is now, and what it would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (source := root / name).is_file():
            target = directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    cache = root / ".cache"
    cache.mkdir(exist_ok=True)
    (directory / ".cache").symlink_to(cache)
    return Trial(directory)


class Trial:
    """Plants defects in one copy, one after the other."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        models = str(directory / ".cache" / "rankstream")
        self._environment = {"RANKSTREAM_CACHE_DIR": models, **os.environ, "PYTHONPATH": str(directory)}

    def __call__(self, defect: Defect, *, near_only: bool) -> Outcome:
        """Look for a test that catches the defect."""
        began = time.monotonic()
        with self._planted(defect):
            run = self._run(defect.near)
            if run.passed and not near_only:
                run = self._run(whole(self._directory))
        caught_by, why = run.failed, run.error
        if run.passed:
            why = "every test near it passes" if near_only else "every test passes"
        elif run.failed is not None and not self._run([run.failed]).passed:
            caught_by, why = None, f"without it, too, fails {run.failed}"
        return Outcome(defect, caught_by, why, time.monotonic() - began)

    @contextmanager
    def _planted(self, defect: Defect) -> Iterator[None]:
        file = self._directory / defect.file
        source = file.read_text(encoding="utf-8")
        file.write_text(defect.planted(source), encoding="utf-8")
        try:
            yield
        finally:
            file.write_text(source, encoding="utf-8")

    def _run(self, arguments: Sequence[str]) -> _Run:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--color=no", *arguments]
        done = subprocess.run(
            command, cwd=self._directory, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if done.returncode == _PASSED:
            return _Run(passed=True)
        said = done.stdout.decode("utf-8", "replace")
        # The exit code does not tell a test that failed: of several processes it is that of an interruption.
        if (failure := _FAILURE.search(said)) is not None:
            return _Run(passed=False, failed=failure[1])
        errors = _ERROR.findall(said)
        return _Run(passed=False, error=f"pytest ended with {done.returncode}: {errors[-1] if errors else said[-300:]}")
