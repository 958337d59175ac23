"""Inference: a sample of documents becomes the mapping of their fields onto a configuration.

Rules:
- Documents with an id and a text are in rankstream's own form: these fields have the roles of their names.
- A field keeps its name, unless a role gives it another one, it begins with an underscore, or rankstream means
  something else by it: then it is called own_NAME, so that no document is refused or hidden for it.
- Of a language that the field names, each with documents and an analyser is configured. Without such a field, the
  commonest of the texts is that of all. Accents are folded if letters other than umlauts have some.
- Documents without an id, of few, get a digest of their content.
- Documents that follow one another are searched with their neighbours, by the recipe `conversation`. Others with long
  texts are searched by `documents`.
- At most MOST_FIELDS fields are searched: title, text, identifiers, then those that most documents have.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, Final

from operators.mapping import roles
from operators.mapping.document_order import find_order
from operators.mapping.formats import NEARLY_ALL, Form, describe_times
from operators.mapping.profile import IDENTIFIER, MANY_WORDS, MIXED, PROSE, SHORT, TIME, FieldProfile, profile
from operators.mapping.rows import is_deleted, unwrap
from schemas.document import INDEXED, TEXT, DocumentEvent
from schemas.errors import DeadLetterClass, InputError, unknown
from schemas.filters import INDEXABLE
from schemas.settings.delivery import LISTS, Limits
from schemas.settings.qdrant import MOST_FIELDS, language_tag
from schemas.texts import nfc

TITLE: Final = "title"
ROLES: Final = ("id", TITLE, TEXT, "created_at", "updated_at", "lang", "namespace")
"""Fields of a document that a field of another program's may be."""

ENGLISH: Final = "english"
_MOST_INDEXES: Final = 24
_MOST_BYTES: Final = Limits.model_fields["max_document_bytes"].default
_MOST_LANGUAGES: Final = 8
_PARAGRAPH: Final = 100.0
"""Mean number of words from which texts are long."""

_MARKED: Final = 0.01
"""Share of texts with markup from which a field is read as such."""

_MEANT: Final = {
    "op": {"upsert", "delete", "patch", "delete_where"},
    "classification": {"public", "internal", "confidential", "restricted"},
    **{name: set() for name in ("collection", "destination", "vector", "schema_version")},
}
"""Values that these fields may have: any other hides a document, has it refused, or places it. None is a place."""

_OWN: Final = frozenset(DocumentEvent.model_fields)
_INDEXED: Final = re.compile(r"(?!_)[\w-]+(?:\.[\w-]+)*")


@dataclass(frozen=True)
class DocumentMapping:
    """The fields of somebody's documents, and the settings that read, search and filter them.

    `documents` and `qdrant` are sections of the configuration, as far as they are not the default; `recipe` ranks
    queries if the default is not the best. `roles` has the
    fields by role, in the order in which they are told. `remarks` are what no setting follows from, each with its name.
    """

    profiles: Sequence[FieldProfile]
    total: int
    roles: Mapping[str, FieldProfile]
    documents: Mapping[str, Any]
    qdrant: Mapping[str, Any]
    languages: Sequence[tuple[str, int]]
    namespaces: Sequence[tuple[str, int]]
    remarks: Sequence[tuple[str, str]]
    recipe: str | None = None

    def settings(self) -> dict[str, Any]:
        """The sections, as far as they say something."""
        defaults = _drop_empty({"recipe": self.recipe})
        return _drop_empty({"documents": self.documents, "qdrant": self.qdrant, "defaults": defaults})


def _drop_empty(section: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in section.items() if value}


