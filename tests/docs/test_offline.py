"""The commands of the README and of the page about ranking that need no server, run as they stand."""

import json
from pathlib import Path

import pytest
import yaml

from schemas.result import ResultEvent
from tests.docs.pages import DOCS, ROOT, blocks
from tests.docs.test_how_to import run
from tests.flows.cli.test_pool_ranking import NOW, pool

pytestmark = pytest.mark.slow


def shown(page: Path, wanted: str) -> str:
    """The block of a page's shell with this command."""
    [text] = [block.text for block in blocks(page) if block.language == "sh" and wanted in block.text]
    return text


def test_pools_are_ranked(tmp_path: Path) -> None:
    """The README's command prints the result of a pool, explained."""
    (tmp_path / "pools.jsonl").write_text(json.dumps(pool(at=NOW)) + "\n")
    result = ResultEvent.model_validate_json(run(shown(ROOT / "README.md", "rankstream rank"), tmp_path))
    assert result.provenance.recipe == "composite"
    assert result.results[0].explanation is not None


def test_recorded_results_are_ranked_again(tmp_path: Path) -> None:
    """The commands of the page about ranking rank a result's pool by its own recipe, and by one in a file."""
    page = DOCS / "reference" / "ranking.md"
    [recipes] = [yaml.safe_load(block.text)["recipes"] for block in blocks(page) if block.language == "yaml"]
    (tmp_path / "support.yaml").write_text(yaml.safe_dump(recipes["support"]))
    (tmp_path / "results.jsonl").write_text(json.dumps({"result_id": "1", "pool": pool(at=NOW)}) + "\n")
    first, second = run(shown(page, "rankstream rank"), tmp_path).splitlines()
    assert ResultEvent.model_validate_json(first).results[0].explanation is not None
    assert ResultEvent.model_validate_json(second).provenance.recipe == "support"


@pytest.mark.weights
def test_recipes_are_evaluated(tmp_path: Path) -> None:
    """The README's command has a row for every shipped recipe."""
    (tmp_path / "documents.jsonl").write_text('{"id": "tide", "text": "The tide rises under the moon."}\n')
    (tmp_path / "queries.jsonl").write_text('{"query_id": "1", "text": "what moves the sea"}\n')
    (tmp_path / "qrels.txt").write_text("1 0 tide 1\n")
    told = run(shown(ROOT / "README.md", "rankstream evaluate"), tmp_path)
    assert all(recipe in told for recipe in ("hybrid+rerank", "composite", "signals", "rrf"))
