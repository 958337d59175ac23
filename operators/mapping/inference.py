"""Inference: a sample of documents becomes the mapping of their fields onto a configuration.

Rules
-----
- Documents with an id and a text are in rankstream's own form: these fields have the roles of their names.
- A field keeps its name, unless a role gives it another one, it begins with an underscore, or rankstream means
  something else by it: then it is called own_NAME, so that no document is refused or hidden for it.
- Of a language that the field names, each with documents and an analyser is configured. Without such a field, the
  language of the texts is that of all, or none if there are several.
- At most MOST_FIELDS fields are searched: title, text, identifiers, then those that most documents have.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from operators.mapping import languages, roles
from operators.mapping.profile import PROSE, FieldProfile, Kind, profile
from operators.mapping.rows import unwrap
from schemas.document import INDEXED, TEXT, DocumentEvent
from schemas.errors import DeadLetterClass, InputError
from schemas.filters import INDEXABLE
from schemas.settings.delivery import Limits
from schemas.settings.qdrant import MOST_FIELDS

TITLE: Final = "title"
ROLES: Final = ("id", TITLE, TEXT, "created_at", "updated_at", "lang", "namespace")
"""Fields of a document that a field of another program's may be."""

_MOST_INDEXES: Final = 24
_MOST_BYTES: Final = Limits.model_fields["max_document_bytes"].default
_MOST_LANGUAGES: Final = 8
_MARKED: Final = 0.01
"""Share of texts with markup from which a field is read as such."""

_TIERS: Final = frozenset({"public", "internal", "confidential", "restricted"})
_MEANT: Final = {"op": {"upsert", "delete", "patch", "delete_where"}, "classification": _TIERS}
"""Values that these fields may have: any other hides a document, or has it refused."""

_PLACES: Final = frozenset({"collection", "destination", "vector", "schema_version"})
"""Fields that place a document, or are no part of it: those of another program mean something else."""

_OWN: Final = frozenset(DocumentEvent.model_fields)
_STAMPS: Final = frozenset({"created_at", "updated_at", "accessed_at", "confirmed_at"})
_KINDS: Final = {Kind.BOOLEAN: "bool", Kind.TIME: "datetime"}


@dataclass(frozen=True)
class DocumentMapping:
    """The fields of somebody's documents, and the settings that read, search and filter them.

    `columns`: field of a document -> name in the messages. `roles` has the fields by role, in the order in which they
    are told. `unused` are fields that are only returned, with their kind. Of the sample's documents, `duplicates` have
    the id of an earlier one, `empty` neither title nor text, and `large` more bytes than the limit.
    """

    profiles: Sequence[FieldProfile]
    total: int
    columns: Mapping[str, str] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)
    html: Sequence[str] = ()
    markdown: Sequence[str] = ()
    search_fields: Mapping[str, float] = field(default_factory=dict)
    read_fields: Sequence[str] = ()
    indexes: Mapping[str, str] = field(default_factory=dict)
    language: str = "english"
    languages: Mapping[str, str] = field(default_factory=dict)
    languages_found: Sequence[tuple[str, int]] = ()
    ids: str = "text"
    debezium: bool = False
    roles: Mapping[str, FieldProfile] = field(default_factory=dict)
    unused: Mapping[str, str] = field(default_factory=dict)
    namespaces: Sequence[tuple[str, int]] = ()
    duplicates: int = 0
    empty: int = 0
    large: int = 0

    def settings(self) -> dict[str, Any]:
        """The sections `documents` and `qdrant` that say this, as far as it is not the default."""
        documents: dict[str, Any] = {
            "envelope": "debezium" if self.debezium else None,
            "columns": {name: column for name, column in self.columns.items() if name != column},
            "ids": self.ids if self.ids != "text" else None,
            "formats": dict(self.formats),
            "html": {"fields": list(self.html)} if self.html else None,
            "markdown": {"fields": list(self.markdown)} if self.markdown else None,
        }
        bm25 = {"language": self.language if self.language != "english" else None, "languages": dict(self.languages)}
        qdrant: dict[str, Any] = {
            "search_fields": dict(self.search_fields),
            "read_fields": list(self.read_fields) if list(self.read_fields) != [TITLE, TEXT] else None,
            "indexes": dict(self.indexes),
            "bm25": {name: value for name, value in bm25.items() if value},
        }
        sections = {"documents": documents, "qdrant": qdrant}
        return {name: said for name, each in sections.items() if (said := {k: v for k, v in each.items() if v})}


