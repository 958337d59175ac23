r"""The formats that other processes read, or read again later: each one's bytes for values that are fixed here.

As a program it prints them as JSON, of whatever version of rankstream it runs with. So the file of the version before
was made:

    PYTHONSAFEPATH=1 PYTHONPATH=tests/data/rankstream-0.1.0-py3-none-any.whl \
        .venv/bin/python tests/upgrade/formats.py > tests/data/formats-0.1.0.json
"""

import json
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, Final

from operators.delivery.tracker import encode
from operators.query.cursor import After, Cursor, CursorCodec
from schemas.document import point_id

# 0.1.0, whose code runs this, too, has no room `wire`.
_WIRE: Final = find_spec("operators.wire") is not None
Origin: Any = import_module("operators.wire.message" if _WIRE else "operators.query.message").Origin
result_id: Any = import_module("operators.wire.message" if _WIRE else "operators.query.result").result_id
# Its watermark has a module of its own.
_DOCUMENT: Final = "operators.indexing.document" if _WIRE else "operators.indexing.watermark"
watermark: Any = import_module(_DOCUMENT).watermark
PoolSlice: Any = getattr(import_module("operators.query.cursor"), "PoolSlice" if _WIRE else "Offset")

QUERY, STATE = bytes(range(16)), bytes(range(240, 256))

CODECS: Final = {"signed": CursorCodec(b"a secret of this deployment"), "checksummed": CursorCodec(None)}

CURSORS: Final = {
    "a slice of a pool": Cursor(QUERY, None, 0.0, PoolSlice(20, 100)),
    "a slice far down, with a state": Cursor(QUERY, STATE, 1_700_000_000.25, PoolSlice(2**32 - 1, 2**16 - 1)),
    "records without an order value": Cursor(QUERY, STATE, -1.5, After(None, 7)),
    "an integer": Cursor(STATE, QUERY, 1_700_000_000.25, After(1_700_000_000_123, 2)),
    "a negative integer": Cursor(STATE, None, 1_700_000_000.0, After(-(2**63), 0)),
    "a float": Cursor(STATE, QUERY, 1_700_000_000.0, After(-0.75, 1)),
}

COMMITS: Final = {
    "nothing beyond the position": (17, []),
    "one": (17, [18]),
    "a run and one": (0, [3, 4, 5, 9]),
    "gaps and runs of two bytes": (2**40, [2**40 + 200, *range(2**40 + 1000, 2**40 + 1300)]),
    "every second one": (1_000_000, [1_000_001 + 2 * n for n in range(512)]),
}
"""Position, and the offsets beyond it that are answered."""

WATERMARKS: Final = {
    "usual names": ("docs", "default", 3, 17),
    "other names": ("docs|old", "Zürich", 0, 2**53),
}
"""Collection, namespace, partition and offset of the document."""

DOCUMENTS: Final = {
    "usual names": ("default", "default", "faq-12"),
    "without a name": ("", "", ""),
    "other names": ("a|b", "Zürich", "x" * 300),
}
"""Destination, namespace and id."""

PLACES: Final = {
    "the first": ("queries", 0, 0),
    "another": ("team.queries", 11, 2**40 + 7),
}
"""Topic, partition and offset of the query."""


def formats() -> dict[str, Any]:
    """All of them, as JSON's types."""
    return {
        "cursors": {
            kind: {name: codec.write(cursor) for name, cursor in CURSORS.items()} for kind, codec in CODECS.items()
        },
        "commits": {name: encode(position, done).metadata for name, (position, done) in COMMITS.items()},
        "watermarks": {name: _watermark(*value) for name, value in WATERMARKS.items()},
        "point_ids": {name: point_id(*value) for name, value in DOCUMENTS.items()},
        "result_ids": {name: result_id(Origin(*value, epoch=1)) for name, value in PLACES.items()},
    }


def _watermark(collection: str, namespace: str, partition: int, offset: int) -> list[str]:
    """Key and value of the record for an applied document."""
    message = SimpleNamespace(origin=Origin("documents", partition, offset, 1))
    # `held` is the attribute's name in 0.1.0, whose code runs this, too.
    names = {"collection": collection, "physical": collection, "held": collection}
    applied: Any = SimpleNamespace(message=message, namespace=namespace, **names)
    record = watermark(applied, "watermarks")
    assert record.key is not None
    assert record.value is not None
    return [record.key.decode(), record.value.decode()]


if __name__ == "__main__":
    print(json.dumps(formats(), indent=2, ensure_ascii=False))
