"""Patches: changes of single fields of a document, each with its version. Pure.

Rules
-----
- Of each field the value with the highest version holds; of equal versions the one that is applied last.
- An upsert is a version of all fields, those that it does not bring included.
- So upserts and patches with different versions give one document, in whatever order they are applied.
- The index keeps the changed fields that hold over the document's upsert, with their versions and values. A later
  upsert drops those that are older than itself, and its own values hold.
- A write that depends on the patches that it has read is applied only while the index has the same ones. They are
  compared by the hash that was written with them: the index may give a number back with another last digit.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from schemas.document import LANG, PATCHED, PATCHES, TEXT, VECTOR
from schemas.errors import invalid

Patches = Mapping[str, tuple[int, Any]]
"""Changed fields: version and value of each; a value of None is a field that was removed."""

NO_PATCHES: Final[Patches] = {}

_CONTENT: Final = ("title", TEXT, VECTOR, LANG)


def check(changes: Mapping[str, Any], searched: Iterable[str]) -> None:
    """Raise InputError `invalid` for a change of a field that is embedded or searched by words."""
    roots = {*_CONTENT, *(path.partition(".")[0] for path in searched)}
    if found := sorted(roots & changes.keys()):
        problem = "a patch changes no field that is embedded or searched by words; send an upsert of the whole document"
        raise invalid(found[0], problem, changes[found[0]])


def read(payload: Mapping[str, Any]) -> Patches:
    """The patches of a point, by its payload."""
    return {name: (version, value) for name, (version, value) in (payload.get(PATCHES) or {}).items()}


def add(patches: Patches, changes: Mapping[str, Any], version: int, *, again: bool) -> Patches:
    """The patches after one more, of this version; `again`: it was written, and holds unless it is not there."""
    least = version - again
    holding = {
        name: (version, value) for name, value in changes.items() if name not in patches or patches[name][0] <= least
    }
    return {**patches, **holding}


def over(patches: Patches, version: int) -> Patches:
    """The patches that hold over an upsert of this version, which is applied after them."""
    return {name: patch for name, patch in patches.items() if patch[0] > version}


def fields(patches: Patches) -> dict[str, Any]:
    """The payload fields that keep these patches; None removes a field."""
    if not patches:
        return {PATCHES: None, PATCHED: None}
    return {PATCHES: {name: list(patch) for name, patch in sorted(patches.items())}, PATCHED: mark(patches)}


def mark(patches: Patches) -> int | None:
    """A 63-bit hash of patches; None of none."""
    if not patches:
        return None
    written = orjson.dumps(patches, option=orjson.OPT_SORT_KEYS)
    return int.from_bytes(hashlib.blake2b(written, digest_size=8).digest()) >> 1


def condition_of(found: object) -> dict[str, Any]:
    """The condition that a point has the patches with this hash; None: that it has none."""
    return {"is_empty": {"key": PATCHED}} if found is None else {"key": PATCHED, "match": {"value": found}}
