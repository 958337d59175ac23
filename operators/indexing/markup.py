"""Markup: the text of HTML and Markdown as a reader sees it.

Rules
-----
- A block, such as a paragraph, a heading or a row of a table, begins a line; headings and paragraphs have an empty line
  before them. An entry of a list begins with a hyphen, and cells have a bar between them.
- White space is one space, except in preformatted text, which stays as it is.
- Scripts, styles, forms' controls and what a page hides are left out. Of a link and of an image the words stay.
- Of a whole page the main part counts, if it is marked as such; else all but navigation, header and footer.
- A text without a tag keeps its lines; its entities are characters.
"""

import html
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final

from markdown_it import MarkdownIt
from selectolax.lexbor import LexborHTMLParser, LexborNode

from operators.mapping.profile import has_tag
from operators.mapping.rows import change_values
from schemas.errors import DeadLetterClass, InputError
from schemas.filters import names_of
from schemas.settings.delivery import MarkupSettings

_OUT: Final = (
    "script, style, template, noscript, svg, math, iframe, object, select, button, input, textarea, head, [hidden],"
    " [aria-hidden='true'], [style*='display:none' i], [style*='display: none' i], [style*='visibility:hidden' i],"
    " [style*='visibility: hidden' i]"
)
_AROUND: Final = "nav, header, footer, aside"
_PARAGRAPHS: Final = frozenset(
    {
        *("p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "dl", "table", "pre", "blockquote", "figure"),
        *("section", "article", "hr"),
    }
)
_LINES: Final = frozenset(
    {
        *("div", "li", "dt", "dd", "tr", "caption", "figcaption", "address", "main", "body", "details"),
        *("summary", "fieldset"),
    }
)
_CELLS: Final = frozenset({"td", "th"})
_PAGE: Final = re.compile(r"\s*(?:<!doctype|<html|<\?xml|<body)", re.IGNORECASE)
_ELEMENT: Final = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_UNCLOSED: Final = frozenset(
    {
        *("p", "li", "dt", "dd", "td", "th", "tr", "tbody", "thead", "option", "colgroup", "area", "base"),
        *("br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"),
    }
)
_DEEPEST: Final = 1000
_SPACE: Final = re.compile(r"[ \t\n\r\f\v\u00a0]+")


class _Text:
    """Text that is put together of words and breaks."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._breaks = 0
        self._space = False
        self._marked = False

    @property
    def begins_line(self) -> bool:
        """True if the next words are the first of their line."""
        return self._breaks > 0 or not self._pieces

    def end_lines(self, count: int) -> None:
        """Have at least so many line ends before the next words, unless the line has a mark alone."""
        if count and not self._marked:
            self._breaks, self._space = max(self._breaks, count), False

    def mark(self, mark: str) -> None:
        """Begin a line with a mark, behind which the next words stand."""
        if not self._marked:
            self._write(mark)
            self._marked = True

    def add(self, words: str, *, as_is: bool = False) -> None:
        """Add words; `as_is`: with their white space."""
        if as_is:
            self._write(words)
            return
        folded = _SPACE.sub(" ", words)
        if not (stripped := folded.strip(" ")):
            self._space = self._space or bool(folded)
            return
        if (self._space or folded[0] == " ") and not self._breaks and self._pieces:
            self._pieces.append(" ")
        self._write(stripped)
        self._space = folded[-1] == " "

    def _write(self, words: str) -> None:
        if self._pieces:
            self._pieces.append("\n" * self._breaks)
        self._breaks, self._space, self._marked = 0, False, False
        self._pieces.append(words)

    def finish(self) -> str:
        """The text, without white space at the ends of its lines, and with one empty line at a time."""
        lines = "\n".join(line.rstrip() for line in "".join(self._pieces).split("\n"))
        return re.sub("\n{3,}", "\n\n", lines).strip("\n")


def html_text(source: str) -> str:
    """The text of HTML, a whole page or a part of one. Raises ValueError for elements nested too deeply."""
    if not has_tag(source):
        return html.unescape(source)
    if (depth := _depth(source)) > _DEEPEST:
        raise ValueError(f"{depth} levels of elements, expected at most {_DEEPEST}")
    tree = LexborHTMLParser(source)
    for node in tree.css(_OUT):
        if node.tag != "body":
            node.decompose()
    root = tree.body
    if root is None:
        return ""
    if _PAGE.match(source):
        if (main := tree.css_first("main, [role='main']") or tree.css_first("article")) is not None:
            root = main
        else:
            for node in tree.css(_AROUND):
                node.decompose()
    return _read(root)


def _depth(source: str) -> int:
    """The levels of elements within each other: the parser's time grows with their square."""
    depth = deepest = 0
    for closing, name in _ELEMENT.findall(source):
        if name.lower() not in _UNCLOSED:
            depth = max(0, depth - 1) if closing else depth + 1
            deepest = max(deepest, depth)
    return deepest


def html_title(source: str) -> str | None:
    """The title of a page, or else its first heading."""
    tree = LexborHTMLParser(source)
    found = tree.css_first("title") or tree.css_first("h1")
    return _SPACE.sub(" ", found.text()).strip() or None if found is not None else None


def _read(root: LexborNode) -> str:
    """The text below a node. It keeps its own way: pages may be nested deeper than Python calls."""
    text, preformatted = _Text(), 0
    node: LexborNode | None = root
    while node is not None:
        if node.is_text_node:
            text.add(node.text_content or "", as_is=preformatted > 0)
        else:
            _begin(node, text)
            preformatted += node.tag == "pre"
            if node.child is not None:
                node = node.child
                continue
        while node is not None:
            if not node.is_text_node:
                preformatted -= node.tag == "pre"
                text.end_lines(_breaks(node))
            # Two nodes are compared by their HTML.
            if node.mem_id == root.mem_id:
                return text.finish()
            if node.next is not None:
                node = node.next
                break
            node = node.parent
    return text.finish()


def _breaks(node: LexborNode) -> int:
    if node.tag in _PARAGRAPHS:
        return 1 if node.parent is not None and node.parent.tag == "li" else 2
    return int(node.tag in _LINES)


def _begin(node: LexborNode, text: _Text) -> None:
    text.end_lines(_breaks(node))
    if node.tag == "br":
        text.end_lines(1)
    elif node.tag == "li":
        text.mark("- ")
    elif node.tag in _CELLS and not text.begins_line:
        text.add(" | ")
    elif node.tag == "img" and (alt := node.attributes.get("alt")):
        text.add(alt)


@cache
def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


def markdown_text(source: str) -> str:
    """The text of Markdown, CommonMark with tables; HTML in it is read, too."""
    return html_text(_markdown().render(source))


_LANGUAGES: Final[Mapping[str, Callable[[str], str]]] = {"html": html_text, "markdown": markdown_text}


def read_markup(event: dict[str, Any], name: str, settings: MarkupSettings) -> dict[str, Any]:
    """The event with the text of its fields in this language, html or markdown.

    Raises InputError `invalid` for markup that is nested too deeply.
    """
    for field in settings.fields:
        if settings.keep_original and isinstance(event.get(field), str):
            event = {**event, f"{field}_{name}": event[field]}
        try:
            event = change_values(event, names_of(field), partial(_text_of, _LANGUAGES[name]))
        except ValueError as error:
            raise InputError(DeadLetterClass.INVALID, f"{field}: {error}", field) from error
    return event


def _text_of(read: Callable[[str], str], value: Any) -> Any:
    return read(value) if isinstance(value, str) else value
