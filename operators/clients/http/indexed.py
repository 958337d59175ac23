"""Answers whose entries name by index what they answer."""

from contextlib import suppress
from typing import Any

from schemas.errors import BackendBadResponse


def indexed(entries: object, key: str, count: int, *, backend: str) -> dict[int, Any]:
    """Read a list of objects {index, `key`} as index -> value; an index may be missing.

    Raises BackendBadResponse if it is anything else, or an index repeats or isn't one of 0..`count` - 1.
    """
    if not isinstance(entries, list):
        raise BackendBadResponse(f"{backend}: the entries are not a list")
    found: dict[int, Any] = {}
    # Nearly always all is well, which is told by all of them together.
    with suppress(KeyError, TypeError, IndexError):
        found = {entry["index"]: entry[key] for entry in entries}
        if len(found) == len(entries) and set(map(type, found)) <= {int} and found.keys() <= set(range(count)):
            return found
        found = {}
    for entry in entries:
        if not isinstance(entry, dict) or key not in entry:
            raise BackendBadResponse(f"{backend}: an entry without {key}")
        index = entry.get("index")
        if type(index) is not int or not 0 <= index < count:
            raise BackendBadResponse(f"{backend}: an index that was not asked for")
        if index in found:
            raise BackendBadResponse(f"{backend}: an index repeats")
        found[index] = entry[key]
    return found
