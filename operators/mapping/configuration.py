"""Configuration: a mapping as the commented YAML of a configuration, and as lines that say what was chosen."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from operators.mapping.inference import ROLES, DocumentMapping
from operators.mapping.profile import FieldProfile

_PLAIN: Final = re.compile(r"[A-Za-z][\w.-]*(?: [\w.-]+)*")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""Words that a reader of YAML, if it is not rankstream's, takes for something else than texts."""
_WIDTH: Final = 110
_LISTED: Final = 6
"""Values or fields that a line names."""

_FORMS: Final = {
    "integer": "whole numbers",
    "decimal": "numbers with a point",
    "decimal_comma": "numbers with a comma",
    "boolean": "yes and no",
    "iso_utc": "times without an offset, read as UTC",
    "rfc2822": "times as in e-mail",
    "unix": "seconds",
    "unix_ms": "milliseconds",
    "unix_us": "microseconds",
}


def write_yaml(mapping: DocumentMapping, source: str, form: str, index: str = "./index") -> str:
    """The configuration of a mapping of the documents in `source`, with comments; `index` is the index's directory."""
    return "\n".join(_lines(mapping, source, form, index)) + "\n"


def describe_mapping(mapping: DocumentMapping) -> Iterator[tuple[str, str]]:
    """Each part of the mapping as its name and what was chosen."""
    for role in ROLES:
        if (each := mapping.roles.get(role)) is not None:
            yield role, f"{each.column}{_remark(mapping, role, each)}"
    if "id" not in mapping.roles:
        yield "id", "made of the content: no field is another one in each document"
    searched = [f"{_column(mapping, name)} {weight:g}" for name, weight in mapping.search_fields.items()]
    yield "searched", ", ".join(searched) or "nothing"
    if mapping.indexes:
        yield "filtered", ", ".join(f"{name} ({kind})" for name, kind in mapping.indexes.items())
    read = [f"{_column(mapping, name)} ({_form(form)})" for name, form in mapping.formats.items()]
    marked = [f"{_column(mapping, each)} ({name})" for name in ("html", "markdown") for each in getattr(mapping, name)]
    if read or marked:
        yield "read as", ", ".join([*read, *marked])
    called = {name: column for name, column in mapping.columns.items() if name not in ROLES}
    if called:
        yield "called", ", ".join(f"{column} {name}" for name, column in called.items())
    if mapping.languages_found:
        yield "languages", _counts(mapping.languages_found)
    if mapping.duplicates:
        yield "twice", f"{mapping.duplicates} documents have the id of another one: the last, or the newest, stays"
    if mapping.unused:
        yield "only shown", ", ".join(f"{name} ({why})" for name, why in mapping.unused.items())


def _remark(mapping: DocumentMapping, role: str, each: FieldProfile) -> str:
    if role == "id" and mapping.ids == "integer":
        return " (whole numbers)"
    if role in {"lang", "namespace"}:
        found = mapping.languages_found if role == "lang" else mapping.namespaces
        return f": {_counts(found)}"
    return "" if each.presence > 0.995 else f" (in {each.presence:.0%} of the documents)"


def _counts(found: Sequence[tuple[str, int]]) -> str:
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return ", ".join(f"{name} {count}" for name, count in found[:_LISTED]) + more


def _column(mapping: DocumentMapping, name: str) -> str:
    return mapping.columns.get(name, name)


def _form(form: str) -> str:
    return _FORMS.get(form, form)


def _lines(mapping: DocumentMapping, source: str, form: str, index: str) -> Iterator[str]:
    said = mapping.settings()
    yield from _comment(
        f"Made by `rankstream init` from {mapping.total} documents of {source} ({form}). Change what is wrong: all keys"
        " are in docs/reference/configuration.md, and `rankstream check` says if they fit.",
        "",
    )
    yield from ("", "kafka:", "  bootstrap_servers: localhost:9092", "")
    documents = said.get("documents", {})
    if documents:
        yield "documents:"
        yield from _documents(mapping, documents)
        yield ""
    yield "qdrant:"
    yield f"  path: {_scalar(index)}  # or url: http://localhost:6333"
    yield "  vectors: {fuzzy: fuzzy}  # finds misspelt words"
    yield from _qdrant(mapping, said.get("qdrant", {}))
    if mapping.namespaces:
        yield ""
        yield from _comment(
            f"A query searches one namespace: {_counts(mapping.namespaces)}. Queries that name none search this one.",
            "",
        )
        yield from _entry("defaults", {"namespace": mapping.namespaces[0][0]}, "")
    yield from _remarks(mapping)


