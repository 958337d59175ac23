"""Records: the documents in files and folders of other programs."""

import json
from pathlib import Path
from typing import Final

import pytest

from flows.cli.records import Records
from schemas.errors import InputError
from schemas.settings import DocumentSettings


def survey(records: Records) -> tuple[list[str], int]:
    """The records that are none, in words, and the number of all."""
    wrong, total = records.survey()
    return [*map(str, wrong)], total


@pytest.mark.parametrize(
    ("content", "form", "found"),
    [
        (b'{"a": 1}\n\n{"a": 2}\n', "JSON Lines", [{"a": 1}, {"a": 2}]),
        (b'\xef\xbb\xbf [{"a": 1},\n {"a": 2}]', "JSON", [{"a": 1}, {"a": 2}]),
        (b'{"name": "x", "messages": [{"a": 1}, {"a": 2}]}', "JSON", [{"a": 1}, {"a": 2}]),
        (b'a;b\n1;"x;\ny"\n2;\n', "CSV with semicolons", [{"a": "1", "b": "x;\ny"}, {"a": "2"}]),
        ("a,b\nGröße,é\n".encode("cp1252"), "CSV with commas", [{"a": "Größe", "b": "é"}]),
        ("a\tb\n1\t2\n".encode("utf-16"), "CSV with tabs", [{"a": "1", "b": "2"}]),
        (b"a,a,\n1,2,3\n", "CSV with commas", [{"a": "1", "a_2": "2", "column_3": "3"}]),
        (
            b'a;b\n1;"the "old" one"\n2;5" pipe\n',
            "CSV with semicolons",
            [{"a": "1", "b": 'the old" one"'}, {"a": "2", "b": '5" pipe'}],
        ),
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
    assert survey(records) == (["line 2, document without id: invalid: a JSON object is expected, not list"], 3)
    with pytest.raises(InputError, match="export: line 2: a JSON object is expected, not list"):
        list(records.objects())
    path.write_bytes(b'[{"a": 1},\n\n [2], {"a": 3}]')
    assert list(Records.of(path).usable()) == [("record 1", {"a": 1}), ("record 3", {"a": 3})]
    assert survey(Records.of(path)) == (
        ["record 2, document without id: invalid: a JSON object is expected, not list"],
        3,
    )
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "a.md").write_text("---\na: [\n---\nText.")
    [wrong], total = survey(Records.of(tmp_path / "pages"))
    assert (wrong.startswith("a.md, document without id: invalid: while parsing"), total) == (True, 1)


@pytest.mark.parametrize(
    ("row", "columns", "fits"),
    [
        ({"slug": "a", "name": "b"}, {"id": "No", "title": "Subject"}, False),
        ({"No": "a", "name": "b"}, {"id": "No", "title": "Subject"}, True),
        ({"id": "a", "text": "b"}, {"created_at": "Created"}, True),
        ({"Created": 1}, {"created_at": "Created", "title": "Subject"}, True),
        ({"vector": [1.0]}, {"title": "Subject"}, True),
        ({"No": "a", "op": "patch", "x": 1}, {"id": "No", "title": "Subject"}, True),
        ({"slug": "a"}, {}, True),
    ],
)
def test_a_file_of_another_configuration_is_stopped(
    tmp_path: Path, row: dict[str, object], columns: dict[str, str], fits: bool
) -> None:
    """It stops if no document has any of the configured columns, nor an id, a title, a text or a vector."""
    path = tmp_path / "export.jsonl"
    path.write_text(json.dumps(row))
    records = Records.of(path, DocumentSettings(columns=columns))
    if fits:
        assert records.survey() == ([], 1)
    else:
        with pytest.raises(InputError, match="no document has a configured column"):
            records.survey()


ARTICLE: Final = {"id": "a", "title": "T", "body": {"content": "x"}, "tags": [{"id": "t", "title": "U"}, {"id": "u"}]}


@pytest.mark.parametrize(
    ("file", "content", "columns", "ids"),
    [
        ("s.json", ARTICLE, {"text": "body.content"}, ["a"]),
        ("s.json", {"id": "a", "op": "patch", "parts": [{"id": "t", "text": "x"}]}, {}, ["a"]),
        ("s.json", {"text": "x", "id": "a", "parts": [{"id": "t", "title": "T", "text": "x"}]}, {}, ["a"]),
        ("s.json", {"id": "chat", "messages": [{"id": "m", "text": "x"}, {"id": "n", "text": "y"}]}, {}, ["m", "n"]),
        ("s.json", {"users": [{"id": "u"}], "posts": [{"id": "p"}, {"id": "q"}]}, {}, ["p", "q"]),
        ("s.json", {"meta": {"n": 2}, "a": {"b": {"posts": [{"id": "p"}, {"id": "q"}]}}}, {}, ["p", "q"]),
        ("s.json", {"data": {"p": {"of": [{"id": "x"}], "edges": [{"id": "e"}, {"id": "f"}]}}}, {}, ["e", "f"]),
        ("s.json", {"posts": [{"id": "p", "a": {"b": [{"id": "x"}, {"id": "y"}]}}]}, {}, ["p"]),
        ("s.json", {"site": "s", "posts": [{"id": "p", "head": "x"}]}, {}, ["p"]),
        ("s.jsonl", {"id": "a", "posts": [{"id": "p", "text": "x"}]}, {}, ["a"]),
    ],
)
def test_an_object_with_the_configured_fields_is_the_record(
    tmp_path: Path, file: str, content: dict[str, object], columns: dict[str, str], ids: list[str]
) -> None:
    """And not one of an array in it; one line of JSON Lines always is."""
    path = tmp_path / file
    path.write_text(json.dumps(content))
    found = Records.of(path, DocumentSettings(columns=columns))
    assert [each["id"] for _, each in found.objects()] == ids


def test_a_column_that_no_document_has_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Patches and deletions need not have it."""
    path = tmp_path / "s.jsonl"
    path.write_text("".join(f"{json.dumps(ARTICLE)}\n" for _ in range(2)))
    settings = DocumentSettings(columns={"text": "body.contents", "title": "title", "created_at": "when"})
    assert Records.of(path, settings).survey() == ([], 2)
    assert capsys.readouterr().err == (
        "documents.columns.text: no document has body.contents\ndocuments.columns.created_at: no document has when\n"
    )
    path.write_text('{"id": "a", "op": "patch"}\n{"id": "a", "op": "delete"}\n')
    Records.of(path, settings).survey()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("rows", "first", "last", "left"),
    [
        ('1;"x\n2;"y"\n3;z\n', 2, 3, ["3"]),
        ('1;x\n2;"y\n3;z\n4;w\n', 3, 5, ["1"]),
        ('1;"x\n2;y\n', 2, 3, []),
        ('1;"x;y" z\n2;y\n', None, 0, ["1", "2"]),
        ('1;"x\ny"\n2;"y ""z"" \n"\n', None, 0, ["1", "2"]),
    ],
)
def test_an_open_quote_is_named_by_its_lines(
    tmp_path: Path, rows: str, first: int | None, last: int, left: list[str]
) -> None:
    """The rows that it joins are no record, and those behind it are."""
    path = tmp_path / "export"
    path.write_text(f"a;b\n{rows}")
    records = Records.of(path)
    assert [each["a"] for _, each in records.usable()] == left
    problem = f"a quote is open up to line {last}; close it, or double it within a value"
    wrong = [f"line {first}, document without id: invalid: {problem}"] if first is not None else []
    assert survey(records) == (wrong, len(left) + len(wrong))


def test_a_row_with_too_many_cells_is_wrong(tmp_path: Path) -> None:
    """A separator within a cell that is not quoted would move all that is behind it."""
    path = tmp_path / "export"
    path.write_bytes(b"a,b\n" + b"1,2\n" * 20 + b"1,2,3\n")
    wrong = "line 22, document without id: invalid: 3 columns, and the header has 2"
    assert survey(Records.of(path)) == ([wrong], 21)


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
