"""The reader of a refusal, found in the shortest way there is: a second opinion on what is legible."""

import json


def legible(value: bytes | None) -> str | None:
    """The `query_id` of a plain message; None if there isn't exactly one, and a valid one."""
    value = (value or b"")[5 if value and value[0] == 0 else 0 :]
    try:
        pairs = json.loads(value.decode(), object_pairs_hook=tuple, parse_int=float)
    except (ValueError, RecursionError):
        return None
    found = [each for name, each in pairs if name == "query_id"] if isinstance(pairs, tuple) else []
    return found[0] if len(found) == 1 and isinstance(found[0], str) and 0 < len(found[0]) <= 512 else None


def is_plain(names: list[str]) -> bool:
    """True if a message with headers of these names is no CloudEvent."""
    return not {name.lower() for name in names} & {"content-type", "ce_specversion"}
