"""Tombstones: a message without value, as a compacted topic keeps it of what is deleted."""

from typing import Any

import orjson

from schemas.errors import DeadLetterClass, InputError


def tombstone(key: bytes | None) -> dict[str, Any]:
    """The deletion that a message without value stands for: its key is the JSON array `[namespace, id]`.

    Raises InputError `invalid` for any other key: an id alone may be anything, and be meant for no deletion.
    """
    try:
        named = orjson.loads(key or b"")
    except orjson.JSONDecodeError:
        named = None
    if not (isinstance(named, list) and len(named) == 2 and all(isinstance(name, str) for name in named)):
        raise InputError(
            DeadLetterClass.INVALID, 'a message without value is a deletion, and its key ["namespace", "id"]', "key"
        )
    namespace, id_ = named
    return {"op": "delete", "namespace": namespace, "id": id_}
