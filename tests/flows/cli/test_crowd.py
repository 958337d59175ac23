"""The circle of an experiment with a simulated crowd: all flows and commands are real."""

import io
from pathlib import Path

import pytest

from flows.cli.crowd import walk
from flows.cli.demo import Corpus
from flows.cli.evaluate.evaluation import read_judgements
from flows.cli.output import Terminal
from flows.process.embedded import embedded_settings
from schemas.settings import load

SUBJECTS = ("garden hose", "claw hammer", "wood screw", "water pump", "paint brush", "steel ladder", "door hinge")
USES = ("under pressure outside", "without slipping indoors", "behind walls quietly", "against frost every winter")


@pytest.mark.weights
def test_from_an_experiment_to_a_tuned_recipe(tmp_path: Path) -> None:
    """Users are asked and heard, their clicks are judgements, and a recipe is tuned on these; files of an earlier crowd
    are replaced.
    """
    documents = [
        {"id": f"d{number}-{use}", "namespace": "tools", "text": f"This {subject} works {used} since {number} {use}."}
        for number, subject in enumerate(SUBJECTS)
        for use, used in enumerate(USES)
    ]
    corpus = Corpus("tools", lambda: enumerate(documents, 1), "1", "tools", embedded_settings(Path()), "tools")
    printed, output = io.StringIO(), tmp_path / "crowd"
    output.mkdir()
    for name in ("clicked.jsonl", "clicked.txt", "tuned.yaml"):
        (output / name).write_text("of an earlier crowd")
    walk(corpus, tmp_path / "index", output, Terminal(file=printed, width=200), wanted=12)
    said = printed.getvalue()
    assert "144 users ask, and click" in said
    assert "vector-alone: " in said
    assert said.splitlines()[-1].startswith(
        "the commands that do this for your users: rankstream run; rankstream learn; "
    )
    judged = read_judgements(output / "clicked.txt", output / "clicked.jsonl", None)
    assert any(grade for grades in judged.values() for grade in grades.values())
    assert "hybrid" in load(output / "tuned.yaml", {"qdrant": {"url": "http://localhost:6333"}}).recipes
