"""CONTRIBUTING.md: its pictures of the layout show the packages that there are, and which imports are allowed."""

import re

from tests.docs.pages import ROOT, blocks
from tests.test_layout import LEVELS

LAYOUT, IMPORTS = (block.text for block in blocks(ROOT / "CONTRIBUTING.md") if not block.language)


def test_its_pictures_are_the_packages() -> None:
    """The layout has each package of both folders on a line of its own, and no other."""
    for folder in ("operators", "flows"):
        section = LAYOUT.partition(f"\n{folder}/")[2].partition("\n\n")[0]
        drawn = {*re.findall(r"(?m)^ +(\w+)/ ", f" {section}")}
        assert drawn == {package.parent.name for package in (ROOT / folder).glob("*/__init__.py")}


def test_its_imports_are_those_that_are_allowed() -> None:
    """Each line of the list is a level of the test of the layout, the highest first."""
    assert [tuple(line.split(", ")) for line in IMPORTS.splitlines()] == [*reversed(LEVELS)]
