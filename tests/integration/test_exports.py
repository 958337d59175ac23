"""Five exports of different kinds, indexed as they are with what `init` writes: the right documents come first."""

from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from flows.cli.ingestion import index_once
from flows.cli.main import command_line
from flows.cli.query import QueryClient
from flows.cli.records import Records
from flows.process.embedded import start_with_settings
from schemas.settings import load

pytestmark = [pytest.mark.slow, pytest.mark.weights]

EXPORTS: Final = Path(__file__).parents[1] / "data" / "exports"
GOALS: Final = {"cms": (26, 29), "shop": (26, 29), "rows": (26, 29), "chat": (25, 29), "wiki": (15, 28)}
"""Of 30 questions: those with the right document first, and among the first five. A message and a page of two
sentences often share no word with a question; there they are what was measured, below the .85 and .95 of the others.
"""

KINDS: Final = {"cms": "cms.json", "shop": "shop.csv", "chat": "chat.json", "wiki": "wiki", "rows": "rows.jsonl"}
QUESTIONS: Final = [line.split("\t") for line in (EXPORTS / "questions.tsv").read_text().splitlines()]


@pytest.mark.parametrize("kind", list(KINDS))
def test_an_export_answers_as_it_is(kind: str, tmp_path: Path) -> None:
    """As many questions as GOALS says have the right document first, and among the first five."""
    source, written = EXPORTS / KINDS[kind], tmp_path / "rankstream.yaml"
    done = CliRunner().invoke(command_line(), ["init", str(source), "--write", str(written)])
    assert done.exit_code == 0, done.output
    settings = load(None, yaml.safe_load(written.read_text()))
    patient = {name: getattr(settings, name).model_copy(update={"timeout": 60.0}) for name in ("embedder", "rerank")}
    patient["limits"] = settings.limits.model_copy(update={"timeout": 60.0})
    records, directory = Records.of(source), tmp_path / "index"
    ranks = defaultdict[int, list[str]](list)
    with start_with_settings(settings.model_copy(update=patient), directory) as running:
        quiet = Console(quiet=True)
        index_once(running, kind, records.usable, records.version(), directory, quiet, complete=False)
        with running.searching(), QueryClient.connect(running.kafka, running.settings.kafka.topics) as client:
            for of, right, text in QUESTIONS:
                if of == kind:
                    [result] = client.ask([{"query_id": text, "text": text, "limit": 5}], 60)
                    found = [str(hit["id"]) for hit in result["results"]]
                    ranks[found.index(right) + 1 if right in found else 0].append(text)
    total = sum(map(len, ranks.values()))
    assert total == 30
    wrong = {rank: texts for rank, texts in sorted(ranks.items()) if rank != 1}
    first, five = GOALS[kind]
    assert len(ranks[1]) >= first, wrong
    assert total - len(ranks[0]) >= five, wrong
