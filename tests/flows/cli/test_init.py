"""`rankstream init`, and the demo on documents as another program exported them."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from typer.testing import CliRunner

from flows.cli.init import Sample, write_yaml
from flows.cli.main import command_line
from operators.mapping.inference import DocumentMapping, infer
from schemas.settings import load
from tests.flows.cli.test_commands import rankstream
from tests.operators.mapping.test_inference import NOW, article

PAGES: Final = [
    ("Reset the router", "setup", "Hold the button at the back of the router for ten seconds until the lamp blinks."),
    ("Paper jam", "trouble", "Open the rear door of the printer and pull the sheet out slowly with both hands."),
    ("Slow network", "trouble", "Move the router away from the microwave oven, or choose another radio channel."),
    ("Clean the lens", "care", "Wipe the lens of the camera with a dry and soft cloth, and never use any alcohol."),
]
EXPORT: Final = [
    {"nid": 40 + 3 * number, "headline": head, "body": f"<p>{text}</p>", "section": section, "priority": 1}
    for number, (head, section, text) in enumerate(PAGES)
]
EMPTY: Final = {"nid": 99, "headline": "", "body": "", "section": "care", "priority": 1}


def export(path: Path, documents: list[Any]) -> Path:
    """A file with these documents as a JSON array."""
    path.write_text(json.dumps(documents))
    return path


def test_a_configuration_is_written_once(tmp_path: Path) -> None:
    """It names the fields, its settings load, and a file that is there is not replaced."""
    documents, written = export(tmp_path / "export.json", EXPORT), tmp_path / "rankstream.yaml"
    command = ["init", str(documents), "--write", str(written)]
    done = CliRunner().invoke(command_line(), command)
    assert done.exit_code == 0, done.output
    settings = load(written)
    assert settings.documents.columns == {"id": "nid", "title": "headline", "text": "body", "own_priority": "priority"}
    assert (settings.documents.ids, settings.documents.html.fields) == ("integer", ["text"])
    assert CliRunner().invoke(command_line(), command).exit_code == 1
    assert CliRunner().invoke(command_line(), [*command, "--force"]).exit_code == 0


def test_a_role_is_asked_for(tmp_path: Path) -> None:
    """With --interactive each, and an unknown field is asked for once more."""
    documents, written = export(tmp_path / "export.json", EXPORT), tmp_path / "rankstream.yaml"
    command = ["init", str(documents), "--write", str(written), "--interactive"]
    done = CliRunner().invoke(command_line(), command, input="\nwrong\nsection\n\n\n\n\n\n")
    assert done.exit_code == 0, done.output
    assert load(written).documents.columns["title"] == "section"


@pytest.mark.weights
def test_the_demo_takes_an_export_as_it_is(tmp_path: Path) -> None:
    """It says what it chose and skipped, filters by a field, and keeps index and configuration where it is told."""
    documents = export(tmp_path / "export.json", [*EXPORT, EMPTY, "no document"])
    keep = tmp_path / "kept"
    command = ["demo", "--documents", str(documents), "--query", "how do I start over", "--keep", str(keep), "--json"]
    done = rankstream(*command, "--filter", "section=setup")
    assert done.returncode == 0, done.stderr
    [result] = map(json.loads, done.stdout.splitlines())
    [hit] = result["results"]
    assert (hit["id"], hit["payload"]["headline"]) == (40, "Reset the router")
    assert hit["text"] == PAGES[0][2]
    assert "  title       headline (in 80% of the documents)" in done.stderr
    assert "skipped 2 of 6 documents:\n  record 6, document without id: invalid: a JSON object is exp" in done.stderr
    assert (
        "record 5, document 99: invalid: an upsert needs `body`, `headline`, or its embedding as `vector`"
        in done.stderr
    )
    assert load(keep / "rankstream.yaml").documents.ids == "integer"
    kept = rankstream(*command)
    assert "skipped 2 of 6 documents:\n  record 6" in kept.stderr
    assert "indexed" not in kept.stderr
    again = rankstream(
        "demo", "--documents", str(documents), "--query", "paper", "--config", str(keep / "rankstream.yaml")
    )
    assert again.returncode == 0, again.stderr
    assert "Paper jam" in again.stdout


@pytest.mark.weights
def test_figures_of_an_export_need_no_configuration(tmp_path: Path) -> None:
    """Its fields are found as for the demo; a document that cannot be taken ends the command, unless told otherwise."""
    documents, queries, qrels = (tmp_path / name for name in ("export.json", "queries.jsonl", "qrels"))
    export(documents, [*EXPORT, {**EMPTY, "body": "<p>&nbsp;</p>"}])
    queries.write_text(json.dumps({"query_id": "q", "text": "how do I start over"}))
    qrels.write_text("q 0 40 1\n")
    command = ["evaluate", "--documents", str(documents), "--queries", str(queries), "--qrels", str(qrels)]
    refused = rankstream(*command, "--recipe", "keyword")
    assert refused.returncode == 1
    assert "1 of 5 documents were rejected (--allow-rejected goes on without them)" in refused.stderr
    assert "empty       1 documents have neither title nor text" in refused.stderr
    done = rankstream(*command, "--recipe", "keyword", "--allow-rejected", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["answers"] == {"ok": 1}
    assert "skipped 1 of 5 documents:" in done.stderr


def awkward() -> DocumentMapping:
    """The mapping of documents with all that needs a comment or a quote."""
    documents = [
        article(
            number,
            **{"Preis (EUR)": f"{number},50", "no": f"#{number % 3}", "when": "31.12.2024", "x y": {"z.z": number}},
        )
        for number in range(30)
    ]
    documents += [{"a": 1, "b": "", "c": ""}, dict(documents[0])]
    return infer(documents, NOW)


def test_the_configuration_is_read_back_as_it_was_meant() -> None:
    """Its YAML says the same sections, and the settings take them."""
    mapping = awkward()
    written = write_yaml(mapping, Sample("export.json", "JSON", [], [], 0))
    read = yaml.safe_load(written)
    said = mapping.settings()
    assert read["documents"] == said["documents"]
    assert {name: read["qdrant"][name] for name in said["qdrant"]} == said["qdrant"]
    assert load(None, read).documents.formats["Preis_EUR"] == "decimal_comma"
    assert "# empty: 1 documents have neither title nor text" in written


def test_a_file_of_wrong_records_alone_says_why(tmp_path: Path) -> None:
    """The first reason, with its line."""
    (tmp_path / "export.csv").write_text('a;b\n1;"x\n2;y\n')
    done = CliRunner().invoke(command_line(), ["init", str(tmp_path / "export.csv"), "--write", "-"])
    assert done.exit_code == 1
    assert "no document in it: line 2, document without id: invalid: a quote is open up to line 3" in str(
        done.exception
    )
