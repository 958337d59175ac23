"""Rows: a row of a database, as change data capture writes it, becomes a document event. Pure.

Rules
-----
- `columns` say which column has which field of a document. Such a field comes from that column alone. All other columns
  stay as they are.
- In the envelope `debezium`, a row is one of Debezium's that was flattened. `__deleted` or the operation `d` in `__op`
  makes it a deletion. Names that begin with two underscores are Debezium's own, and are left out.
- Its version is `__source_ts_ms`, or else `__ts_ms`, unless a column has `updated_at`.
- A row may be behind the envelope of Kafka Connect's JSON converter, next to its schema.
- A message without value is a deletion, whose key has the columns of the id and of the namespace.
- An integer is a text as an id and as a namespace.
"""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from schemas.errors import DeadLetterClass, InputError

_OWN: Final = "__"
_DELETED: Final = "__deleted"
_OPERATION: Final = "__op"
_TIMES: Final = ("__source_ts_ms", "__ts_ms")
_NAMES: Final = ("id", "namespace")
_CONNECT: Final = {"schema", "payload"}


def rename(row: dict[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    """The row with the fields of a document in place of the columns that have them."""
    found = {field: row[column] for field, column in columns.items() if column in row}
    taken = {*columns, *columns.values()}
    return {**{name: value for name, value in row.items() if name not in taken}, **found}


def from_debezium(row: dict[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    """The document event of a flattened row. Raises InputError `invalid` for a payload that is no row."""
    row = _payload(row)
    own = {name: value for name, value in row.items() if name.startswith(_OWN)}
    event = rename(row, columns)
    event = {name: value for name, value in event.items() if not name.startswith(_OWN)}
    for name in _NAMES:
        if type(event.get(name)) is int:
            event[name] = str(event[name])
    if own.get(_DELETED) in (True, "true") or own.get(_OPERATION) == "d":
        # The other columns are those of the row before, or empty.
        kept = {name: event[name] for name in (*_NAMES, "destination", "collection", "updated_at") if event.get(name)}
        event = {**kept, "op": "delete"}
    if event.get("updated_at") is None:
        event.pop("updated_at", None)
        if (stamp := next((own[name] for name in _TIMES if type(own.get(name)) is int), None)) is not None:
            event["updated_at"] = stamp / 1000
    return event


def read_tombstone(key: bytes | None, columns: Mapping[str, str]) -> dict[str, Any]:
    """The deletion that a message without value stands for. Raises InputError `invalid` for a key without an id."""
    try:
        row = orjson.loads(key or b"")
    except orjson.JSONDecodeError:
        row = None
    event = from_debezium(row, columns) if isinstance(row, dict) else {}
    if event.get("id") is None:
        what = f"a message without value is a deletion, and its key has the column {columns.get('id', 'id')}"
        raise InputError(DeadLetterClass.INVALID, what, "key")
    return {"op": "delete", **{name: event[name] for name in _NAMES if event.get(name) is not None}}


def _payload(row: dict[str, Any]) -> dict[str, Any]:
    if row.keys() != _CONNECT:
        return row
    if not isinstance(row["payload"], dict):
        raise InputError(DeadLetterClass.INVALID, "payload: an object is expected", "payload")
    return row["payload"]
