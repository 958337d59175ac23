"""The pages of the documentation, and the blocks of code on them."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
PAGES: Final = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]

_FENCED: Final = re.compile(r"(?ms)^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)``` *$")


class Block(NamedTuple):
    """One fenced block: its page by the path within the repository, its line, its info string, and its text."""

    page: str
    line: int
    info: str
    text: str

    @property
    def language(self) -> str:
        """The first word of the info string."""
        return self.info.split(" ")[0]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page in their order; what indents a whole block is left out."""
    text = page.read_text(encoding="utf-8")
    for found in _FENCED.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(str(page.relative_to(ROOT)), line, found["info"].strip(), textwrap.dedent(found["text"]))


BLOCKS: Final = [block for page in PAGES for block in blocks(page)]
