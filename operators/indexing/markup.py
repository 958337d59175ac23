"""Markup: the text of HTML and Markdown as a reader sees it.

Rules:
- A block, such as a paragraph, a heading or a row of a table, begins a line; headings and paragraphs have an empty line
  before them. An entry of a list begins with a hyphen, or with its number, and cells have a bar between them.
- White space is one space, except in preformatted text, which stays as it is.
- Scripts, styles, forms' controls and what a page hides are left out. Of a link and of an image the words stay.
- Of a whole page the main part counts, if it is marked as such; else all but navigation, header and footer.
- A text without a tag keeps its lines; its entities are characters.
"""

import html
import re
from collections.abc import Sequence
from functools import cache, partial
from itertools import count
from typing import Any, Final

from markdown_it import MarkdownIt
from selectolax.lexbor import LexborHTMLParser, LexborNode

from operators.mapping.profile import has_tag, is_html
from operators.mapping.rows import change_values
from schemas.errors import DeadLetterClass, InputError
from schemas.filters import names_of
from schemas.settings.delivery import DocumentSettings

_OUT: Final = (
    "script, style, template, noscript, svg, math, iframe, object, select, button, input, textarea, head, [hidden],"
    " [aria-hidden='true'], [style*='display:none' i], [style*='display: none' i], [style*='visibility:hidden' i],"
    " [style*='visibility: hidden' i]"
)
_AROUND: Final = "nav, header, footer, aside"
_NUMBERED, _LINE, _PARAGRAPH, _ROW, _CELL, _MARK = "\x00\x01\x02\x03\x04\x05"
"""Characters of what separates words, until these are put together."""

_SEPARATORS: Final = {
    **dict.fromkeys(("p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "dl", "table", "pre"), _PARAGRAPH),
    **dict.fromkeys(("blockquote", "figure", "section", "article", "hr"), _PARAGRAPH),
    **dict.fromkeys(("div", "li", "dt", "dd", "caption", "figcaption", "address", "main", "body", "details"), _LINE),
    **dict.fromkeys(("summary", "fieldset", "br"), _LINE),
    "tr": _ROW,
}
_SEPARATED: Final = re.compile(f"[ {_NUMBERED}{_LINE}{_PARAGRAPH}{_ROW}{_CELL}{_MARK}]+")
_CONTROL: Final = re.compile("[\x00-\x08]")
_AS_IS: Final = str.maketrans(" \t\n", "\x06\x07\x08")
_AT_LAST: Final = str.maketrans("\x06\x07\x08", " \t\n")
_PAGE: Final = re.compile(r"\s*(?:<!doctype|<html|<\?xml|<body)", re.IGNORECASE)
_ELEMENT: Final = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_UNCLOSED: Final = frozenset(
    ("p", "li", "dt", "dd", "td", "th", "tr", "tbody", "thead", "option", "colgroup", "area", "base", "br", "col")
).union(("embed", "hr", "img", "input", "link", "meta", "source", "wbr"))
_DEEPEST: Final = 1000
_INTEGER: Final = re.compile(r"-?[0-9]{1,9}")
_SPACE: Final = re.compile(r"[ \t\n\r\f\v\u00a0]+")


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
    """The text below a node, by a stack of its own: pages may be nested deeper than Python calls."""
    pieces: list[str] = []
    stack: list[tuple[LexborNode | str, bool, str]] = [(root, False, _MARK)]
    while stack:
        node, preformatted, mark = stack.pop()
        if isinstance(node, str):
            pieces.append(node)
        elif node.is_text_node:
            words = _CONTROL.sub("", node.text_content or "")
            pieces.append(words.translate(_AS_IS) if preformatted else _SPACE.sub(" ", words))
        else:
            tag, separator = node.tag, _SEPARATORS.get(node.tag or "", "")
            if separator == _PARAGRAPH and node.parent is not None and node.parent.tag == "li":
                separator = _LINE
            begin = mark if tag == "li" else _CELL if tag in {"td", "th"} else ""
            pieces.append(f"{separator}{begin}{(node.attributes.get('alt') or '') if tag == 'img' else ''}")
            stack.append((separator, preformatted, ""))
            preformatted = preformatted or tag == "pre"
            below = list(node.iter(include_text=True))
            ordered = tag == "ol"
            number = count(_start(node) if ordered else 1)
            marks = [f"{next(number)}.{_NUMBERED}" if ordered and each.tag == "li" else _MARK for each in below]
            stack += [(each, preformatted, mark) for each, mark in zip(reversed(below), reversed(marks), strict=True)]
    text = _SEPARATED.sub(_separate, "".join(pieces)).strip(" \n").translate(_AT_LAST)
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return re.sub("\n{3,}", "\n\n", lines).strip("\n")


def _start(node: LexborNode) -> int:
    """The number of the first entry of a list."""
    written = node.attributes.get("start") or ""
    return int(written) if _INTEGER.fullmatch(written) else 1


def _separate(found: re.Match[str]) -> str:
    """The line ends, mark or bar between two words; what stands behind a mark ends no line."""
    if found[0].startswith(_NUMBERED):
        return " "
    before, mark, _ = found[0].partition(_MARK)
    if _CELL in before and _ROW not in before:
        return " | "
    ends = "\n\n" if _PARAGRAPH in before else "\n" if _LINE in before or _ROW in before else ""
    return f"{ends}- " if mark else ends or " "


@cache
def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


def markdown_text(source: str) -> str:
    """The text of Markdown, CommonMark with tables; HTML in it is read, too."""
    return html_text(_markdown().render(source))


def _read_text(languages: Sequence[str], value: Any) -> Any:
    """The text of a value in one of these languages, html and markdown: of two its beginning tells the one."""
    if not isinstance(value, str):
        return value
    read_as = languages[0] if len(languages) == 1 or is_html(value) else "markdown"
    return html_text(value) if read_as == "html" else markdown_text(value)


def read_markup(event: dict[str, Any], documents: DocumentSettings) -> dict[str, Any]:
    """The event with the text of its fields in HTML, in Markdown, or in either.

    Raises InputError `invalid` for markup that is nested too deeply.
    """
    both = {"html": documents.html, "markdown": documents.markdown}
    for field in dict.fromkeys(name for each in both.values() for name in each.fields):
        languages = [name for name, each in both.items() if field in each.fields]
        for name in languages:
            if both[name].keep_original and isinstance(event.get(field), str):
                event = {**event, f"{field}_{name}": event[field]}
        try:
            event = change_values(event, names_of(field), partial(_read_text, languages))
        except ValueError as error:
            raise InputError(DeadLetterClass.INVALID, f"{field}: {error}", field) from error
    return event