def infer(
    documents: Sequence[dict[str, Any]],
    now: float,
    *,
    markup: bool = True,
    given: Mapping[str, str] = MappingProxyType({}),
) -> DocumentMapping:
    """The mapping of a sample; `now` in Unix seconds.

    `markup`: texts may be HTML or Markdown; else they are plain, whatever they look like. `given` has the columns of
    roles that are not to be decided, "" for none. Raises InputError for a column that no document has.
    """
    debezium = sum(map(_is_debezium, documents)) * 2 > len(documents)
    rows = list(_rows(documents)) if debezium else list(documents)
    profiles = [each for each in profile(rows) if not (debezium and each.names[0].startswith("__"))]
    named = _assign(profiles, now, given)
    names = dict(_names(profiles, named))
    mapping = DocumentMapping(
        profiles,
        len(rows),
        columns={**{name: each.column for name, each in named.items()}, **_rename_others(profiles, named, names)},
        ids=_form_of_ids(named.get("id")),
        debezium=debezium,
        roles=named,
        duplicates=_count_duplicates(named.get("id")),
        namespaces=_count(named.get("namespace")),
        empty=_count_empty(named, len(rows)),
        large=sum(
            len(json.dumps(row, ensure_ascii=False, default=str).encode("utf-8", "replace")) > _MOST_BYTES
            for row in rows
        ),
    )
    return _choose_searched(replace(mapping, **_read(profiles, names, markup=markup), **_languages(named)), names)


def _is_debezium(row: Mapping[str, Any]) -> bool:
    changed = row.keys() >= {"before", "after", "op"} or row.keys() == {"schema", "payload"}
    return changed or bool(row.keys() & {"__op", "__deleted", "__source_ts_ms"})