def infer(
    documents: Sequence[dict[str, Any]],
    now: float,
    *,
    markup: bool = True,
    given: Mapping[str, str] = MappingProxyType({}),
    stored: bool = False,
) -> DocumentMapping:
    """The mapping of a sample; `now` in Unix seconds.

    `markup`: texts may be HTML or Markdown; else they are plain, whatever they look like. `given` has the columns of
    roles that are not to be decided, "" for none. `stored`: an index has the documents, so that fields are what they
    are there. Raises InputError for a column that no document has.
    """
    debezium = sum(map(_is_debezium, documents)) * 2 > len(documents)
    rows = list(_rows(documents)) if debezium else documents
    profiles = [each for each in profile(rows) if not (debezium and each.names[0].startswith("__"))]
    named = _assign(profiles, now, given)
    _name(profiles, named)
    points = _join_points(profiles) if not stored else {}
    joined = [*named.values(), *chain.from_iterable(points.values())]
    id_, others = named.get("id"), [each for each in profiles if each not in joined]
    # The column of the id may have the title, too.
    columns = {**{each.name: each.column for each in profiles}, **{role: each.column for role, each in named.items()}}
    chosen = _choose_fields(others, named)
    chosen["indexes"] = dict.fromkeys(points, "geo") | chosen["indexes"]
    order = find_order(profiles, named) if not stored else None
    if order is not None:
        group_by = order.group.name if order.group is not None else None
        # The models read its neighbours with a document: what all of them share tells nothing.
        chosen["read_fields"] = None
        chosen["context"] = _drop_empty({"order_by": order.by.name, "group_by": group_by})
    bm25, spoken = _languages(named)
    nameless = len(_with_words(named) - id_.rows.keys()) if id_ is not None else 0
    weights = chosen["search_fields"]
    if any(roles.has_accents(text) for each in profiles if each.name in weights for text in each.texts):
        bm25["accents"] = "fold"
    used = [f"{name.replace('[]', '')}." for name in (*weights, *chosen["indexes"], *INDEXED)]
    unused = [
        f"{each.column} ({each.kind.name if each.distinct > 1 else 'always the same'})"
        for each in others
        if not any(name.startswith(f"{each.name}.") for name in used)
    ]
    section = {
        "envelope": "debezium" if debezium else None,
        "columns": {name: column for name, column in columns.items() if name != column},
        "ids": "content" if id_ is None or nameless else "integer" if set(map(type, id_.seen)) == {int} else None,
        **_read(profiles, named, markup=markup),
    }
    return DocumentMapping(
        profiles,
        len(rows),
        named,
        documents=_drop_empty(section),
        qdrant=_drop_empty({**chosen, "bm25": bm25}),
        languages=spoken,
        namespaces=_count(named["namespace"]) if "namespace" in named else (),
        remarks=[*describe_absent(named), *_describe_odd(profiles), *_describe_rows(rows, named, unused, nameless)],
        recipe="conversation" if order is not None else "documents" if _is_long(named) else None,
    )


def describe_absent(named: Mapping[str, FieldProfile]) -> Iterator[tuple[str, str]]:
    """Remarks on a title and a text that are not there."""
    if TITLE not in named:
        yield TITLE, "none was found"
    if TEXT not in named:
        yield TEXT, "none was found: titles and the other searched fields are all there is"


def _is_long(named: Mapping[str, FieldProfile]) -> bool:
    return TEXT in named and named[TEXT].words >= _PARAGRAPH


def _with_words(named: Mapping[str, FieldProfile]) -> set[int]:
    """The numbers of the documents that have a title or a text."""
    return {row for name in (TITLE, TEXT) if name in named for row in named[name].rows}


def _describe_odd(profiles: Sequence[FieldProfile]) -> Iterator[tuple[str, str]]:
    """Remarks on values that are another thing than nearly all of their field, and on fields that are times in part."""
    for each in profiles:
        if each.odd:
            count = f"{len(each.odd)} of {len(each.seen)} values"
            yield "odd", f"{each.column}: {each.kind.name}, except {count}, such as {each.odd[0]!r:.60}"
        if each.kind in {SHORT, IDENTIFIER, MIXED} and (reason := describe_times(each.values)):
            yield "no times", f"{each.column}: {reason}"


def _describe_rows(
    rows: Sequence[Mapping[str, Any]], named: Mapping[str, FieldProfile], unused: Sequence[str], nameless: int
) -> Iterator[tuple[str, str]]:
    """Remarks on fields that are only returned, with their kind, and on documents that are refused, or no other's."""
    if (id_ := named.get("id")) is None:
        yield "id", "made of the content: no field is unique"
    elif nameless:
        yield "id", f"{nameless} of {len(rows)} documents have none: theirs is made of their content"
    if unused:
        yield "only shown", ", ".join(unused)
    if id_ is not None and (repeated := len(id_.rows) - id_.distinct):
        yield "twice", f"{repeated} documents have the id of another one: the last, or the newest, stays"
    if empty := len(rows) - len(_with_words(named)):
        yield "empty", f"{empty} documents have neither title nor text, and are refused"
    sizes = (len(json.dumps(row, ensure_ascii=False, default=str).encode("utf-8", "replace")) for row in rows)
    if large := sum(size > _MOST_BYTES for size in sizes):
        cure = "raise limits.max_document_bytes, and max.message.bytes of the topic"
        yield "too large", f"{large} documents are refused: {cure}"


