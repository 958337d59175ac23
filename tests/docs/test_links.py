"""Links and commands within the text of the pages lead to what is there, on a code host, too."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
from typer.core import TyperGroup

from flows.cli.main import command_line
from tests.docs.pages import PAGES, ROOT


def headings(text: str) -> set[str]:
    """The anchors of a page's headings, as a renderer of Markdown makes them."""
    titles = re.findall(r"(?m)^#+ (.*)", text)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def mentioned(text: str) -> Iterator[list[str]]:
    """The words of every rankstream command within the text."""
    yield from (found.split() for found in re.findall(r"`rankstream ([a-z][^`]*)`", text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Each link within the repository names a file that is there, and a heading that it has."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = page.parent / file if file else page
        assert linked.exists(), target
        assert not anchor or anchor in headings(linked.read_text(encoding="utf-8")), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_the_text_have_their_options(page: Path) -> None:
    """Each command that is mentioned is one of rankstream's, and takes the options that it is mentioned with."""
    click = typer.main.get_command(command_line())
    assert isinstance(click, TyperGroup)
    for name, *words in mentioned(page.read_text(encoding="utf-8")):
        options = {option for parameter in click.commands[name].params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, name
