"""Records: the documents in a file of somebody's, or in a folder, as objects.

Rules:
- A file is JSON Lines, one JSON document with a list of objects somewhere in it, or CSV; its beginning says which. Its
  name counts for a single line alone, which is a record in a file .jsonl. A folder has a document in each file of
  Markdown, HTML or plain text, at whatever depth.
- The records of a JSON document are the objects of an array, or of the longest one in it at any depth, or itself if it
  has a text.
- CSV has a header. Its separator is the one of comma, semicolon, tab and bar that gives most rows the same number of
  columns, two at least. Its values are texts, and an empty one is none. Rows that an open quote joins are none.
- Text is UTF-8, UTF-16 with a byte order mark, or else Windows-1252.
- One record that cannot be read spoils no other: it comes as an error.
"""

import csv
import hashlib
import io
import shutil
import sys
import tempfile
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self

import orjson
import yaml

from flows.cli.ingestion import OWN_FORM, RejectedDocument, file_version, numbered_lines
from flows.cli.output import STDIN, say, stderr
from operators.indexing.markup import html_text, html_title, markdown_text
from operators.mapping.rows import column_value
from schemas.errors import DeadLetterClass, InputError
from schemas.event import json_object
from schemas.settings import DocumentSettings

Record = tuple[str, dict[str, Any] | InputError]
"""A place as a reader of the source finds it, such as `line 3`, and the object or the reason why there is none."""

_BEGINNING: Final = 65_536

_CONTENT: Final = frozenset({"id", "title", "text", "vector"})
_LINES: Final = frozenset({".jsonl", ".ndjson"})
_SEPARATORS: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_SAME: Final = 0.9
_MARKDOWN: Final = frozenset({".md", ".markdown", ".mdx"})
_HTML: Final = frozenset({".html", ".htm", ".xhtml"})
_TEXT: Final = frozenset({".txt", ".rst", ".adoc", ".text"})
_FRONT: Final = "---"


