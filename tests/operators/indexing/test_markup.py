"""Markup: the text of HTML and Markdown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.indexing.markup import html_text, html_title, markdown_text
from schemas.errors import InputError
from schemas.settings import DocumentSettings
from tests.operators.indexing.documents import decoder, read
from tests.operators.samples import message


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (
            "<h2>Reset &amp; go</h2><p>Hold the <b>button</b> at <a href='x'>the back</a>.</p>",
            "Reset & go\n\nHold the button at the back.",
        ),
        ("<p>one<br>two</p>", "one\ntwo"),
        ("<ul><li>one</li><li><p>two</p><ul><li>deep</li></ul></li></ul>", "- one\n- two\n- deep"),
        ("<ol><li>one</li> <li><p>two</p></li></ol>", "1. one\n2. two"),
        (
            "<p>a</p><ol start='3'><li>c<ol><li>i</li><li>ii</li></ol></li><li>d</li></ol>",
            "a\n\n3. c\n1. i\n2. ii\n4. d",
        ),
        ("<ol start='x'><li>a<ul><li>b</li></ul></li></ol><ul><li>c</li></ul>", "1. a\n- b\n\n- c"),
        ("<table><tr> <th>A</th><th>B</th></tr>\n<tr><td>1</td><td>2</td></tr></table>", "A | B\n1 | 2"),
        ("<pre><code>def f():\n    return 1\n</code></pre>", "def f():\n    return 1"),
        ("<p>a<script>x</script><style>y</style></p><p hidden>z</p><div style='display: none'>w</div>", "a"),
        ("<p>see <img src='x' alt='the lamp'></p>", "see the lamp"),
        ("plain\n  lines &amp; List<String> stay", "plain\n  lines & List<String> stay"),
        ("", ""),
    ],
)
def test_html_is_read_as_it_is_seen(source: str, text: str) -> None:
    """Blocks are lines, hidden parts are out, and code keeps its white space."""
    assert html_text(source) == text


def test_of_a_page_the_main_part_counts() -> None:
    """Navigation is no text; without a marked part all but what is around it is."""
    page = "<!doctype html><html><head><title>T</title></head><body><nav>n</nav>{}<footer>f</footer></body></html>"
    assert html_text(page.format("<main><p>m</p></main>")) == "m"
    assert html_text(page.format("<p>m</p>")) == "m"
    assert html_title(page) == "T"


def test_markdown_is_read_as_it_is_seen() -> None:
    """Tables, lists and code as of HTML."""
    lists = "- a\n- b\n\n3. c\n4. d\n\n"
    source = f"# T\n\nSome *text* with\na [link](x).\n\n{lists}| a | b |\n|---|---|\n| 1 | 2 |\n\n```\nx  y\n```"
    assert markdown_text(source) == f"T\n\nSome text with a link.\n\n{lists}a | b\n1 | 2\n\nx  y"


@given(
    st.lists(st.sampled_from(["<p>", "</p>", "<b>", "<li>", "</ul>", "<td>", "<pre>", "a ", "&lt;", "<br>", "<!--"]))
)
def test_broken_html_has_a_text(pieces: list[str]) -> None:
    """Whatever is opened or closed, and no tag is left in it."""
    assert "<b>" not in html_text("".join(pieces))


def test_a_document_has_the_text_in_place_of_the_markup() -> None:
    """The original stays only where it is wanted."""
    settings = DocumentSettings.model_validate({"html": {"fields": ["text"], "keep_original": True}})
    event = read(decoder(documents=settings), message({"id": 7, "text": "<p>a</p><p>b</p>"})).event
    assert (event.id, event.text, event.model_extra) == ("7", "a\n\nb", {"text_html": "<p>a</p><p>b</p>"})


def test_elements_within_a_thousand_others_are_refused() -> None:
    """The parser's time grows with the square of their depth."""
    settings = DocumentSettings.model_validate({"html": {"fields": ["text"]}})
    with pytest.raises(InputError, match="text: 1001 levels of elements, expected at most 1000"):
        decoder(documents=settings)(message({"id": "d", "text": "<div>" * 1001}))


def test_formats_and_nested_columns_are_read() -> None:
    """A value in another form stays as it is; a document without an id gets one of its content."""
    said = {"columns": {"title": "head.line"}, "formats": {"price": "decimal_comma"}, "ids": "content"}
    decode = decoder(documents=DocumentSettings.model_validate(said))
    found, same = (read(decode, message({"head": {"line": "T"}, "price": "9,50"})).event for _ in range(2))
    assert (found.title, found.model_extra, found.id) == ("T", {"price": 9.5}, same.id)
    assert read(decode, message({"id": "i", "text": "t", "price": "on request"})).event.model_extra == {
        "price": "on request"
    }


def test_a_field_may_have_both_markups() -> None:
    """The beginning of a text tells its own; the originals stay under both names, if that is wanted."""
    both = {"fields": ["text"]}
    settings = DocumentSettings.model_validate({"html": both, "markdown": {**both, "keep_original": True}})
    for source, text in [
        ("<p>Use <code>**kwargs**</code> &lt;name&gt;</p>", "Use **kwargs** <name>"),
        ("## Head\n\n**FAT32** <br> or `a_b_c`", "Head\n\nFAT32\nor a_b_c"),
    ]:
        event = read(decoder(documents=settings), message({"id": "d", "text": source})).event
        assert event.text == text
        assert (event.model_extra or {})["text_markdown"] == source