def _documents(mapping: DocumentMapping, said: Mapping[str, Any]) -> Iterator[str]:
    if "envelope" in said:
        yield from _entry("envelope", said["envelope"], "  ", "Rows of a database, as Debezium writes them.")
    if "columns" in said:
        yield from _entry(
            "columns",
            said["columns"],
            "  ",
            "Field in the index: name in the documents. Queries and results have the first.",
        )
    if "ids" in said:
        what = (
            "Results have ids as whole numbers, too."
            if said["ids"] == "integer"
            else ("No field is another one in each document: the id is a digest of the content.")
        )
        yield from _entry("ids", said["ids"], "  ", what)
    if "formats" in said:
        examples = {_example(mapping, name) for name in said["formats"]}
        yield from _entry(
            "formats", said["formats"], "  ", f"Forms of values, such as {', '.join(sorted(examples)[:3])}."
        )
    for name, spoken in (("html", "HTML"), ("markdown", "Markdown")):
        if name in said:
            yield from _entry(
                name,
                said[name],
                "  ",
                f"{spoken} is searched and shown as text. keep_original: true keeps it, too.",
            )


def _qdrant(mapping: DocumentMapping, said: Mapping[str, Any]) -> Iterator[str]:
    notes = {
        "search_fields": "Fields that words are searched in, and their weights. Identifiers, found by their shape, and"
        " titles count twice. They are part of the index.",
        "read_fields": "Fields that the models read.",
        "indexes": "Fields to filter and sort by. Results can be grouped by each keyword, integer and bool.",
        "bm25": f"Stems and stop words. Languages: {_counts(mapping.languages_found) or 'not recognised'}.",
    }
    for name, note in notes.items():
        if name in said:
            yield from _entry(name, said[name], "  ", note)


def _remarks(mapping: DocumentMapping) -> Iterator[str]:
    """Comments about the documents that no setting follows from."""
    remarks = []
    if mapping.unused:
        listed = ", ".join(f"{name} ({why})" for name, why in mapping.unused.items())
        remarks.append(f"Not understood, and only returned: {listed}.")
    if "title" not in mapping.roles:
        remarks.append("No field was taken for a title.")
    if "text" not in mapping.roles:
        remarks.append("No field was taken for a long text: titles and the other searched fields are all there is.")
    if mapping.duplicates:
        remarks.append(f"Documents of the sample with the id of another one: {mapping.duplicates}. The newest stays.")
    if mapping.empty:
        remarks.append(f"Documents of the sample with neither title nor text: {mapping.empty}. They are refused.")
    if mapping.large:
        remarks.append(
            f"Documents of the sample larger than limits.max_document_bytes: {mapping.large}. They are refused: raise"
            " it, and max.message.bytes of the topic."
        )
    for each in remarks:
        yield ""
        yield from _comment(each, "")


def _example(mapping: DocumentMapping, name: str) -> str:
    column = _column(mapping, name)
    found = (each for each in mapping.profiles if each.column == column)
    value = next((each.values[0] for each in found), "")
    return f"{column} {json.dumps(value, ensure_ascii=False)[:40]}"


def _comment(text: str, indent: str) -> Iterator[str]:
    line = f"{indent}#"
    for word in text.split():
        if len(line) + 1 + len(word) > _WIDTH and line != f"{indent}#":
            yield line
            line = f"{indent}#"
        line += f" {word}"
    yield line


def _entry(name: str, value: Any, indent: str, note: str | None = None) -> Iterator[str]:
    """The lines of one key: flow style while it fits, or else a line for each member."""
    if note is not None:
        yield from _comment(note, indent)
    line = f"{indent}{_scalar(name)}: {_flow(value)}"
    if len(line) <= _WIDTH or not isinstance(value, Mapping):
        yield line
        return
    yield f"{indent}{_scalar(name)}:"
    for key, each in value.items():
        yield from _entry(key, each, f"{indent}  ")


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(key)}: {_flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value) if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else json.dumps(value)


def _scalar(text: str) -> str:
    """A text as YAML has it: plain where it is words, or else in double quotes, as in JSON."""
    if (_PLAIN.fullmatch(text) and text.lower() not in _WORDS) or re.fullmatch(r"\.{0,2}/[\w./-]+", text):
        return text
    return json.dumps(text, ensure_ascii=False)
