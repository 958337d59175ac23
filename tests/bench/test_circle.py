"""The circle of an experiment, on few documents: all flows and commands are real."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from bench.circle import walk
from flows.cli.evaluate.evaluation import read_judgements
from schemas.settings import load

SUBJECTS = ("garden hose", "claw hammer", "wood screw", "water pump", "paint brush", "steel ladder", "door hinge")
USES = ("under pressure outside", "without slipping indoors", "behind walls quietly", "against frost every winter")


@pytest.mark.weights
def test_from_an_experiment_to_a_tuned_recipe(tmp_path: Path) -> None:
    """Users are asked and heard, their clicks are judgements, and a recipe is tuned on these."""
    documents = [
        {"id": f"d{number}-{use}", "namespace": "python", "text": f"This {subject} works {used} since {number} {use}."}
        for number, subject in enumerate(SUBJECTS)
        for use, used in enumerate(USES)
    ]
    console, output = Console(file=io.StringIO(), width=200), tmp_path / "crowd"
    assert walk(tmp_path, output, 6, console, documents, wanted=12) == 0
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "72 queries asked" in said
    assert "vector-alone: " in said
    judged = read_judgements(output / "clicked.txt", output / "clicked.jsonl", None)
    assert any(grade for grades in judged.values() for grade in grades.values())
    assert "hybrid" in load(output / "tuned.yaml", {"qdrant": {"url": "http://localhost:6333"}}).recipes