@dataclass(frozen=True)
class Records:
    """The documents in a file or folder; `form` says in words how they are written, `separator` is that of CSV.

    `settings` are the configured form of the documents.
    """

    path: Path
    form: str
    separator: str | None = None
    settings: DocumentSettings = OWN_FORM

    @classmethod
    def of(cls, path: Path, settings: DocumentSettings = OWN_FORM) -> Self:
        """The documents at a path. Raises InputError for a file of another form, OSError if it cannot be read."""
        if path.is_dir():
            return cls(path, "a folder", settings=settings)
        with path.open("rb") as stream:
            begin = _decode(stream.read(_BEGINNING)).lstrip("\ufeff \t\r\n")
        if begin.startswith(("{", "[")):
            form = "JSON Lines" if begin[0] == "{" and _is_lines(path) else "JSON"
            return cls(path, form, settings=settings)
        if not begin:
            raise InputError(DeadLetterClass.INVALID, f"{path}: there is no document in it")
        if (separator := _separator(begin)) is not None:
            return cls(path, f"CSV with {_SEPARATORS[separator]}", separator, settings)
        raise InputError(
            DeadLetterClass.INVALID,
            f"{path}: JSON Lines, a JSON array, CSV with a header, or a folder of Markdown or HTML is expected",
        )

    @classmethod
    @contextmanager
    def open(cls, path: Path, settings: DocumentSettings = OWN_FORM) -> Iterator[Self]:
        """The documents at a path, or those of standard input for `-`. Raises as `of` does."""
        with tempfile.TemporaryDirectory() as directory:
            yield cls.of(copy_stdin(Path(directory)) if path == STDIN else path, settings)

    def version(self) -> str:
        """A digest of all documents."""
        if not self.path.is_dir():
            return file_version(self.path)
        digests = [f"{name.relative_to(self.path)} {file_version(name)}" for name in _files(self.path)]
        return hashlib.sha256("\n".join(digests).encode("utf-8", "surrogateescape")).hexdigest()

    def read(self) -> Iterator[Record]:
        """Every record. Raises InputError for a file that breaks off."""
        if self.path.is_dir():
            return (_read_page(self.path, each) for each in _files(self.path))
        if self.separator is not None:
            return self._read_csv(self.separator)
        return self._read_lines() if self.form == "JSON Lines" else self._read_json()

    def objects(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The records. Raises InputError naming the first that is no object."""
        for place, each in self.read():
            if isinstance(each, InputError):
                raise InputError(each.kind, f"{self.path}: {place}: {each}") from each
            yield place, each

    def usable(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The records that are objects."""
        return ((place, each) for place, each in self.read() if not isinstance(each, InputError))

    def survey(self) -> tuple[list[RejectedDocument], int]:
        """The others, and the number of all records. Says which configured columns are in none.

        Only upserts must have them: a patch has a few. Raises InputError if all lack them, and any id, title and text.
        """
        wrong, total, upserts, fits = list[RejectedDocument](), 0, 0, False
        absent = self.settings.columns if self.settings.envelope == "none" else {}
        usable = {*absent.values(), *(_CONTENT - absent.keys())}
        for total, (place, each) in enumerate(self.read(), 1):  # noqa: B007
            if isinstance(each, InputError):
                wrong.append(RejectedDocument(place, "", each.kind, str(each)))
            elif absent and each.get("op") in (None, "upsert"):
                upserts += 1
                fits = fits or any(_has(each, column) for column in usable)
                absent = {name: column for name, column in absent.items() if not _has(each, column)}
        if upserts and not fits:
            why = "no document has a configured column: documents.columns are those of others"
            raise InputError(DeadLetterClass.INVALID, f"{self.path}: {why}")
        for name, column in absent.items() if upserts else ():
            say(stderr, f"documents.columns.{name}: no document has {column}", "yellow")
        return wrong, total

    def _read_lines(self) -> Iterator[Record]:
        for number, line in numbered_lines(self.path):
            try:
                yield f"line {number}", json_object(line, len(line))
            except InputError as error:
                yield f"line {number}", error

    def _read_json(self) -> Iterator[Record]:
        try:
            found = orjson.loads(_decode(self.path.read_bytes()).lstrip("\ufeff").encode())
        except orjson.JSONDecodeError as error:
            raise InputError(DeadLetterClass.NOT_JSON, f"{self.path}: not JSON: {error}") from None
        for number, each in enumerate(self._find_records(found), 1):
            problem = f"a JSON object is expected, not {type(each).__name__}"
            yield f"record {number}", each if isinstance(each, dict) else InputError(DeadLetterClass.INVALID, problem)

    def _find_records(self, found: Any) -> list[Any]:
        """The records of a JSON document: itself if it is a row or has a text, else those of its longest array."""
        if isinstance(found, list):
            return found
        is_row = "op" in found or self.settings.envelope == "debezium"
        if is_row or _has(found, self.settings.columns.get("text", "text")):
            return [found]
        return max(_find_lists(found), key=len, default=[found])

    def _read_csv(self, separator: str) -> Iterator[Record]:
        csv.field_size_limit(sys.maxsize)
        lines = [*io.StringIO(_decode(self.path.read_bytes()).lstrip("\ufeff"), newline="")]
        rows, names = csv.reader(lines, delimiter=separator, strict=True), list[str]()
        while True:
            begin = rows.line_num + 1
            problem = None
            try:
                if (cells := next(rows, None)) is None:
                    return
            except csv.Error:
                # A quote within a value does no harm, unless it joins lines or columns.
                [cells] = csv.reader([lines[rows.line_num - 1]], delimiter=separator)
                if rows.line_num > begin or (names and len(cells) != len(names)):
                    problem = f"a quote is open up to line {rows.line_num}; close it, or double it within a value"
            if names and any(map(str.strip, cells[len(names) :])):
                problem = problem or f"{len(cells)} columns, and the header has {len(names)}"
            if problem is None and not names:
                names = _header(cells)
            elif problem is not None:
                yield f"line {begin}", InputError(DeadLetterClass.INVALID, problem)
            elif found := {name: cell for name, cell in zip(names, cells, strict=False) if cell.strip()}:
                yield f"line {begin}", found


def copy_stdin(directory: Path) -> Path:
    """A file in this directory with all of standard input, since documents are read more than once."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "standard input"
    with path.open("wb") as stream:
        shutil.copyfileobj(sys.stdin.buffer, stream)
    return path


def _decode(content: bytes) -> str:
    if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return content.decode("utf-16", "replace")
    try:
        # A beginning may end within a character.
        return content.removeprefix(BOM_UTF8).decode("utf-8", "strict" if len(content) != _BEGINNING else "ignore")
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")


def _has(row: Mapping[str, Any], column: str) -> bool:
    return column in row or column_value(row, column) is not None


def _find_lists(frame: Mapping[str, Any]) -> Iterator[list[Any]]:
    """The arrays of objects in a JSON object, at whatever depth, without those in records."""
    for each in frame.values():
        if isinstance(each, dict):
            yield from _find_lists(each)
        elif isinstance(each, list) and each and isinstance(each[0], dict):
            yield each


def _is_lines(path: Path) -> bool:
    """True if the first line is an object, and there is another line: a single one may be the frame of a list."""
    lines = [line for _, line in islice(numbered_lines(path), 2)]
    with suppress(orjson.JSONDecodeError):
        return isinstance(orjson.loads(lines[0]), dict) and (len(lines) > 1 or path.suffix.lower() in _LINES)
    return False


def _separator(text: str) -> str | None:
    """The character between the columns, None if no row has two. An open quote ends the rows that are counted."""
    best, most = None, 1
    for each in _SEPARATORS:
        rows, read = list[int](), csv.reader(io.StringIO(text, newline=""), delimiter=each, strict=True)
        with suppress(csv.Error):
            for row in islice(read, 200):
                rows += [len(row)] if row else []
        # The last row of a beginning may break off.
        rows = rows[:-1] if len(rows) > 2 else rows
        columns = rows[0] if rows else 0
        if columns > most and sum(count == columns for count in rows) >= _SAME * len(rows):
            best, most = each, columns
    return best


def _header(cells: list[str]) -> list[str]:
    """Names of columns, each once; one without a name has its number."""
    names: list[str] = []
    for number, cell in enumerate(cells, 1):
        name = " ".join(cell.split()) or f"column_{number}"
        names.append(name if name not in names else f"{name}_{number}")
    return names


def _files(folder: Path) -> list[Path]:
    """The files of documents in a folder, hidden ones left out."""
    known = _MARKDOWN | _HTML | _TEXT
    found = (each for each in folder.rglob("*") if each.suffix.lower() in known and each.is_file())
    return sorted(each for each in found if not any(part.startswith(".") for part in each.relative_to(folder).parts))


def _read_page(folder: Path, path: Path) -> Record:
    """A file as a document: its path, title and text, and the fields of its front matter."""
    source, kind = _decode(path.read_bytes()).lstrip("\ufeff"), path.suffix.lower()
    place = path.relative_to(folder).as_posix()
    page: dict[str, Any] = {"path": place}
    try:
        if kind in _HTML:
            return place, {**page, "title": html_title(source) or path.stem, "text": html_text(source)}
        front, body = _front_matter(source)
        text = markdown_text(body) if kind in _MARKDOWN else body
        title = next((line.lstrip("# ").strip() for line in body.splitlines() if line.startswith("# ")), path.stem)
        return place, {**page, "title": title, **front, "text": text}
    except (yaml.YAMLError, ValueError) as error:
        return place, InputError(DeadLetterClass.INVALID, " ".join(str(error).split()))


def _front_matter(source: str) -> tuple[Mapping[str, Any], str]:
    """The fields between two lines of hyphens at the beginning of a page, as texts, and the page behind them."""
    if not source.startswith(_FRONT):
        return {}, source
    head, found, body = source.removeprefix(_FRONT).partition(f"\n{_FRONT}")
    fields = yaml.load(head, Loader=yaml.CBaseLoader) if found else None  # noqa: S506  it makes texts alone
    return (fields, body.partition("\n")[2]) if isinstance(fields, dict) else ({}, source)
