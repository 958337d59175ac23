"""Every fenced block of every page: its kind says how it is checked, and no block is of no kind.

Commands are parsed, configurations are loaded, events are validated. What runs or is compared as a whole is in TESTED.
"""

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

import orjson
import pytest
import yaml
from pydantic import BaseModel

from operators.indexing.decode import tombstone
from schemas.document import DeletionEvent, DocumentEvent
from schemas.feedback import FeedbackEvent, UbiEvent
from schemas.pool import CandidatePool
from schemas.preference import PairedRankings
from schemas.query import QueryEvent
from schemas.result import Explained, ResultEvent
from schemas.settings import Settings, load
from tests.docs.pages import BLOCKS, ROOT, Block
from tests.docs.shell import check, commands

SHELL: Final = {"sh", "console"}
MODELS: Final[dict[str, type[BaseModel]]] = {
    "query": QueryEvent,
    "result": ResultEvent,
    "document": DocumentEvent,
    "deletion": DeletionEvent,
    "pool": CandidatePool,
    "explanation": Explained,
    "feedback": FeedbackEvent,
    "ubi": UbiEvent,
    "comparison": PairedRankings,
}

TESTED: Final = {
    ("README.md", ""): "tests/docs/test_readme.py::test_the_picture_has_the_stages_of_the_flow",
    ("CONTRIBUTING.md", ""): "tests/docs/test_contributing.py::test_its_pictures_are_the_packages",
    ("docs/deploy.md", "yaml"): "tests/deploy/test_deploy_page.py::test_the_pages_values_are_rendered",
    ("docs/tutorial.md", "python"): "tests/docs/test_with_servers.py::test_the_tutorial_from_topics_to_an_application",
    ("docs/tutorial.md", "typescript"): (
        "tests/docs/test_with_servers.py::test_the_tutorials_application_in_typescript"
    ),
    ("docs/how-to/beside-an-existing-service.md", "python"): (
        "tests/docs/test_with_servers.py::test_two_services_are_compared"
    ),
    ("docs/how-to/search-page.md", "python"): "tests/docs/test_search_page.py::test_a_shops_page",
    ("docs/how-to/rules.md", "json"): "tests/docs/test_how_to.py::test_the_rules_of_the_page_work",
    **{
        ("docs/how-to/experiments.md", language): "tests/docs/test_experiments_page.py::test_a_click_becomes_feedback"
        for language in ("javascript", "python")
    },
    ("docs/how-to/experiments.md", "text"): "tests/docs/test_experiments_page.py::test_the_verdict_is_one",
    ("docs/how-to/own-stage.md", "python"): "tests/docs/test_how_to.py::test_a_stage_of_ones_own_runs",
    ("docs/how-to/own-reranker.md", "python"): "tests/docs/test_how_to.py::test_the_small_server_reranks",
    **{
        ("docs/how-to/asking.md", language): (
            "tests/docs/test_asking.py::test_each_instance_has_the_answers_to_its_questions"
        )
        for language in ("python", "java", "javascript", "go")
    },
    ("docs/how-to/own-documents.md", "json"): "tests/docs/test_how_to.py::test_own_names_are_in_queries_and_results",
    ("docs/how-to/managed-kafka.md", ""): "tests/docs/test_with_servers.py::test_check_of_topics_with_default_settings",
}
"""Blocks beyond every kind: (page, language) -> the test that runs such blocks, or compares them with the program."""


def is_configuration(block: Block) -> bool:
    """True if a block of YAML has sections of the configuration, and no others."""
    content = yaml.safe_load(block.text)
    return isinstance(content, dict) and content.keys() <= Settings.model_fields.keys()


@cache
def kind(block: Block) -> str | None:
    """The check for a block; None: it isn't checked."""
    if block.language in SHELL:
        return "shell"
    if block.language == "yaml" and is_configuration(block):
        return "configuration"
    if block.language == "json" and block.info.removeprefix("json ") in {*MODELS, "tombstone"}:
        return "event"
    return "tested" if (block.page, block.language) in TESTED else None


def of(wanted: str) -> pytest.MarkDecorator:
    """The blocks of a kind, as parameters."""
    return pytest.mark.parametrize("block", [block for block in BLOCKS if kind(block) == wanted], ids=str)


def test_no_block_is_of_no_kind() -> None:
    """A new block is a command, a configuration or an event, or a test of its own is named for it."""
    assert len(BLOCKS) > 60
    assert [str(block) for block in BLOCKS if kind(block) is None] == []
    assert kind(Block("docs/new.md", 1, "python", "print(1)\n")) is None
    assert kind(Block("docs/new.md", 1, "yaml", "kafka: {}\nspec: {}\n")) is None


@pytest.mark.parametrize("key", TESTED, ids=" ".join)
def test_the_tests_that_are_named_are_there(key: tuple[str, str]) -> None:
    """Each is a function of its module; and the page has such a block."""
    file, _, name = TESTED[key].partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE)
    assert key in {(block.page, block.language) for block in BLOCKS}


@of("shell")
def test_commands_are_ones(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell takes the block, and each program has the commands, options and files that are named."""
    done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for file in (
        "documents.jsonl",
        "export.json",
        "export.jsonl",
        "queries.jsonl",
        "qrels.txt",
        "results.jsonl",
        "deletions.jsonl",
        "rules.jsonl",
        "clicked.jsonl",
        "clicked.txt",
    ):
        (tmp_path / file).touch()
    # The runs that `evaluate` writes.
    (tmp_path / "runs").mkdir()
    for row in ("hybrid", "hybrid+rerank", "rrf+rerank"):
        (tmp_path / "runs" / f"{row}.run").touch()
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    monkeypatch.chdir(tmp_path)
    found = list(commands(block.text))
    assert found
    for command in found:
        check(command)


@of("configuration")
def test_configurations_load(block: Block, tmp_path: Path) -> None:
    """Each is one that rankstream takes, once it knows where the index is."""
    path = tmp_path / "rankstream.yaml"
    path.write_text(block.text)
    qdrant = yaml.safe_load(block.text).get("qdrant", {})
    load(path, {} if {"url", "path"} & qdrant.keys() else {"qdrant": {"url": "http://localhost:6333"}})


@of("event")
def test_events_hold_to_the_contract(block: Block) -> None:
    """Each example can be sent, or is what comes."""
    name = block.info.removeprefix("json ")
    if name == "tombstone":
        assert tombstone(block.text.encode())["op"] == "delete"
    else:
        MODELS[name].model_validate(orjson.loads(block.text))
