"""Collections that another tool filled: a description and a sample of the points become settings that search them.

Rules:
- The id of a document is that of its point, unless some ids are whole numbers and others UUIDs.
- The dense vector is the first whose distance grows with similarity; a multivector is none.
- A sparse vector has BM25 terms if its numbers are larger than any vocabulary: there they are hashes of words.
- A field without a role keeps its name, unless rankstream means something else by it. The only text is no title.
- A field without an index stays without: what the collection lacks is a remark.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, get_args

from operators.mapping.formats import Form
from operators.mapping.inference import TITLE, DocumentMapping, describe_absent
from operators.mapping.profile import FieldProfile, quote_name
from schemas.document import FILTERED, NAMESPACE, TEXT
from schemas.filters import INDEXABLE, rename
from schemas.settings.qdrant import PATH, QdrantSettings

_RANKED: Final = frozenset({"Cosine", "Dot"})
_VOCABULARY: Final = 1_000_000
_FORMS: Final = frozenset({"", "iso_utc", "unix", "unix_ms"})
"""Forms of times that are read as another tool wrote them."""

_INDEXED: Final = get_args(get_args(QdrantSettings.model_fields["indexes"].annotation)[1])


@dataclass(frozen=True)
class Layout:
    """A collection as Qdrant describes it.

    `vectors` and `indexes` map names to parameters and types, `sparse` the names of sparse vectors to the largest
    number in a sample of them. `ids` are the kinds of its points' ids: integer, uuid.
    """

    name: str
    points: int
    ids: frozenset[str]
    vectors: Mapping[str, Mapping[str, Any]]
    sparse: Mapping[str, int]
    indexes: Mapping[str, str]

    @property
    def dense(self) -> str | None:
        """The vector that is searched; one that cannot be ranked by where there is no other."""
        single = [name for name, each in self.vectors.items() if not each.get("multivector_config")]
        return next((name for name in single if not self._is_unranked(name)), next(iter(single), None))

    @property
    def terms(self) -> str | None:
        """The sparse vector with BM25 terms."""
        return next((name for name, largest in self.sparse.items() if largest > _VOCABULARY), None)

    def _is_unranked(self, name: str) -> bool:
        return self.vectors[name].get("distance") not in _RANKED or self.vectors[name].get("datatype") == "uint8"

    def describe_vectors(self) -> Iterator[tuple[str, str]]:
        """Remarks on the vectors, each with its name."""
        shown = {name: f"{name or 'without a name'} ({each.get('size')})" for name, each in self.vectors.items()}
        if self.dense is None:
            yield "vectors", "none is dense: nothing is found by meaning"
        else:
            size = self.vectors[self.dense].get("size")
            cure = 'embedder: {kind: openai, url: "http://localhost:8000/v1", model: ...}'
            till = "till then queries must bring a `vector` to find by meaning"
            yield "embedder", f"name the model that made the {size} numbers of each vector, such as {cure}; {till}"
            if self._is_unranked(self.dense):
                yield (
                    "vectors",
                    f"{shown[self.dense]}: its distance or datatype ranks the wrong way round: not searched",
                )
        if others := [each for name, each in shown.items() if name != self.dense]:
            yield "not searched", f"vectors {', '.join(others)}"
        if self.terms is None:
            yield "keywords", "no vector of BM25 terms: nothing is found by words, unless the index of the text ranks"
        for name in self.sparse:
            if name != self.terms:
                cure = "name it as qdrant.vectors.learned, and the model in sparse_encoder"
                yield "learned", f"{name} is a model's: {cure}"


def map_collection(mapping: DocumentMapping, layout: Layout) -> DocumentMapping:
    """The mapping of a collection's payloads, with the settings that search them as they are."""
    roles = {name: each for name, each in mapping.roles.items() if _is_read(name, each.form or "", each.values)}
    if TEXT not in roles and TITLE in roles:
        # Models read the texts of candidates.
        roles = {TEXT: roles[TITLE], **{name: each for name, each in roles.items() if name != TITLE}}
    named = {**{each.name: each for each in mapping.profiles if each.name.startswith("own_")}, **roles}
    paths = {name: path for name, each in named.items() if PATH.fullmatch(path := _path(each))}
    # Nothing filters by what is in a string.
    fields = {name: path for name, path in paths.items() if name != path and ("#" not in path or name not in FILTERED)}
    whole = len(layout.ids) == 1
    if whole and any(each.column == "id" for each in mapping.profiles):
        fields = {name: path for name, path in fields.items() if path != "id"} | {"own_id": "id"}
    ours = {path: name for name, path in fields.items()}
    indexes = {rename(path, ours): kind for path, kind in layout.indexes.items() if kind in _INDEXED}
    indexes = {name: kind for name, kind in indexes.items() if INDEXABLE.fullmatch(name) and name[0] != "_"}
    lacking = {name: kind for name, kind in mapping.qdrant.get("indexes", {}).items() if name not in indexes}
    dense, spaced = layout.dense, NAMESPACE in roles
    section = {
        "dimension": layout.vectors[dense].get("size") if dense is not None else None,
        "vectors": {**({"dense": dense} if dense is not None else {}), "sparse": layout.terms, "tokens": None},
        "fields": fields,
        "ids": next(iter(layout.ids)) if whole else "payload",
        "namespaces": None if spaced else "none",
        "indexes": indexes,
    }
    remarks = [*describe_absent(roles), *layout.describe_vectors()]
    if lacking:
        wanted = ", ".join(f"{name}: {kind}" for name, kind in lacking.items())
        cure = "name them in qdrant.indexes, and `rankstream collections --add-indexes` adds them"
        remarks.append(("no index", f"{wanted}. Filters on them read every point: {cure}"))
    if marked := [name for form in ("html", "markdown") for name in mapping.documents.get(form, {}).get("fields", ())]:
        remarks.append(("markup", f"{', '.join(marked)}: shown as stored"))
    if not whole and "id" not in roles:
        remarks.append(("id", "ids are whole numbers and UUIDs, and no field is another one in each payload"))
    return replace(
        mapping,
        roles=roles,
        documents={},
        qdrant={name: value for name, value in section.items() if value},
        namespaces=mapping.namespaces if spaced else [(layout.name, layout.points)],
        remarks=remarks,
    )


def _is_read(role: str, form: Form, values: list[Any]) -> bool:
    """True if a field of another tool's can have this role as it is written: namespaces are texts, times of a form."""
    if role == NAMESPACE:
        return set(map(type, values)) == {str}
    return role in {"id", TITLE, TEXT, "lang"} or _FORMS.issuperset([form] if isinstance(form, str) else form)


def _path(each: FieldProfile) -> str:
    """The field's path in the payload: names that need it are in quotes, and `#` goes into a string."""
    return ".".join("#".join(map(quote_name, name.split("#", 1))) for name in each.names)