def _rows(documents: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for each in documents:
        try:
            row = unwrap(each)
        except InputError:
            continue
        # A deleted row is empty but for its key.
        if row.get("__deleted") not in (True, "true") and row.get("__op") != "d":
            yield row


def _assign(profiles: Sequence[FieldProfile], now: float, given: Mapping[str, str]) -> dict[str, FieldProfile]:
    """The fields with a role, by the name that a document has for it."""
    by_column = {each.column: each for each in profiles}
    if wrong := sorted({*given.values(), ""} - {"", *by_column}):
        raise InputError(DeadLetterClass.INVALID, f"{wrong[0]}: no document has this field")
    fixed = {role: by_column.get(column) for role, column in {**_own_form(by_column), **given}.items()}
    id_ = fixed["id"] if "id" in fixed else roles.find_id(profiles)
    text = fixed[TEXT] if TEXT in fixed else roles.find_text([each for each in profiles if each not in fixed.values()])
    others = [each for each in profiles if each is not id_]
    # In rankstream's own form an id is no title, however much it looks like one.
    title = fixed[TITLE] if TITLE in fixed else roles.find_title(others, text, id_ if TEXT not in fixed else None)
    if title is None and TEXT not in fixed and text is not None and text.words < PROSE and text.kind is Kind.SHORT:
        # The longest text of documents without others is a name.
        title, text = text, None
    created, updated = roles.find_times(profiles, now)
    found = {"id": id_, TITLE: title, TEXT: text, "created_at": created, "updated_at": updated}
    found |= {"lang": roles.find_language(profiles), "namespace": roles.find_namespace(profiles), **fixed}
    return {name: each for name, each in found.items() if each is not None}


def _own_form(by_column: Mapping[str, FieldProfile]) -> dict[str, str]:
    """The roles that documents in rankstream's own form say by their names: with an id each, and a text."""
    id_, text = by_column.get("id"), by_column.get(TEXT)
    if id_ is None or text is None or id_.presence < 1 or text.presence < 0.5 or set(map(type, text.values)) != {str}:
        return {}
    return {"id": "id", TEXT: TEXT, **({TITLE: TITLE} if TITLE in by_column else {})}


def _names(
    profiles: Sequence[FieldProfile], named: Mapping[str, FieldProfile]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """The name in the index of each field, by its names in the messages."""
    of_role = {each.names: name for name, each in reversed(list(named.items())) if name != "id"}
    taken = {*named, *(each.names[0] for each in profiles)}
    for each in profiles:
        name = of_role.get(each.names, each.column)
        if each.names not in of_role and (_means_other(each, named) or not INDEXABLE.fullmatch(name)):
            plain = re.sub(r"[^\w-]+", "_", ".".join(each.names)).strip("_") or "field"
            name = plain if plain not in taken | _OWN else f"own_{plain}"
            taken.add(name)
        yield each.names, name


def _means_other(each: FieldProfile, named: Mapping[str, FieldProfile]) -> bool:
    """True if rankstream takes the field for something else than it is, or refuses one of its values."""
    name = each.names[0]
    if name not in _OWN or name in named or name.startswith("_") or len(each.names) > 1:
        return name in _OWN or name in named or name.startswith("_")
    if name in _PLACES or (name in _MEANT and not set(map(str, each.values)) <= _MEANT[name]):
        return True
    return not all(_is_valid(name, value) for value in list(each.rows.values())[:500])


def _is_valid(name: str, value: Any) -> bool:
    try:
        DocumentEvent.model_validate({"id": "i", "text": "t", name: value})
    except ValueError:
        return False
    return True


def _rename_others(
    profiles: Sequence[FieldProfile], named: Mapping[str, FieldProfile], names: Mapping[tuple[str, ...], str]
) -> dict[str, str]:
    roles_of = {each.names for each in named.values()}
    return {
        names[each.names]: each.column
        for each in profiles
        if each.names not in roles_of and names[each.names] != each.column
    }


def _form_of_ids(id_: FieldProfile | None) -> str:
    if id_ is None:
        return "content"
    return "integer" if all(type(value) is int for value in id_.values) else "text"


def _count_duplicates(id_: FieldProfile | None) -> int:
    return len(id_.rows) - id_.distinct if id_ is not None else 0


def _count_empty(named: Mapping[str, FieldProfile], total: int) -> int:
    content = (named[name].rows.keys() for name in (TITLE, TEXT) if name in named)
    return total - len(set().union(*content))


def _count(each: FieldProfile | None) -> list[tuple[str, int]]:
    return Counter(str(value) for value in each.rows.values()).most_common() if each is not None else []


def _read(profiles: Sequence[FieldProfile], names: Mapping[tuple[str, ...], str], *, markup: bool) -> dict[str, Any]:
    """The forms of values, and the fields with markup."""
    formats: dict[str, str] = {}
    html, markdown = [], []
    for each in profiles:
        name = names[each.names]
        if each.kind is Kind.TIME and each.time:
            formats[name] = each.time
        elif each.kind in {Kind.NUMBER, Kind.BOOLEAN} and each.number is not None:
            formats[name] = each.number
        elif not markup:
            continue
        elif each.kind in {Kind.PROSE, Kind.SHORT} and each.html >= _MARKED:
            html.append(name)
        elif each.kind is Kind.PROSE and each.markdown >= 0.3:
            markdown.append(name)
    return {"formats": formats, "html": html, "markdown": markdown}


def _languages(named: Mapping[str, FieldProfile]) -> dict[str, Any]:
    if (said := named.get("lang")) is not None:
        counts = Counter(languages.analyser(str(value)) for value in said.rows.values())
        known = [(name, count) for name, count in counts.most_common() if name is not None]
        base = known[0][0] if known else "english"
        tags = {str(value): languages.analyser(str(value)) for value in said.rows.values()}
        short = {
            tag.lower().replace("_", "-").partition("-")[0]: name for tag, name in tags.items() if name is not None
        }
        most = {name for name, _ in known[: _MOST_LANGUAGES + 1]}
        others = {tag: name for tag, name in sorted(short.items()) if name != base and name in most}
        return {"language": base, "languages": others, "languages_found": _count(said)}
    texts = (
        f"{title} {text}"
        for row in range(max((each.total for each in named.values()), default=0))
        if (text := _text_at(named.get(TEXT), row)) + (title := _text_at(named.get(TITLE), row))
    )
    found = languages.detect_all(texts)
    if not found:
        return {}
    (first, count), total = found[0], sum(count for _, count in found)
    return {"language": first if count >= 0.8 * total else "none", "languages_found": found}


def _text_at(each: FieldProfile | None, row: int) -> str:
    value = each.rows.get(row) if each is not None else None
    return value if isinstance(value, str) else ""


def _choose_searched(mapping: DocumentMapping, names: Mapping[tuple[str, ...], str]) -> DocumentMapping:
    """The mapping with the fields that are searched, read, and filtered."""
    roles_of = {each.names for each in mapping.roles.values()}
    others = [each for each in mapping.profiles if each.names not in roles_of and _can_index(names[each.names])]
    searched = roles.rank_searched(filter(roles.worth_searching, others), _weight)
    weights = {TITLE: 2.0} if TITLE in mapping.roles else {}
    weights |= {TEXT: 1.0} if TEXT in mapping.roles else {}
    if (id_ := mapping.roles.get("id")) is not None and id_.kind is Kind.IDENTIFIER:
        weights["id"] = 2.0
    searched = searched[: MOST_FIELDS - len(weights)]
    weights |= {names[each.names]: _weight(each) for each in searched}
    prose = [each for each in searched if each.kind is Kind.PROSE and each.presence >= 0.2]
    read = [TITLE, *(names[each.names] for each in sorted(prose, key=lambda each: each.words)[:2]), TEXT]
    filtered = [each for each in others if roles.worth_filtering(each)]
    indexes = {names[each.names]: _index(each) for each in filtered if names[each.names] not in INDEXED}
    used = {*weights, *indexes, *(names[each] for each in roles_of), *INDEXED}
    unused = {
        each.column: each.kind.value if each.distinct > 1 else "always the same"
        for each in mapping.profiles
        if names[each.names] not in used and each.names not in roles_of
    }
    chosen = dict(list(indexes.items())[:_MOST_INDEXES])
    return replace(mapping, search_fields=weights, read_fields=read, indexes=chosen, unused=unused)


def _weight(each: FieldProfile) -> float:
    return 2.0 if each.kind is Kind.IDENTIFIER else 1.0


def _can_index(name: str) -> bool:
    return INDEXABLE.fullmatch(name) is not None and '"' not in name and not name.startswith("_")


def _index(each: FieldProfile) -> str:
    if each.kind is Kind.NUMBER:
        whole = each.number == "integer" or all(type(value) is int for value in each.values)
        return "integer" if whole else "float"
    return _KINDS.get(each.kind, "keyword")
