"""Rows: an object of another program, such as a row of a database, becomes a document event.

- `columns` say which column has which field of a document. Such a field comes from that column alone. All other columns
  stay as they are. A field with a path, such as `location.lat`, comes into its object.
- Debezium's rows come flattened, or with the row before and after a change. `__deleted` or the operation `d` makes a
  row a deletion. Names that begin with two underscores are Debezium's own, and are left out.
- Its version is `__source_ts_ms`, or else `__ts_ms`, unless a column has `updated_at`.
- A row may be behind the envelope of Kafka Connect's JSON converter, next to its schema.
- An integer is a text as an id and as a namespace.
- A text that is not of its field's format stays as it is. As a time of creation or change it is left out, as one among
  hundreds is that says n/a, unless it is one of rankstream's own times; without a format such a time is refused.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial, reduce
from typing import Any, Final

from operators.mapping.formats import UNREADABLE, Form, is_of, read_value
from schemas.errors import DeadLetterClass, InputError
from schemas.fields import merge_objects
from schemas.filters import KEY, names_of, value_at
from schemas.settings.delivery import DocumentSettings

_TIMES: Final = ("__source_ts_ms", "__ts_ms")
_NAMES: Final = ("id", "namespace")
_MOMENTS: Final = ("created_at", "updated_at")
_CONNECT: Final = {"schema", "payload"}
_CHANGE: Final = {"before", "after", "op"}


def column_value(row: Mapping[str, Any], column: str) -> Any:
    """The value of a column, or of a field inside of an object; None if it is not there."""
    if column in row:
        return row[column]
    return value_at(row, column) if len(names_of(column)) > 1 else None


def rename_columns(row: dict[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    """The row with the fields of a document in place of the columns that have them."""
    found = {
        field: value
        for field, column in columns.items()
        if (value := column_value(row, column)) is not None or column in row
    }
    taken = {*columns, *columns.values()}
    for column in columns.values():
        if column not in row and len(names := names_of(column)) > 1:
            row = change_values(row, names, lambda _: None)
    inside = {name: found.pop(name) for name in [*found] if "." in name and KEY.fullmatch(name)}
    event = {**{name: value for name, value in row.items() if name not in taken}, **found}
    return reduce(lambda event, name: merge_objects(event, nest(name, inside[name])), inside, event)


def nest(path: str, value: Any) -> Any:
    """The value in the objects on the way to it."""
    for name in reversed(names_of(path)):
        value = {name: value}
    return value


def unwrap(row: dict[str, Any]) -> dict[str, Any]:
    """The flattened row of a message of Debezium's. Raises InputError `invalid` for a payload that is no row."""
    if row.keys() == _CONNECT:
        row = row["payload"]
        if not isinstance(row, dict):
            raise InputError(DeadLetterClass.INVALID, "payload: an object is expected", "payload")
    if row.keys() >= _CHANGE:
        state = row["before"] if row["op"] == "d" else row["after"]
        if not isinstance(state, dict):
            name = "before" if row["op"] == "d" else "after"
            raise InputError(DeadLetterClass.INVALID, f"{name}: an object is expected", name)
        stamp = value_at(row, "source.ts_ms")
        row = {**state, "__op": row["op"], "__source_ts_ms": stamp, "__ts_ms": row.get("ts_ms")}
    return row


def is_deleted(row: Mapping[str, Any]) -> bool:
    """True for the flattened row of a deletion."""
    return row.get("__deleted") in (True, "true") or row.get("__op") == "d"


def read_row(row: dict[str, Any], documents: DocumentSettings) -> dict[str, Any]:
    """The document event of a row. Raises InputError `invalid` for a payload that is no row."""
    debezium = documents.envelope == "debezium"
    row = unwrap(row) if debezium else row
    event = name_by_texts(rename_columns(row, documents.columns))
    if debezium:
        event = {name: value for name, value in event.items() if not name.startswith("__")}
    if documents.ids == "content" and event.get("id") is None and "op" not in event:
        content = json.dumps(event, sort_keys=True, ensure_ascii=False)
        event["id"] = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    for field, form in documents.formats.items():
        event = change_values(event, names_of(field), partial(_try_read, form, keep=field not in _MOMENTS))
    return _apply_change(event, row) if debezium else event


def _apply_change(event: dict[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """The event of a row of Debezium's with the operation and the version that the row says."""
    if is_deleted(row):
        # The other columns are those of the row before, or empty.
        kept = {name: event[name] for name in (*_NAMES, "destination", "collection", "updated_at") if event.get(name)}
        event = {**kept, "op": "delete"}
    if event.get("updated_at") is None:
        event.pop("updated_at", None)
        if (stamp := next((row[name] for name in _TIMES if type(row.get(name)) is int), None)) is not None:
            event["updated_at"] = stamp / 1000
    return event


def id_of(row: Mapping[str, Any], column: str) -> str | None:
    """The id of a document in this column, behind an envelope, too; None if it has none."""
    found = column_value(row, column)
    if found is None:
        with suppress(InputError):
            found = column_value(unwrap(dict(row)), column)
    return str(found) if found is not None else None


def name_by_texts(event: dict[str, Any]) -> dict[str, Any]:
    """The event with an id and a namespace that are texts where they are integers."""
    return {**event, **{name: str(event[name]) for name in _NAMES if type(event.get(name)) is int}}


def _try_read(form: Form, value: Any, *, keep: bool) -> Any:
    try:
        return read_value(form, value)
    except UNREADABLE:
        return value if keep or is_of("", value) else None


def change_values(event: dict[str, Any], names: tuple[str, ...], change: Callable[[Any], Any]) -> dict[str, Any]:
    """The event with another value of a field, each of a list; None is left out, and so is what is empty then."""
    if not names or (value := event.get(names[0])) is None:
        return event
    if len(names) > 1:
        made = change_values(value, names[1:], change) if isinstance(value, dict) else value
    elif isinstance(value, list):
        made = [new for each in value if (new := change(each)) is not None]
    else:
        made = change(value)
    if made in (None, {}, []):
        return {name: each for name, each in event.items() if name != names[0]}
    return {**event, names[0]: made}
