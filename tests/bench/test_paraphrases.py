"""The labelled pairs of questions, and what the semantic cache makes of them."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from bench import paraphrases, question_pairs
from bench.kafka.broker import REPOSITORY
from bench.question_pairs import Pair
from operators.clients.local.minilm import MiniLM

PAGE = REPOSITORY / "docs" / "reference" / "cascade.md"


def test_the_file_is_what_the_rules_give() -> None:
    """`python -m bench.question_pairs > tests/data/question_pairs.jsonl` would change nothing."""
    assert paraphrases.PAIRS.read_text(encoding="utf-8") == question_pairs.lines()
    assert paraphrases.written() == question_pairs.pairs()


def test_the_pairs_are_of_every_kind() -> None:
    """Hundreds of each label, no text beside itself, and no pair with both labels."""
    pairs = paraphrases.written()
    kinds = Counter((pair.kind, pair.same) for pair in pairs)
    labels = Counter(pair.same for pair in pairs)
    assert min(labels.values()) >= 400
    assert {"number", "identifier", "name", "negation", "direction", "order"} <= {
        kind for kind, same in kinds if not same
    }
    assert {"article", "politeness", "frame", "inflection", "other words"} <= {kind for kind, same in kinds if same}
    assert all(pair.cached != pair.asked for pair in pairs)
    assert len({frozenset((pair.cached, pair.asked)) for pair in pairs}) == len(pairs)


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The figures for the pairs."""
    return paraphrases.figures(paraphrases.written(), MiniLM(tmp_path_factory.mktemp("minilm")))


@pytest.mark.weights
def test_no_close_question_is_a_hit(figures: dict[str, Any]) -> None:
    """With the check of words none at any threshold, where by the cosine alone a third would be at the shipped one."""
    rows = {row["cosine"]: row for row in figures["thresholds"]}
    assert [row["false_hits"]["checked"] for row in rows.values()] == [0] * len(paraphrases.THRESHOLDS)
    assert rows[figures["shipped"]]["false_hits"]["alone"] > figures["close"] / 3


@pytest.mark.weights
def test_paraphrases_are_hits(figures: dict[str, Any]) -> None:
    """At the shipped threshold four fifths of all, and nine tenths of those that the cosine alone would serve."""
    (row,) = (row["hits"] for row in figures["thresholds"] if row["cosine"] == figures["shipped"])
    assert row["checked"] > 0.8 * figures["same"]
    assert row["checked"] > 0.9 * row["alone"]


@pytest.mark.weights
def test_the_page_has_the_figures(figures: dict[str, Any]) -> None:
    """The table in docs/reference/cascade.md is what `python -m bench paraphrases` prints."""
    page = PAGE.read_text(encoding="utf-8")
    assert f"{figures['close']} close questions and {figures['same']} paraphrases" in page
    for row in figures["thresholds"]:
        hits = [row[name][way] for name in ("false_hits", "hits") for way in ("alone", "checked")]
        assert f"| {row['cosine']:.2f} | {' | '.join(map(str, hits))} |" in page


@pytest.mark.weights
def test_judgements_label_pairs(tmp_path: Path) -> None:
    """Near questions without a common document are close, those with the same documents are paraphrases."""
    texts = {
        "a": "what did Anna say before the meeting in Rome",
        "b": "what did Anna say after the meeting in Rome",
        "c": "once the meeting in Rome was over, what did Anna say",
        "d": "how long does bread bake",
        "e": "what did Anna say before the meeting in Rome",
    }
    events = [{"query_id": id_, "text": text, "namespace": "m" if id_ == "e" else "n"} for id_, text in texts.items()]
    (tmp_path / "queries.jsonl").write_bytes(b"\n".join(map(orjson.dumps, events)))
    (tmp_path / "qrels.txt").write_text("a 0 x 1\na 0 y 0\nb 0 y 1\nc 0 y 1\nd 0 z 1\ne 0 y 1\n")
    pairs = paraphrases.judged(tmp_path)
    assert {pair.kind for pair in pairs} > {"judged", "direction", "politeness"}
    found = [pair for pair in pairs if pair.kind == "judged"]
    assert Pair("judged", False, texts["a"], texts["b"]) in found
    assert [pair for pair in found if pair.same] == [Pair("judged", True, texts["b"], texts["c"])]
    assert not any(texts["d"] in pair for pair in found)


@pytest.mark.weights
def test_a_hit_on_another_question_is_reported(tmp_path: Path) -> None:
    """The command prints the figures, and ends with 1 if the check lets a close question through."""
    events = [
        {"query_id": "a", "text": "the capital of France"},
        {"query_id": "b", "text": "what is the capital of France?"},
    ]
    (tmp_path / "queries.jsonl").write_bytes(b"\n".join(map(orjson.dumps, events)))
    (tmp_path / "qrels.txt").write_text("a 0 x 1\nb 0 y 1\n")
    command = [sys.executable, "-m", "bench", "paraphrases", "--json", "--judged", str(tmp_path)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=240)
    report = orjson.loads(done.stdout)
    judged = [(kind["same"], kind["pairs"]) for kind in report["kinds"] if kind["kind"] == "judged"]
    assert (judged, done.returncode) == ([(False, 1)], 1), done.stderr
