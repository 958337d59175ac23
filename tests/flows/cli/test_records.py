"""Records: the documents in files and folders of other programs."""

from pathlib import Path

import pytest

from flows.cli.records import Records
from schemas.errors import InputError


@pytest.mark.parametrize(
    ("content", "form", "found"),
    [
        (b'{"a": 1}\n\n{"a": 2}\n', "JSON Lines", [{"a": 1}, {"a": 2}]),
        (b'\xef\xbb\xbf [{"a": 1},\n {"a": 2}]', "JSON", [{"a": 1}, {"a": 2}]),
        (b'{"name": "x", "messages": [{"a": 1}, {"a": 2}]}', "JSON", [{"a": 1}, {"a": 2}]),
        (b'{\n "hits": {"hits": [{"a": 1}]}\n}', "JSON", [{"a": 1}]),
        (b'a;b\n1;"x;\ny"\n2;\n', "CSV with semicolons", [{"a": "1", "b": "x;\ny"}, {"a": "2"}]),
        ("a,b\nGröße,é\n".encode("cp1252"), "CSV with commas", [{"a": "Größe", "b": "é"}]),
        ("a\tb\n1\t2\n".encode("utf-16"), "CSV with tabs", [{"a": "1", "b": "2"}]),
        (b"a,a,\n1,2,3\n", "CSV with commas", [{"a": "1", "a_2": "2", "column_3": "3"}]),
    ],
)
def test_a_file_says_what_it_is(tmp_path: Path, content: bytes, form: str, found: list[dict[str, object]]) -> None:
    """By its beginning, whatever its name is."""
    path = tmp_path / "export"
    path.write_bytes(content)
    records = Records.of(path)
    assert records.form == form
    assert [document for _, document in records.objects()] == found


def test_a_wrong_record_spoils_no_other(tmp_path: Path) -> None:
    """It is named by its place: in JSON Lines a line, in an array a record, in a folder the file."""
    path = tmp_path / "export"
    path.write_bytes(b'{"a": 1}\n[2]\n{"a": 3}\n')
    records = Records.of(path)
    assert list(records.usable()) == [("line 1", {"a": 1}), ("line 3", {"a": 3})]
    assert records.wrong() == (["line 2: a JSON object is expected, not list"], 3)
    with pytest.raises(InputError, match="export: line 2: a JSON object is expected, not list"):
        list(records.objects())
    path.write_bytes(b'[{"a": 1},\n\n [2], {"a": 3}]')
    assert list(Records.of(path).usable()) == [("record 1", {"a": 1}), ("record 3", {"a": 3})]
    assert Records.of(path).wrong() == (["record 2: a JSON object is expected, not list"], 3)
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "a.md").write_text("---\na: [\n---\nText.")
    [wrong], total = Records.of(tmp_path / "pages").wrong()
    assert (wrong.startswith("a.md: while parsing"), total) == (True, 1)


def test_a_row_with_too_many_cells_is_wrong(tmp_path: Path) -> None:
    """A separator within a cell that is not quoted would move all that is behind it."""
    path = tmp_path / "export"
    path.write_bytes(b"a,b\n" + b"1,2\n" * 20 + b"1,2,3\n")
    assert Records.of(path).wrong() == (["line 22: 3 columns, and the header has 2"], 21)


@pytest.mark.parametrize("content", [b"", b"one column\nof text\n"])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    """With the forms that are read."""
    path = tmp_path / "export"
    path.write_bytes(content)
    with pytest.raises(InputError):
        Records.of(path)


def test_a_folder_has_a_document_in_each_page(tmp_path: Path) -> None:
    """Front matter gives fields, a heading or the title of a page its title, and hidden folders are left out."""
    (tmp_path / "guide").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.md").write_text("no")
    (tmp_path / "guide" / "a.md").write_text("---\ntags: [x, y]\ndate: 2024-01-31\n---\n# Head\n\nSome *text*.\n")
    (tmp_path / "b.html").write_text("<html><head><title>Page</title></head><body><p>Words</p></body></html>")
    (tmp_path / "c.txt").write_text("plain")
    assert [document for _, document in Records.of(tmp_path).objects()] == [
        {"path": "b.html", "title": "Page", "text": "Words"},
        {"path": "c.txt", "title": "c", "text": "plain"},
        {"path": "guide/a.md", "title": "Head", "tags": ["x", "y"], "date": "2024-01-31", "text": "Head\n\nSome text."},
    ]


def test_the_version_of_a_folder_is_that_of_its_pages(tmp_path: Path) -> None:
    """A page that changes changes it."""
    page = tmp_path / "a.md"
    page.write_text("one")
    before = Records.of(tmp_path).version()
    assert Records.of(tmp_path).version() == before
    page.write_text("two")
    assert Records.of(tmp_path).version() != before