def _is_debezium(row: Mapping[str, Any]) -> bool:
    changed = row.keys() >= {"before", "after", "op"} or row.keys() == {"schema", "payload"}
    return changed or bool(row.keys() & {"__op", "__deleted", "__source_ts_ms"})


def _rows(documents: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for each in documents:
        with suppress(InputError):
            row = unwrap(each)
            # A deleted row is empty but for its key.
            if not is_deleted(row):
                yield row


def _assign(profiles: Sequence[FieldProfile], now: float, given: Mapping[str, str]) -> dict[str, FieldProfile]:
    """The fields with a role, by the name that a document has for it, in the order of ROLES."""
    by_column = {each.column: each for each in profiles}
    if wrong := [column for column in given.values() if column and column not in by_column]:
        raise InputError(DeadLetterClass.INVALID, f"{wrong[0]}: {unknown(wrong[0], [*by_column], 'field')}", wrong[0])
    fixed = {role: by_column.get(column) for role, column in {**_own_form(by_column), **given}.items()}
    id_ = fixed["id"] if "id" in fixed else roles.find_id(profiles)
    text = fixed[TEXT] if TEXT in fixed else roles.find_text([each for each in profiles if each not in fixed.values()])
    others = [each for each in profiles if each is not id_]
    # In rankstream's own form an id is no title, however much it looks like one.
    title = fixed[TITLE] if TITLE in fixed else roles.find_title(others, text, id_ if TEXT not in fixed else None)
    created, updated = roles.find_times(profiles, now)
    found = {"id": id_, TITLE: title, TEXT: text, "created_at": created, "updated_at": updated}
    found |= {"lang": roles.find_language(profiles), "namespace": roles.find_namespace(profiles), **fixed}
    named = {name: each for name, each in found.items() if each is not None}
    lone = text if title is None and not fixed.keys() & {TITLE, TEXT} else None
    if lone is None or lone.words >= MANY_WORDS or lone.kind is not SHORT or find_order(profiles, named) is not None:
        return named
    # The longest text of documents without others is a name, unless they follow one another.
    return {TITLE if name == TEXT else name: each for name, each in named.items()}


def _own_form(by_column: Mapping[str, FieldProfile]) -> dict[str, str]:
    """The roles that documents in rankstream's own form say by their names: with an id each, and a text."""
    id_, text = by_column.get("id"), by_column.get(TEXT)
    if id_ is None or id_.presence < NEARLY_ALL or text is None or text.presence < 0.5 or text.texts != text.values:
        return {}
    return {name: name for name in ("id", TEXT, TITLE) if name in by_column}


def _name(profiles: Sequence[FieldProfile], named: Mapping[str, FieldProfile]) -> None:
    """Give each field its name in the index."""
    taken = {*named, *_OWN, *(each.names[0] for each in profiles)}
    for each in profiles:
        each.name = each.column
        if _means_other(each, named) or not INDEXABLE.fullmatch(each.column):
            each.name = _free_name(".".join(each.names), taken)
            taken.add(each.name)
    for role, each in named.items():
        each.name = role


def _free_name(said: str, taken: Set[str]) -> str:
    plain = re.sub(r"[^\w-]+", "_", nfc(said)).strip("_") or "field"
    return plain if plain not in taken else f"own_{plain}"


def _join_points(profiles: Sequence[FieldProfile]) -> dict[str, list[FieldProfile]]:
    """The points by their names in the index, with the fields of each, which are named as its halves."""
    taken, points = {each.name.partition(".")[0] for each in profiles}, dict[str, list[FieldProfile]]()
    for (*above, shared), halves in roles.find_points(profiles).items():
        if not shared and above and all(each.name == ".".join((*above, half)) for half, each in halves.items()):
            name = ".".join(above)
        else:
            name = _free_name(f"{shared}_location", taken)
            for half, each in halves.items():
                each.name = f"{name}.{half}"
        points[name] = [*halves.values()]
    return points


def _means_other(each: FieldProfile, named: Mapping[str, FieldProfile]) -> bool:
    """True if rankstream takes the field for something else than it is, or refuses one of its values."""
    name = each.names[0]
    if name in named or name.startswith("_"):
        return True
    if name not in _OWN:
        return False
    meant = _MEANT.get(name)
    if len(each.names) > 1 or (meant is not None and not meant.issuperset(map(str, each.values))):
        return True
    return not all(_is_valid(name, value) for value in list(each.rows.values())[:500])


def _is_valid(name: str, value: Any) -> bool:
    try:
        DocumentEvent.model_validate({"id": "i", "text": "t", name: value})
    except ValueError:
        return False
    return True


def _count(each: FieldProfile) -> list[tuple[str, int]]:
    return Counter(str(value) for value in each.rows.values()).most_common()


def _read(profiles: Sequence[FieldProfile], named: Mapping[str, FieldProfile], *, markup: bool) -> dict[str, Any]:
    """The forms of values, and the fields with markup. Of those with a role times alone have a form, and no id has."""
    formats: dict[str, Form] = {}
    html, markdown = [], []
    for each in profiles:
        told = each.kind is TIME or (each not in named.values() and (each.kind is not IDENTIFIER or each.form in LISTS))
        if each.form and told and each.name != "id":
            formats[each.name] = each.form
        elif markup and each.kind in {PROSE, SHORT}:
            html += [each.name] if each.html >= _MARKED else []
            markdown += [each.name] if each.kind is PROSE and each.markdown >= 0.3 else []
    marked = {"html": html, "markdown": markdown}
    return {"formats": formats} | {name: {"fields": fields} for name, fields in marked.items() if fields}


def _languages(named: Mapping[str, FieldProfile]) -> tuple[dict[str, Any], Sequence[tuple[str, int]]]:
    """The analyser's languages, and those of the documents with their numbers."""
    said, texts = named.get("lang"), [named[name].rows for name in (TITLE, TEXT) if name in named]
    untold = set[int]().union(*texts).difference(said.rows if said is not None else ())
    recognised = roles.detect_all(
        " ".join(text for rows in texts if isinstance(text := rows.get(row), str)) for row in untold
    )
    if said is None:
        base = recognised[0][0] if recognised else ENGLISH
        return {"language": base} if base != ENGLISH else {}, recognised
    found = _count(said)
    analysers = {tag: name for tag, _ in found if (name := roles.analyser(tag)) is not None}
    totals = Counter(dict(recognised))
    for tag, count in found:
        totals[analysers.get(tag, "")] += count
    base = next((name for name, _ in totals.most_common() if name), ENGLISH)
    others = {language_tag(tag).partition("-")[0]: name for tag, name in analysers.items() if name != base}
    by_tag = dict(sorted(islice(others.items(), _MOST_LANGUAGES)))
    return _drop_empty({"language": base if base != ENGLISH else None, "languages": by_tag}), found


def _choose_fields(others: Sequence[FieldProfile], named: Mapping[str, FieldProfile]) -> dict[str, Any]:
    """The fields that are searched, read by the models, and filtered."""
    usable = [each for each in others if _INDEXED.fullmatch(each.name)]
    weights = {name: weight for name, weight in ((TITLE, 2.0), (TEXT, 1.0)) if name in named}
    if "id" in named and named["id"].kind is IDENTIFIER:
        weights["id"] = 2.0
    members = list(chain.from_iterable(map(_members, usable)))
    names = [each for each in members if each.kind in {SHORT, IDENTIFIER}]
    searched = roles.rank_searched([*usable, *names])[: MOST_FIELDS - len(weights)]
    weights |= {each.name.replace("[]", ""): each.weight for each in searched}
    prose = [each for each in searched if each.kind is PROSE and each.presence >= 0.2]
    prose = sorted(prose, key=lambda each: each.words)[:2]
    # People name a document by the words that it shares with others: its kind, maker or place.
    shared = [each for each in searched if each in usable and each.is_read and each.uniqueness < 0.5]
    contents = [*prose, *shared, *(named[name] for name in (TITLE, TEXT) if name in named)]
    told = [*shared, *roles.find_variants(usable, contents, named.get("id")), *prose]
    read = [each.name for each in (named.get(TITLE), *told, named.get(TEXT)) if each is not None]
    filtered = [*usable, *(each for each in members if each.form is None)]
    indexes = {each.name: each.index for each in filtered if each.index is not None and each.name not in INDEXED}
    return {
        "search_fields": weights,
        "read_fields": read if told else None,
        "indexes": dict(islice(indexes.items(), _MOST_INDEXES)),
    }


def _members(each: FieldProfile) -> Iterator[FieldProfile]:
    """The fields of the objects in a list, by the names that filters have for them."""
    for member in profile([value for value in each.values if isinstance(value, dict)]) if each.listed else ():
        if _INDEXED.fullmatch(member.column):
            member.name, member.position = f"{each.name}[].{member.column}", each.position
            yield member
