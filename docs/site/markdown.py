"""Markdown as the pages are written: lines of at most 120 characters."""

import textwrap
from typing import Final

WIDTH: Final = 120


def paragraph(text: str) -> str:
    """A paragraph, wrapped."""
    return _wrapped(text, "")


def item(text: str) -> str:
    """An item of a list, wrapped, with room for a backslash: a break before `continued`."""
    return "- " + _wrapped(text, "  ", WIDTH - 3)


def continued(text: str) -> str:
    """What an item goes on with on a line of its own, wrapped; its first line is to be indented."""
    return _wrapped(text, "  ", WIDTH - 3)


def code(text: str) -> str:
    """Text as code, whatever backquotes it holds."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _wrapped(text: str, indent: str, width: int = WIDTH) -> str:
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    return f"\n{indent}".join(lines)
