"""The planted defects: the list fits the code, and a trial tells what is caught from what is not."""

import subprocess
from pathlib import Path

import pytest

from tests.planted.defects import Defect, defects
from tests.planted.trial import ROOT, copied, whole
from tests.test_layout import LEVELS

DEFECTS = defects()


@pytest.mark.parametrize("defect", DEFECTS.values(), ids=list(DEFECTS))
def test_a_defect_can_be_planted(defect: Defect) -> None:
    """Its text is in its file exactly once, the file compiles with the defect, and the tests near it are there."""
    source = (ROOT / defect.file).read_text(encoding="utf-8")
    planted = defect.planted(source)
    assert planted != source
    compile(planted, defect.file, "exec")
    for near in defect.near:
        path, _, test = near.partition("::")
        assert (ROOT / path).exists(), near
        assert not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), near


def test_every_room_has_a_defect() -> None:
    """Each room of the layout, each of both Kafka clients, and the clients of HTTP, Qdrant and rerankers."""
    rooms = {room for level in LEVELS for room in level} - {"flows.search", "flows.indexing", "flows.feedback"}
    rooms |= {f"operators.delivery.{client}" for client in ("kafka_python", "librdkafka")}
    rooms |= {f"operators.clients.{client}" for client in ("http", "qdrant", "rerankers")}
    planted = {defect.room for defect in DEFECTS.values()}
    assert [room for room in sorted(rooms) if not any(f"{each}.".startswith(f"{room}.") for each in planted)] == []


@pytest.mark.slow
def test_a_trial_tells_what_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caught by a test that fails for the defect; not by one that fails anyway, by an import that fails, or by none."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    root = tmp_path / "tree"
    root.mkdir()
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    (root / "count.py").write_text("ONE = 1\n")
    (root / "Makefile").write_text("test:\n\t$(VENV)/bin/python -m pytest -p xdist -n 1 test_near.py test_far.py\n")
    (root / "test_near.py").write_text("import count\ndef test_near(): assert count.ONE < 3\n")
    (root / "test_far.py").write_text("import count\ndef test_far(): assert count.ONE == 1\n")
    (root / "test_red.py").write_text("def test_red(): assert False\n")
    (tmp_path / "copy").mkdir()
    trial = copied(tmp_path / "copy", root)

    def caught(new: str, near: str, *, near_only: bool = False) -> str | None:
        return trial(Defect("", "", "count.py", "= 1", new, [near]), near_only=near_only).caught_by

    assert caught("= 2", "test_near.py") == "test_far.py::test_far"
    assert caught("= 2", "test_near.py", near_only=True) is None
    assert caught("= 2", "test_red.py") is None
    assert caught("= missing", "test_near.py") is None
    assert (root / "count.py").read_text() == "ONE = 1\n"


def test_it_runs_what_make_test_runs() -> None:
    """The arguments come from the Makefile, the selection by markers among them."""
    assert "-m" in whole(ROOT)
