"""docs/runbooks: one page for each alert, each with the same headings, and what they name exists."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.files import ROOT, check_command
from tests.deploy.monitoring import DASHBOARDS, RUNBOOKS, alerts, check_names, check_parse, page_expressions, panels

PAGES = sorted(RUNBOOKS.glob("*.md"))
HOW_TO = ROOT / "docs" / "how-to" / "monitoring.md"
_HEADINGS = ("What it means", "What users see", "What to look at", "What to do")


def test_each_alert_has_a_runbook_and_each_runbook_an_alert() -> None:
    """Neither leads nowhere."""
    assert {Path(alert["annotations"]["runbook"]).name for alert in alerts()} == {page.name for page in PAGES}


def test_the_how_to_lists_every_alert_with_its_severities() -> None:
    """Its table has each alert once, in the order of the rules, with a link to its runbook."""
    listed: dict[tuple[str, str], list[str]] = {}
    for alert in alerts():
        page = Path(alert["annotations"]["runbook"]).name
        listed.setdefault((alert["alert"], page), []).append(alert["labels"]["severity"])
    rows = re.findall(r"(?m)^\| \[(\w+)\]\(\.\./runbooks/([\w-]+\.md)\) \| ([^|]*) \|", HOW_TO.read_text("utf-8"))
    assert [((name, page), re.findall(r"\w+", severities)) for name, page, severities in rows] == list(listed.items())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_runbook_answers_the_same_questions(page: Path) -> None:
    """It begins with its alert, and has the four headings in their order."""
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# Rankstream{''.join(word.capitalize() for word in page.stem.split('-'))}\n")
    assert tuple(re.findall(r"(?m)^## (.*)", text)) == _HEADINGS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_runbook_names_its_severity(page: Path) -> None:
    """It says the severities of its rules, and no other."""
    path = f"docs/runbooks/{page.name}"
    severities = {alert["labels"]["severity"] for alert in alerts() if alert["annotations"]["runbook"] == path}
    told = re.search(r"(?m)^Severity: (.*?)\.", page.read_text(encoding="utf-8"))
    assert told
    assert set(re.findall(r"`(\w+)`", told[1])) == severities


def test_the_queries_of_runbooks_parse(tmp_path: Path) -> None:
    """Prometheus can read each of them, and what they name exists."""
    found = [each for page in PAGES for each in page_expressions(page)]
    assert len(found) > len(PAGES)
    for each in found:
        check_names(each)
    check_parse(found, tmp_path)


def test_the_commands_of_runbooks_parse() -> None:
    """Each is one of rankstream's, with options that it has."""
    found = {shown for page in PAGES for shown in re.findall(r"`rankstream ([a-z][^`]*)`", page.read_text("utf-8"))}
    assert found
    for command in found:
        check_command(shlex.split(command))


def test_the_log_lines_of_runbooks_are_written() -> None:
    """Each event that a runbook tells to look for is one in the code."""
    code = "".join(file.read_text() for room in ("operators", "flows") for file in (ROOT / room).rglob("*.py"))
    events = {event for page in PAGES for event in named_events(page)}
    assert events
    assert {event for event in events if f'"{event}"' not in code} == set()


def named_events(page: Path) -> Iterator[str]:
    """The words in backticks after the word event or events."""
    text = " ".join(page.read_text(encoding="utf-8").split())
    for listed in re.findall(r"\bevents? ((?:`[^`]+`(?:, | and )?)+)", text):
        yield from (event for event in re.findall(r"`([^`]+)`", listed) if event != "Fenced")


def test_runbooks_name_panels_that_there_are() -> None:
    """The panels of the dashboards, by their titles."""
    titles = {panel["title"] for file in DASHBOARDS for panel in panels(json.loads(file.read_text()))}
    named = {
        title
        for page in PAGES
        for title in re.findall(r"panels? \*([^*]+)\*", " ".join(page.read_text(encoding="utf-8").split()))
    }
    assert named
    assert named <= titles
